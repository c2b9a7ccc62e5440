"""The relay where it belongs: in a container without a network, with a client built from a lock."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from models.rig import KEY, everything_in, finished, gateway_over, setup_for
from models.scripted import ScriptedServer

from harness.catalog import Catalog
from harness.config import EvalConfig
from harness.sandbox.base import BoxRequest
from harness.sandbox.factory import ImageLauncher, make_launcher
from harness.settings import Settings
from relay.rig import BOXES, SDKBox

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

THEN = "2023-05-08T13:56:00"


@pytest.fixture(scope="module")
def launcher() -> ImageLauncher:
    baseline = Catalog([BOXES]).get("OpenAISDK")
    config = EvalConfig(Path(), baseline.name, Path(), sandbox="container")
    made = make_launcher(baseline, config, Settings.load())
    assert isinstance(made, ImageLauncher)
    assert made.prepare()["clock"] == "session"
    return made


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(key=KEY) as made:
        yield made


def test_a_third_party_client_without_a_network(
    launcher: ImageLauncher, server: ScriptedServer, tmp_path: Path
) -> None:
    """Chat, streams, embeddings and responses pass; the key is nowhere near the container."""
    with gateway_over(setup_for(server.url), tmp_path) as gateway:
        calls = gateway.for_box("OpenAISDK", "s0001")
        request = BoxRequest("s0001", 7, {}, tmp_path / "logs", ("openai",))
        opened = launcher.start(request, calls)
        try:
            box = SDKBox(opened)
            assert "unreachable" in box.do("reach")
            assert box.do("chat")["choices"][0]["message"]["content"].startswith("reply ")
            assert (
                box.do("stream_joined", stream_options={"include_usage": True})["usage"][
                    "total_tokens"
                ]
                > 0
            )
            assert box.do("astream").startswith("reply ")
            assert box.do("responses")["status"] == "completed"
            assert box.do("responses_stream")[0][-1] == "response.completed"
            assert len(box.do("embed", input=["tea", "coffee"])) == 2
            assert box.do("models") == ["gpt-test", "embed-test"]
            assert len(box.do("many", n=64)) == 64
            assert box.do("big", bytes=20_000_000) > 0
            seen = json.dumps(box.do("environment"))
            inspected = inspect(opened.body.id)  # type: ignore[attr-defined]
        finally:
            opened.close()
        assert len(finished(gateway)) == 7 + 64 + 1
    assert server.count("/chat/completions") == 3 + 64 + 1
    for where in (seen, inspected):
        assert KEY not in where
    assert KEY.encode() not in everything_in(tmp_path)
    assert '"NetworkMode": "none"' in inspected
    shown = {asked.headers["authorization"] for asked in server.requests}
    assert shown == {f"Bearer {KEY}"}, "the key joins on the host"


def inspect(container: str) -> str:
    """What the engine knows about a container, as the user would see it."""
    done = subprocess.run(
        ["docker", "inspect", container], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_clock_of_a_container(launcher: ImageLauncher, tmp_path: Path) -> None:
    opened = launcher.start(BoxRequest("s0001", 7, {}, tmp_path, ("openai",)))
    try:
        box = SDKBox(opened)
        assert opened.hello["clock"] == "session"
        assert box.do("clock", time=THEN)["now"].startswith(THEN)
        assert all(0.19 < seconds < 5 for seconds in box.do("waits").values())
        # No model was given to this box: the relay says so, in the client's own terms.
        assert box.do("error")[:3] == ["InternalServerError", 503, "UNAVAILABLE"]
    finally:
        opened.close()
