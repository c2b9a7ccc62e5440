"""A run whose system gives up waiting for its model: the record says so."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import run_eval
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from harness.outcomes import Status
from harness.runs import Run
from harness.sandbox.base import Box, BoxRequest, ModelCall
from relay.rig import Host, launcher, plain

DATA = DrawnDataset(Shape(conversations=1, sessions=4, facts=3, updates=0, hearsay=0), seed=5)


@dataclass(frozen=True)
class Routed:
    """Boxes with a route, and a host behind them."""

    host: Host
    kind: str = "process"

    def prepare(self) -> dict[str, Any]:
        return {"clock": "session"}

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        request = replace(request, routes=("openai",), options={"timeout": 1.0})
        return launcher(MEMRIG_CLOCK="session").start(request, self.host)


def test_a_session_whose_client_hung_up_is_degraded(tmp_path: Path) -> None:
    host = Host()

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        number = len(host.asked)
        if number == 2:  # that of the second session; answered when the next one has come
            assert host.released.wait(30)
        if number == 3:
            host.released.set()
            time.sleep(0.2)
        return plain(params)

    host.answer = answer
    run_eval(
        EvalConfig(tmp_path, "Plain", tmp_path / "run"),
        load_domain_bundle=lambda _: DATA,
        launcher=Routed(host),
    )
    run = Run.open(tmp_path / "run")
    sessions = list(run.sessions())
    assert [record.status for record in sessions] == [
        Status.OK,
        Status.DEGRADED,
        Status.OK,
        Status.OK,
    ]
    assert sessions[1].degraded == ("client_timeout", "pending_calls")
    hello = run.hello()
    assert hello is not None
    assert hello["clock"] == "session"
    assert run.manifest.pipeline["box"]["clock"] == "session"
