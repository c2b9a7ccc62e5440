"""What one adapter call costs through a container, against the same call through a bare pipe."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from harness.catalog import Catalog
from harness.config import EvalConfig
from harness.sandbox.base import Box, BoxRequest, Launcher
from harness.sandbox.factory import make_launcher
from harness.sandbox.process import ProcessLauncher
from harness.settings import Settings
from perf.measure import Measure

ROOT = Path(__file__).resolve().parent.parent
ROW = "NoMemory"
BLOCKS = 20
CALLS = 100


def bare_pipe() -> Launcher:
    """The same program behind a pipe of this machine, nothing around it."""
    folder = Catalog().get(ROW).home
    return ProcessLauncher(
        argv=[sys.executable, "-m", "harness.adapter.serve"],
        env={"PYTHONPATH": f"{ROOT}:{folder}"},
        cwd=None,
        adapter=Catalog().get(ROW).adapter,
    )


def container() -> Launcher:
    """The row in its own container."""
    config = EvalConfig(Path(), ROW, Path(), sandbox="container")
    launcher = make_launcher(Catalog().get(ROW), config, Settings.load())
    launcher.prepare()
    return launcher


def call_cost() -> list[Measure]:
    """Medians over blocks of calls that alternate between the two boxes."""
    with tempfile.TemporaryDirectory() as logs:
        boxes = [
            launcher.start(BoxRequest("s0001", 0, {}, Path(logs) / name))
            for name, launcher in (("pipe", bare_pipe()), ("container", container()))
        ]
        times: list[list[float]] = [[], []]
        try:
            for block in range(BLOCKS + 1):
                for place, box in enumerate(boxes):
                    taken = _block(box)
                    times[place] += taken if block else []
        finally:
            for box in boxes:
                box.close()
    pipe_ms, container_ms = (median(taken) * 1000 for taken in times)
    note = f"{container_ms:.3f} ms against {pipe_ms:.3f} ms"
    return [
        Measure(
            "a call through the container, against a pipe",
            container_ms / pipe_ms,
            8,
            "x",
            note=note,
        ),
        Measure("p50 of a call through the container", container_ms, 1.0, "ms"),
    ]


def _block(box: Box) -> list[float]:
    taken = []
    for _ in range(CALLS):
        start = time.perf_counter()
        box.call("get_capabilities", {})
        taken.append(time.perf_counter() - start)
    return taken
