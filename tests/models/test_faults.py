"""Everything an upstream can do wrong: each a typed outcome, one clear message, no key in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from harness.models.gateway import Gateway
from harness.outcomes import ModelFailure
from models.rig import (
    KEY,
    chat,
    embed,
    everything_in,
    finished,
    gateway_over,
    said,
    setup_for,
)
from models.scripted import ScriptedServer


def failure_in(gateway: Gateway, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make a request that fails; returns the failure of its ledger row."""
    box = gateway.for_box("RAG", "s0001")
    with box.during("end_session") as report:
        try:
            reply = box(params or chat(temperature=0))
        except ModelFailure as failure:
            assert failure.message
        else:
            assert reply["status"] >= 400, reply
            assert reply["headers"]["x-should-retry"] == "false"
            assert reply["body"]["error"]
    assert report.failed == 1
    row = finished(gateway)[-1]
    assert row["outcome"] != "ok"
    found: dict[str, Any] = row["failure"]
    return found


@pytest.mark.parametrize(
    ("fault", "options", "kind", "asked"),
    [
        ("server_error", {}, "MODEL_UPSTREAM", 6),
        ("overloaded", {}, "MODEL_UPSTREAM", 6),
        ("unauthorized", {}, "MODEL_AUTH", 1),
        ("quota", {}, "MODEL_QUOTA", 1),
        ("unknown_model", {}, "MODEL_UNKNOWN", 1),
        ("bad_request", {}, "MODEL_BAD_REQUEST", 1),
        ("reset", {}, "MODEL_UNREACHABLE", 5),
        ("short", {}, "MODEL_UNREACHABLE", 5),
        ("truncated", {}, "MODEL_BAD_REPLY", 3),
        ("empty", {}, "MODEL_BAD_REPLY", 3),
        ("html", {}, "MODEL_BAD_REPLY", 3),
        ("half_character", {}, "MODEL_BAD_REPLY", 3),
        ("error_in_200", {}, "MODEL_UPSTREAM", 6),
        ("huge", {"megabytes": 64}, "MODEL_REPLY_TOO_LARGE", 1),
    ],
)
def test_a_fault_that_stays(
    server: ScriptedServer,
    tmp_path: Path,
    fault: str,
    options: dict[str, Any],
    kind: str,
    asked: int,
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        with server.always(fault, **options):
            assert failure_in(gateway)["kind"] == kind
        assert server.count() == asked
        assert finished(gateway)[-1]["attempts"] == asked
        # Never recorded: the next one is asked for anew, and works.
        assert said(gateway.for_box("RAG", "s0001")(chat(temperature=0)))
    assert KEY.encode() not in everything_in(tmp_path)


@pytest.mark.parametrize("fault", ["server_error", "reset", "truncated", "rate_limited"])
def test_a_fault_that_passes_is_retried(server: ScriptedServer, tmp_path: Path, fault: str) -> None:
    server.fail(fault, times=2)
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        assert said(gateway.for_box("RAG", "s0001")(chat()))
        assert finished(gateway)[0]["attempts"] == 3


def test_retry_after_is_honoured(server: ScriptedServer, tmp_path: Path) -> None:
    server.fail("rate_limited", retry_after=0.4)
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        began = time.monotonic()
        gateway.for_box("RAG", "s0001")(chat())
        assert 0.4 <= time.monotonic() - began < 2


def test_a_rate_limit_is_waited_out_until_patience_ends(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url, patience_s=0.5), tmp_path) as gateway:
        with server.always("rate_limited"):
            began = time.monotonic()
            assert failure_in(gateway)["kind"] == "MODEL_RATE_LIMITED"
            assert time.monotonic() - began < 2
        assert server.count() > 3


def test_half_of_all_requests_limited_and_no_record_failed(
    server: ScriptedServer, tmp_path: Path
) -> None:
    for _ in range(20):
        server.fail("rate_limited", times=2)
        server.fail("refuse_field", field="no such field")  # lets one through
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        for n in range(20):
            box(chat(f"q{n}"))
        assert all(row["outcome"] == "ok" for row in finished(gateway))


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_hang_ends_at_the_deadline(server: ScriptedServer, tmp_path: Path, fault: str) -> None:
    with gateway_over(setup_for(server.url, timeout_s=0.3), tmp_path) as gateway:
        with server.always(fault):
            began = time.monotonic()
            assert failure_in(gateway)["kind"] == "MODEL_TIMEOUT"
            assert time.monotonic() - began < 3
        assert server.count() == 2
        assert finished(gateway)[-1]["charged"]["calls"] == 1, "it may have been billed"


def test_a_stream_that_breaks_is_no_reply(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url, stream=True), tmp_path) as gateway:
        with server.always("reset"):
            assert failure_in(gateway)["kind"] == "MODEL_UNREACHABLE"
        server.fail("reset")
        assert said(gateway.for_box("RAG", "s0001")(chat())).startswith("reply")


def test_fifty_megabytes_pass(server: ScriptedServer, tmp_path: Path) -> None:
    server.fail("huge", megabytes=50)
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        assert len(said(gateway.for_box("RAG", "s0001")(chat(temperature=0)))) == 50_000_000
        assert len(said(gateway.for_box("RAG", "s0001")(chat(temperature=0)))) == 50_000_000
    assert server.count() == 1


