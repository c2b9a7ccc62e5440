"""An unmodified OpenAI SDK in a box: what it asks comes to the host, what the host says comes back.

Only ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` tell it where to go.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.adapter import translate
from harness.models.failures import HTTP_STATUS
from harness.outcomes import AdapterFailure, SandboxFailure
from harness.sandbox.base import BoxRequest
from relay.rig import (
    LIMITS,
    ROOT,
    USAGE,
    Host,
    SDKBox,
    completion,
    failing,
    launcher,
    plain,
    reply,
    responded,
    said,
    started,
)

LONG = "Der Tee ist grün; 绿茶 🍵\u2028 " * 40
TOOLS = [
    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
    {"id": "c2", "type": "function", "function": {"name": "stop", "arguments": ""}},
]


def test_a_chat(sdk: SDKBox, host: Host) -> None:
    made = sdk.do("chat", temperature=0.25, seed=5)
    assert made == completion("you said hello")
    (asked,) = host.asked
    assert asked == {
        "route": "openai",
        "method": "POST",
        "path": "/v1/chat/completions",
        "body": {
            "model": "gpt-test",
            "messages": [{"role": "user", "content": "hello"}],
            "temperature": 0.25,
            "seed": 5,
        },
    }
    assert "degraded" not in sdk.last.meta
    assert sdk.last.meta["pending_calls"] == 0


def test_a_stream_comes_in_pieces_that_make_the_reply(sdk: SDKBox, host: Host) -> None:
    host.answer = lambda params: completion(LONG)
    chunks = sdk.do("stream")
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-1"}
    assert len(chunks) > 10
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == LONG
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any("usage" in chunk for chunk in chunks), "it was not asked for"
    assert host.asked[0]["body"]["stream"] is True


def test_the_token_counts_come_last_if_asked_for(sdk: SDKBox, host: Host) -> None:
    chunks = sdk.do("stream", stream_options={"include_usage": True})
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == USAGE


@pytest.mark.parametrize(
    "message",
    [
        completion(LONG),
        completion(""),
        completion(None, tool_calls=TOOLS),
        completion("Let me see.", tool_calls=TOOLS),
        completion(None, refusal="I would rather not say that. " * 5),
    ],
    ids=["text", "empty", "tools", "text and tools", "refusal"],
)
def test_the_sdk_joins_the_pieces_to_the_reply(
    sdk: SDKBox, host: Host, message: dict[str, Any]
) -> None:
    host.answer = lambda params: message
    made = sdk.do("stream_joined", stream_options={"include_usage": True})
    choice, expected = made["choices"][0], message["choices"][0]
    for field in ("content", "refusal"):
        assert (choice["message"].get(field) or None) == (expected["message"].get(field) or None)
    calls = choice["message"].get("tool_calls") or []
    assert [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
    ] == [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in expected["message"].get("tool_calls", [])
    ]
    assert choice["finish_reason"] == expected["finish_reason"]
    assert made["usage"] == USAGE


def test_several_choices_in_one_stream(sdk: SDKBox, host: Host) -> None:
    two = completion("first")
    second = {"role": "assistant", "content": "second"}
    two["choices"].append({"index": 1, "message": second, "finish_reason": "length"})
    host.answer = lambda params: two
    entries = [chunk["choices"][0] for chunk in sdk.do("stream", n=2)]
    texts = [
        "".join(e["delta"].get("content", "") for e in entries if e["index"] == i) for i in (0, 1)
    ]
    assert texts == ["first", "second"]
    ends = {e["index"]: e["finish_reason"] for e in entries if e["finish_reason"]}
    assert ends == {0: "stop", 1: "length"}


def test_an_asynchronous_stream(sdk: SDKBox, host: Host) -> None:
    host.answer = lambda params: completion(LONG)
    assert sdk.do("astream") == LONG


def test_responses(sdk: SDKBox, host: Host) -> None:
    made = sdk.do("responses", instructions="be kind")
    assert made == responded(said("you said hello"))
    assert host.asked[0]["path"] == "/v1/responses"
    assert host.asked[0]["body"]["instructions"] == "be kind"


def test_a_stream_of_responses_is_in_order_and_whole(sdk: SDKBox, host: Host) -> None:
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Thinking of tea."}],
    }
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "add",
        "arguments": '{"a": 1}',
        "status": "completed",
    }
    host.answer = lambda params: responded(thought, said(LONG[:100]), call)
    kinds, final = sdk.do("responses_stream")
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert final["output"][1]["content"][0]["text"] == LONG[:100]
    assert final["output"][2]["arguments"] == '{"a": 1}'
    assert final["usage"]["total_tokens"] == 7


def test_responses_that_stopped_early(sdk: SDKBox, host: Host) -> None:
    cut = responded(
        said("half an ans"),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    host.answer = lambda params: cut
    kinds, final = sdk.do("responses_stream")
    assert kinds[-1] == "response.incomplete"
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}


def test_embeddings(sdk: SDKBox, host: Host) -> None:
    assert sdk.do("embed", input=["a", "abc"]) == [[1.0, 0.5], [3.0, 0.5]]
    assert host.asked[0]["body"]["input"] == ["a", "abc"]


def test_models(sdk: SDKBox, host: Host) -> None:
    assert sdk.do("models") == ["gpt-test"]
    assert host.asked == [{"route": "openai", "method": "GET", "path": "/v1/models"}]


def test_64_at_once(sdk: SDKBox, host: Host) -> None:
    assert sdk.do("many", n=64) == [f"you said number {i}" for i in range(64)]


def test_more_than_may_be_on_the_pipe_at_once_wait_in_the_box(tmp_path: Path) -> None:
    host = Host()
    peak = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        if len(host.asked) == 64:
            host.released.wait(0.5)  # a 65th would come now
            peak.append(len(host.asked))
            host.released.set()
        return host.hold(params)

    host.answer = answer
    with started(tmp_path, host) as box:
        assert box.do("many", n=100) == [f"you said number {i}" for i in range(100)]
    assert peak == [64]


def test_20_megabytes_each_way(sdk: SDKBox, host: Host) -> None:
    host.answer = lambda params: completion("y" * 20_000_000)
    assert sdk.do("big", bytes=20_000_000) == 20_000_000
    sent = host.asked[0]["body"]["messages"][0]["content"][0]["image_url"]["url"]
    assert len(sent) == 20_000_000 + len("data:image/png;base64,")


def test_what_does_not_fit_through_the_pipe_is_said_in_both_directions(tmp_path: Path) -> None:
    host = Host()
    with started(tmp_path, host) as box:
        name, status, code, message = box.do("error", bytes=64 * 1024 * 1024 - 100)
        assert (name, status, code) == ("APIStatusError", 413, "RELAY_413")
        assert "over the limit" in message
        host.answer = lambda params: completion("y" * (65 * 1024 * 1024))
        name, status, code, message = box.do("error")
        assert (status, code) == (502, "MESSAGE_TOO_LARGE")
        host.answer = None
        assert box.do("chat")["choices"], "the box lives on"


def test_an_upstream_s_own_error_raises_what_it_would_have_raised(sdk: SDKBox, host: Host) -> None:
    inner = {"message": "slow down", "type": "rate", "param": None, "code": "rate_limit_exceeded"}
    host.answer = lambda params: reply({"error": inner}, 429, **{"retry-after": "1"})
    name, status, code, message = sdk.do("error")
    assert (name, status, code) == ("RateLimitError", 429, "rate_limit_exceeded")
    assert "slow down" in message
    assert len(host.asked) == 1, "the SDK tried again, although the host has"


@pytest.mark.parametrize(
    ("kind", "raised", "status"),
    [
        ("MODEL_REFUSED", "PermissionDeniedError", 403),
        ("BUDGET_EXHAUSTED", "APIStatusError", 402),
        ("REPLAY_MISS", "NotFoundError", 404),
        ("MODEL_TIMEOUT", "InternalServerError", 504),
        ("HOST_ERROR", "InternalServerError", 500),
    ],
)
def test_the_host_s_refusals_are_typed(
    sdk: SDKBox, host: Host, kind: str, raised: str, status: int
) -> None:
    host.answer = failing(kind, "not today")
    name, code_of_http, code, message = sdk.do("error")
    assert (name, code_of_http, code) == (raised, status, kind)
    assert "not today" in message
    assert len(host.asked) == 1


def test_a_stream_that_fails_is_an_error_and_no_stream(sdk: SDKBox, host: Host) -> None:
    host.answer = failing("MODEL_UPSTREAM", "boom")
    assert sdk.do("error", stream=True)[1:3] == [500, "MODEL_UPSTREAM"]


@pytest.mark.parametrize(
    "made",
    [{"status": 99, "headers": {}, "body": {}}, {"status": "?", "headers": {}, "body": {}}],
)
def test_a_reply_that_is_none_is_said_to_the_client(sdk: SDKBox, host: Host, made: Any) -> None:
    host.answer = lambda params: made
    assert sdk.do("error")[1:3] == [500, "PROTOCOL"]


def test_a_stream_of_a_reply_in_odd_shape_is_an_error(sdk: SDKBox, host: Host) -> None:
    host.answer = lambda params: {"choices": ["what"]}
    assert sdk.do("error", stream=True)[1:3] == [500, "PROTOCOL"]
    host.answer = None
    assert sdk.do("chat") == completion("you said hello")


def test_the_host_and_the_box_agree_on_the_status_of_failures() -> None:
    common = {kind: translate.HTTP_STATUS.get(kind) for kind in HTTP_STATUS}
    assert common == HTTP_STATUS


def test_half_a_character_is_refused_and_the_box_lives_on(sdk: SDKBox, host: Host) -> None:
    assert sdk.do("half_character") == [400, "RELAY_400"]
    assert host.asked == []
    assert sdk.do("chat") == completion("you said hello")


def test_a_vendor_s_cloud_is_a_route_of_its_own(sdk: SDKBox, host: Host) -> None:
    expected = {
        "route": "memcloud",
        "method": "POST",
        "path": "/v2/memories?limit=3",
        "body": {"text": "tea"},
    }
    assert sdk.do("vendor") == {"echo": expected}
    assert host.asked == [expected]


def test_another_key_does_not_open_it(sdk: SDKBox, host: Host) -> None:
    assert sdk.do("wrong_token") == [401, "RELAY_401"]
    assert host.asked == []


def test_a_box_knows_its_relay_before_its_adapter_is_imported(sdk: SDKBox, host: Host) -> None:
    seen = sdk.do("environment")
    env = seen["env"]
    assert env["OPENAI_BASE_URL"] == env["OPENAI_API_BASE"] == seen["model_url"]
    assert env["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert env["OPENAI_BASE_URL"].endswith("/v1")
    assert env["OPENAI_API_KEY"] == seen["model_token"]
    assert len(seen["model_token"]) > 40


def test_tokens_are_a_box_s_own(sdk: SDKBox, host: Host, tmp_path: Path) -> None:
    with started(tmp_path, host) as other:
        assert other.do("environment")["model_token"] != sdk.do("environment")["model_token"]


# Clients that hang up


def test_a_client_that_hung_up_degrades_the_call(tmp_path: Path) -> None:
    host = Host()
    host.answer = host.hold
    with started(tmp_path, host) as box:
        name, seconds = box.do("give_up", timeout=0.3)
        assert name == "APITimeoutError"
        assert 0.2 < seconds < 5
        assert box.last.meta["degraded"] == ["client_timeout"]
        assert box.last.meta["pending_calls"] == 1, "the host has not answered yet"
        host.released.set()
        assert box.do("chat") == completion("you said hello")
        assert "degraded" not in box.last.meta, "that was the call before"


def test_a_reply_that_comes_after_its_client_has_left(tmp_path: Path) -> None:
    """The pool of the SDK may use the connection again: no reply may reach another request."""
    host = Host()

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        if len(host.asked) == 1:
            host.released.wait(1.0)
            return completion("too late")
        return plain(params)

    host.answer = answer
    with started(tmp_path, host) as box:
        box.do("give_up", timeout=0.3)
        assert box.last.meta["degraded"] == ["client_timeout"]
        for _ in range(5):
            assert box.do("chat") == completion("you said hello")
            assert "degraded" not in box.last.meta


def test_a_failed_call_keeps_its_hang_ups_to_itself(tmp_path: Path) -> None:
    host = Host()
    host.answer = host.hold
    with started(tmp_path, host) as box:
        with pytest.raises(AdapterFailure, match="APITimeoutError"):
            box.do("give_up_and_fail", timeout=0.3)
        host.released.set()
        box.do("chat")
        assert "degraded" not in box.last.meta


def test_a_request_whose_client_left_while_it_waited_is_never_sent(tmp_path: Path) -> None:
    """64 are open; the 65th waits for a slot, its client leaves, so nothing is paid for it."""
    host = Host()
    host.answer = host.hold
    with started(tmp_path, host) as box:
        box.do("leave_behind", n=64)
        while len(host.asked) < 64:
            host.released.wait(0.01)
        box.do("give_up", timeout=0.3)
        assert box.last.meta["degraded"] == ["client_timeout"]
        host.released.set()
        assert box.do("left_behind") == 64
        assert box.do("chat") == completion("you said hello")
    assert len(host.asked) == 64 + 1


# A box without routes


def test_a_box_without_routes_has_no_relay(tmp_path: Path) -> None:
    with started(tmp_path, Host(), routes=(), OPENAI_API_KEY="none") as box:
        seen = box.do("environment")
    assert seen["model_url"] is None
    assert seen["model_token"] is None
    assert seen["relay_imported"] is False
    assert "OPENAI_BASE_URL" not in seen["env"]


def test_starting_a_box_without_routes_costs_no_import_of_the_relay() -> None:
    code = "import sys, harness.adapter.serve; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "harness.adapter.serve" in loaded
    unwanted = {f"harness.adapter.{name}" for name in ("relay", "translate", "sse", "http11")}
    unwanted |= {"harness.adapter.clock", "time_machine", "asyncio", "http", "secrets"}
    assert not loaded & unwanted


def test_routes_must_be_names(tmp_path: Path) -> None:
    request = BoxRequest("s0001", 7, {}, tmp_path, (1,))  # type: ignore[arg-type]
    with pytest.raises(SandboxFailure, match="routes must be a list of names"):
        launcher(LIMITS).start(request)
