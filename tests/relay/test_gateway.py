"""Relay and gateway together: SDK in a box, pipe, gateway, a scripted upstream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from models.rig import KEY, everything_in, finished, gateway_over, setup_for
from models.scripted import ScriptedServer, vector_of

from harness.models.budget import Cap, Caps
from harness.models.gateway import Gateway
from relay.rig import SDKBox, started


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(key=KEY) as made:
        yield made


@contextmanager
def served(
    server: ScriptedServer, folder: Path, **options: Any
) -> Iterator[tuple[SDKBox, Gateway]]:
    """A box behind a gateway, both of this test."""
    folder.mkdir(exist_ok=True)
    with gateway_over(setup_for(server.url), folder, **options) as gateway:
        calls = gateway.for_box("OpenAISDK", "s0001")
        with started(folder / "logs", calls, routes=("openai",)) as box:
            yield box, gateway


def everything_asked(box: SDKBox) -> list[Any]:
    return [
        box.do("chat", temperature=0)["choices"][0]["message"]["content"],
        box.do("stream_joined")["choices"][0]["message"]["content"],
        box.do("astream"),
        box.do("responses")["output"][0]["content"][0]["text"],
        box.do("responses_stream")[1]["output"][0]["content"][0]["text"],
        box.do("embed", input=["tea", "绿茶"]),
        box.do("models"),
    ]


def test_every_kind_of_request_passes_and_is_counted(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with served(server, tmp_path) as (box, gateway):
        made = everything_asked(box)
        rows = finished(gateway)
    assert all(text.startswith("reply ") for text in made[:5])
    assert made[5][0] == pytest.approx(vector_of("tea", server.dimension), abs=1e-6)
    assert made[6] == ["gpt-test", "embed-test"]
    assert len(rows) == 7
    assert KEY.encode() not in everything_in(tmp_path)


def test_a_replay_gives_the_same_without_an_upstream(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with served(server, tmp_path, run="r1") as (box, _):
        first = everything_asked(box)
    asked = server.count()
    with served(server, tmp_path, run="r2", mode="replay") as (box, _):
        assert everything_asked(box) == first
        assert box.do("error", temperature=0.5)[1:3] == [404, "REPLAY_MISS"]
    assert server.count() == asked


def test_retries_happen_on_the_host_only(server: ScriptedServer, tmp_path: Path) -> None:
    server.fail("rate_limited", times=2)
    with served(server, tmp_path) as (box, _):
        assert box.do("chat")["choices"]
        assert server.count() == 3
        server.fail("bad_request")
        assert box.do("error", temperature=0.1)[:2] == ["BadRequestError", 400]
        assert server.count() == 4, "the SDK tried again"


def test_refusals_and_an_empty_budget_reach_the_sdk(server: ScriptedServer, tmp_path: Path) -> None:
    with served(server, tmp_path, caps=Caps(run=Cap(calls=1))) as (box, _):
        assert box.do("error", model="another")[:3] == [
            "PermissionDeniedError",
            403,
            "MODEL_REFUSED",
        ]
        assert box.do("chat")["choices"]
        assert box.do("error", temperature=0.3)[:3] == ["APIStatusError", 402, "BUDGET_EXHAUSTED"]


def test_64_at_once_in_each_of_two_boxes(server: ScriptedServer, tmp_path: Path) -> None:
    setup = setup_for(server.url, concurrency=16)
    with gateway_over(setup, tmp_path) as gateway:
        for sample in ("s0001", "s0002"):
            calls = gateway.for_box("OpenAISDK", sample)
            with started(tmp_path / sample, calls, routes=("openai",)) as box:
                texts = box.do("many", n=64)
                assert [text.partition(" to: ")[2].split()[:2] for text in texts] == [
                    ["number", str(i)] for i in range(64)
                ]
        assert len(finished(gateway)) == 128