def test_nobody_listens(tmp_path: Path) -> None:
    with gateway_over(setup_for("http://127.0.0.1:9/v1"), tmp_path) as gateway:
        failure = failure_in(gateway)
    assert failure["kind"] == "MODEL_UNREACHABLE"
    assert "127.0.0.1:9" in failure["message"]


def test_a_missing_key_is_said_before_anything_is_sent(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url, key=None), tmp_path) as gateway:
        failure = failure_in(gateway)
    assert failure["kind"] == "MODEL_AUTH"
    assert "OPENAI_API_KEY is not set" in failure["message"]
    assert server.requests == []


def test_a_wrong_key_is_in_no_file_and_no_reply(server: ScriptedServer, tmp_path: Path) -> None:
    wrong = "sk-wrong-fedcba9876543210"
    with gateway_over(setup_for(server.url, key=wrong), tmp_path) as gateway:
        reply = gateway.for_box("RAG", "s0001")(chat())
        assert reply["status"] == 401
        assert wrong not in str(reply), "the server quoted it"
        assert finished(gateway)[0]["failure"]["kind"] == "MODEL_AUTH"
    assert wrong.encode() not in everything_in(tmp_path)


def test_vectors_of_another_dimension(server: ScriptedServer, tmp_path: Path) -> None:
    setup = setup_for(server.url)
    with gateway_over(setup, tmp_path) as gateway:
        gateway.for_box("RAG", "s0001")(embed("a"))
    server.dimension = 16
    with gateway_over(setup, tmp_path, run="r2") as gateway:
        failure = failure_in(gateway, embed("b"))
        assert failure["kind"] == "EMBEDDING_DIMENSION"
        assert "8" in failure["message"]
        assert "16" in failure["message"]
        assert failure_in(gateway, embed("c", encoding_format="base64"))["kind"] == (
            "EMBEDDING_DIMENSION"
        )
        # Asked for by name, another length is no surprise.
        assert gateway.for_box("RAG", "s0001")(embed("d", dimensions=4))["status"] == 200


def test_a_prompt_that_was_cut(tmp_path: Path) -> None:
    with ScriptedServer() as server, gateway_over(setup_for(server.url), tmp_path) as gateway:
        # The scripted server counts words: one word of 30,000 letters is one token to it.
        unlike = "".join(chr(97 + n * 7 % 26) for n in range(30_000))
        failure = failure_in(gateway, chat(unlike))
        assert failure["kind"] == "TRUNCATED_PROMPT"
        assert said(gateway.for_box("RAG", "s0001")(chat("word " * 6_000)))


def test_what_a_model_cannot_take_is_learned_once(server: ScriptedServer, tmp_path: Path) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        with server.always(
            "refuse_field",
            field="max_tokens",
            message="Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
        ):
            box(chat("one", max_tokens=50, temperature=0))
            box(chat("two", max_tokens=50, temperature=0))
        row = finished(gateway)[-1]
    assert [
        ("max_tokens" in a.body, a.body.get("max_completion_tokens")) for a in server.requests
    ] == [
        (True, None),
        (False, 50),
        (False, 50),
    ]
    assert row["rewrites"] == ["max_tokens is sent as max_completion_tokens"]
    with gateway_over(setup_for(server.url), tmp_path, run="r2") as gateway:
        gateway.for_box("RAG", "s0001")(chat("three", max_tokens=50))
    assert server.requests[-1].body["max_completion_tokens"] == 50, "remembered in the cassette"


@pytest.mark.parametrize(
    ("field", "message", "sent", "left"),
    [
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0 with this model. "
            "Only the default (1) value is supported.",
            {"temperature": 0},
            None,
        ),
        (
            "response_format",
            "response_format json_schema is not supported",
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {}},
                }
            },
            {"type": "json_object"},
        ),
        ("response_format", "unknown field", {"response_format": {"type": "json_object"}}, None),
    ],
)
def test_fields_that_are_refused(
    tmp_path: Path, field: str, message: str, sent: dict[str, Any], left: object
) -> None:
    with ScriptedServer() as server, gateway_over(setup_for(server.url), tmp_path) as gateway:
        server.fail("refuse_field", field=field, message=message)
        assert gateway.for_box("RAG", "s0001")(chat(**sent))["status"] == 200
        assert server.requests[-1].body.get(field) == left


def test_a_value_that_is_too_large_is_the_clients_mistake(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        server.fail(
            "refuse_field",
            field="max_tokens",
            message="max_tokens is too large: 9000. This model supports at most 4096 "
            "completion tokens, whereas you provided 9000.",
        )
        assert gateway.for_box("RAG", "s0001")(chat(max_tokens=9000))["status"] == 400


def test_closing_ends_what_is_open(server: ScriptedServer, tmp_path: Path) -> None:
    import threading

    with gateway_over(setup_for(server.url, timeout_s=60), tmp_path) as gateway:
        failures: list[ModelFailure] = []

        def one() -> None:
            try:
                gateway.for_box("RAG", "s0001")(chat())
            except ModelFailure as failure:
                failures.append(failure)

        server.fail("hang")
        thread = threading.Thread(target=one)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        began = time.monotonic()
        gateway.backend.close()
        thread.join(10)
        assert time.monotonic() - began < 2
        assert [failure.kind for failure in failures] == ["GATEWAY_CLOSED"]
