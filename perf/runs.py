"""Whole runs: LoCoMo-10 through containers, jobs beside each other, and the host's memory."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import run_eval
from harness.adapter.contract import MemoryAdapter, Setup
from harness.catalog import Catalog
from harness.config import EvalConfig
from harness.pipeline.events import BoxReady, Event, RunStarted, SampleDone
from harness.sandbox.base import Launcher
from harness.sandbox.factory import make_launcher
from harness.sandbox.process import LocalLauncher
from harness.settings import Settings
from perf import bundles
from perf.measure import Measure, say

BOXES = Path(__file__).resolve().parent / "boxes"

#: Waits of 200 ms in a Sleeper sample: turns and questions, so 15 s.
SLEEP_TURNS, SLEEP_QUESTIONS = 55, 20

#: Samples run with 1, 2 and 16 jobs; the rates (samples a second) are compared.
LOADS = ((1, 2), (2, 4), (16, 32))


class StageOne:
    """Listens to a run for the seconds of stage 1, with and without the starts of its boxes."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0
        self.starts_s = 0.0

    def __call__(self, event: Event) -> None:
        """Listen to a run."""
        if isinstance(event, RunStarted):
            self.began = time.perf_counter()
        elif isinstance(event, BoxReady):
            self.starts_s += event.ms / 1000
        elif isinstance(event, SampleDone):
            self.ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """From the first sample's start to the last one's records on disk."""
        return self.ended - self.began

    @property
    def without_starts(self) -> float:
        """Of one job: the same without the time until boxes said hello."""
        return self.seconds - self.starts_s


def stage_one(config: EvalConfig, launcher: Launcher) -> StageOne:
    """Run, and tell how long stage 1 took."""
    watch = StageOne()
    run_eval(config, launcher=launcher, on_event=watch)
    return watch


def adapter_factory(row: str) -> Callable[[Setup], MemoryAdapter]:
    """A baseline's adapter class, imported into this process."""
    baseline = Catalog().get(row)
    module_name, _, class_name = baseline.adapter.partition(":")
    spec = importlib.util.spec_from_file_location(
        f"perf_{row}", baseline.home / f"{module_name}.py"
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{row} has no {module_name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[Setup], MemoryAdapter] = getattr(module, class_name)
    return made


def locomo_whole() -> list[Measure]:
    """LoCoMo-10 with BM25 in containers against the same adapter in this process, in turns."""
    source = Path(os.environ.get("MEMRIG_TEST_DATA", "")) / "locomo" / "locomo10.json"
    if not source.is_file():
        say("LoCoMo-10: not measured, MEMRIG_TEST_DATA does not name the folder of outside data")
        return []
    with tempfile.TemporaryDirectory() as folder:
        data = bundles.locomo(source, Path(folder) / "locomo")
        took: dict[str, list[float]] = {"process": [], "container": []}
        for number in range(2):
            for kind, times in took.items():
                out = Path(folder) / f"{kind}{number}"
                config = EvalConfig(data, "BM25", out, sandbox="container")
                launcher: Launcher
                if kind == "process":
                    launcher = LocalLauncher(adapter_factory("BM25"))
                else:
                    launcher = make_launcher(Catalog().get("BM25"), config, Settings.load())
                times.append(stage_one(config, launcher).without_starts)
                say(f"LoCoMo-10, {kind}: {times[-1]:.1f} s without starts")
    here, there = min(took["process"]), min(took["container"])
    note = f"{there:.1f} s against {here:.1f} s"
    return [
        Measure("LoCoMo-10 with BM25, container against process", there / here, 1.6, "x", note=note)
    ]


def jobs() -> list[Measure]:
    """Samples a second with 2 and with 16 jobs against 1, for a row that waits on a model."""
    rates: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, samples in LOADS:
            data = bundles.drawn(
                Path(folder) / f"data{number}",
                samples=samples,
                sessions=1,
                turns=SLEEP_TURNS,
                questions=SLEEP_QUESTIONS,
            )
            out = Path(folder) / f"out{number}"
            config = EvalConfig(data, "Sleeper", out, jobs=number, baselines_dirs=(BOXES,))
            launcher = make_launcher(Catalog([BOXES]).get("Sleeper"), config, Settings.load())
            launcher.prepare()
            took = stage_one(config, launcher).seconds
            rates[number] = samples / took
            say(f"{number} jobs: {samples} samples of 15 s in {took:.1f} s, starts included")
    return [
        Measure("2 jobs against 1, waiting on a model", rates[2] / rates[1], 1.6, "x", "at least"),
        Measure("16 jobs against 1, waiting on a model", rates[16] / rates[1], 12, "x", "at least"),
    ]


def memory() -> list[Measure]:
    """What ten times the samples cost the host: peak memory of a whole run in its own process."""
    if not Path("/proc/self/status").exists():
        say("host memory: not measured, this system has no /proc")
        return []
    peaks: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for samples in (12, 120):
            data = bundles.drawn(
                Path(folder) / f"data{samples}", samples=samples, sessions=10, turns=30, questions=5
            )
            size = (data / "domain_a_v2.json").stat().st_size / 1e6
            peaks[samples] = _peak_mb(data, Path(folder) / f"out{samples}")
            say(f"{samples} samples ({size:.1f} MB of data): peak {peaks[samples]:.0f} MB")
    more = peaks[120] - peaks[12]
    note = f"{peaks[12]:.0f} MB with 12 samples, {peaks[120]:.0f} MB with 120"
    return [Measure("host memory for ten times the samples", more, 20, "MB", note=note)]


#: The peak is the kernel's for this program's memory alone: what ``getrusage`` tells of a child
#: is at least what its parent had when it was made.
PEAK = """
import re, sys
from pathlib import Path
from harness import run_eval
from harness.config import EvalConfig
from harness.sandbox.process import LocalLauncher
from perf.runs import adapter_factory
run_eval(
    EvalConfig(Path(sys.argv[1]), "BM25", Path(sys.argv[2])),
    launcher=LocalLauncher(adapter_factory("BM25")),
)
status = Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status).group(1)) / 1024)
"""


def _peak_mb(data: Path, out: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(data), str(out)],
        cwd=BOXES.parent.parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])
