"""Runs that are killed, interrupted or out of disk, as real processes with real boxes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stopped_run import SHAPE

from harness.drawn import DrawnDataset, Shape
from harness.outcomes import RunError
from harness.runs import Run, diff
from harness.runs.directory import PIPELINE_SESSIONS
from harness.sandbox import ownership
from harness.sandbox.engine import Engine
from harness.verification import verify

PROGRAM = Path(__file__).parent / "stopped_run.py"
ROOT = Path(__file__).parents[2]
KILLS, SAMPLES = 20, 45


def start(output: Path, conversations: int, jobs: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(output), str(conversations), str(jobs), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(output: Path, conversations: int, jobs: int, *more: str) -> str:
    process = start(output, conversations, jobs, *more)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def data(conversations: int) -> DrawnDataset:
    return DrawnDataset(Shape(**{**vars(SHAPE), "conversations": conversations}), seed=7)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of six conversations."""
    path = tmp_path_factory.mktemp("whole") / "run"
    finish(path, 6, 2, "--slow-ms", "0")
    return path


def wait_for(process: subprocess.Popen[str], event: str, times: int = 1) -> None:
    """Read a run's events until this one ("any": whichever) came so often; it must."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        times -= event in ("any", line.strip())
        if times == 0:
            return
    pytest.fail(f"the run ended before that: {''.join(said[-20:])}")


@pytest.mark.slow
def test_killed_at_twenty_random_moments_and_resumed(tmp_path: Path) -> None:
    """Must show 6, with process boxes. A moment is some events after the start, and a bit."""
    moments = random.Random(20)
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    finished_at_kill = [0]
    for kill in range(KILLS):
        process = start(stopped, SAMPLES, 2, "--slow-ms", "8")
        if kill % 5 == 4:  # right after a sample's block, so that there is progress on any machine
            wait_for(process, "SampleDone")
            time.sleep(moments.uniform(0, 0.05))
        elif kill % 5:
            wait_for(process, "any", moments.randint(1, 40))
            time.sleep(moments.uniform(0, 0.05))
        else:
            time.sleep(moments.uniform(0, 1.2))  # perhaps before there is a manifest
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (stopped / "manifest.json").exists():
            finished_at_kill.append(len(Run.open(stopped).finished))
    assert finished_at_kill == sorted(finished_at_kill), "a recorded sample was lost"
    assert len(set(finished_at_kill)) > 3, "the kills came before anything was recorded"
    assert finish(stopped, SAMPLES, 2, "--slow-ms", "0") == finish(
        whole, SAMPLES, 2, "--slow-ms", "0"
    )
    found = diff(Run.open(stopped), Run.open(whole))
    assert found.equal and found.verdict == "reuse", found
    assert found.records == sum(
        getattr(data(SAMPLES).balance, k) for k in ("sessions", "questions")
    )
    assert verify(stopped, data(SAMPLES)).passed
    numbers = [
        int(attempt.name)
        for sample in (stopped / "attempts").iterdir()
        for attempt in sample.iterdir()
    ]
    assert max(numbers) > 1, "no kill hit a sample at work"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_is_finished_and_leaves_no_box(
    tmp_path: Path, whole: Path, number: signal.Signals
) -> None:
    process = start(tmp_path / "run", 6, 2, "--slow-ms", "100")
    wait_for(process, "SampleDone")
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert boxes_of(process.pid, tmp_path) == []
    run = Run.open(tmp_path / "run")
    assert 1 <= len(run.finished) < 6
    finish(tmp_path / "run", 6, 1, "--slow-ms", "0")
    assert diff(Run.open(tmp_path / "run"), Run.open(whole)).equal


def boxes_of(pid: int, folder: Path) -> list[str]:
    """Command lines of box processes whose stderr log lies under this test's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                log = str((entry / "fd" / "2").readlink())
                command = (entry / "cmdline").read_bytes().decode()
            except OSError:
                continue
            if str(folder) in log and "serve" in command:
                found.append(command)
    return found


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path, whole: Path) -> None:
    """A real limit on file sizes: a write fails in the middle of a sample's block."""
    size = (whole / PIPELINE_SESSIONS).stat().st_size
    process = start(tmp_path / "run", 6, 1, "--slow-ms", "0", "--limit", str(int(size * 0.7)))
    _, err = process.communicate(timeout=60)
    assert process.returncode == RunError.exit_code
    assert "cannot write" in err and "Free some space" in err and "Traceback" not in err
    run = Run.open(tmp_path / "run")
    assert 0 < len(run.finished) < 6
    recorded = (tmp_path / "run" / PIPELINE_SESSIONS).stat().st_size
    assert recorded == run.finished[-1].sessions.end
    finish(tmp_path / "run", 6, 1, "--slow-ms", "0")
    assert diff(Run.open(tmp_path / "run"), Run.open(whole)).equal


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    process = start(tmp_path / "run", 6, 1, "--slow-ms", "50")
    try:
        wait_for(process, "RunStarted")
        second = start(tmp_path / "run", 6, 1)
        _, err = second.communicate(timeout=60)
        assert second.returncode == RunError.exit_code
        assert f"another memrig writes to {tmp_path / 'run'} (process {process.pid})" in err
    finally:
        process.kill()
        process.communicate()


@pytest.mark.docker
@pytest.mark.slow
def test_killed_with_containers_and_resumed(tmp_path: Path) -> None:
    """The same through the command line and containers, for a few kills; none is left over."""
    moments = random.Random(3)
    command = [sys.executable, "-m", "cli.main", "run", "--sandbox", "container"]
    command += ["--dataset", str(ROOT / "datasets" / "sample"), "--baseline", "BM25"]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"

    def run(output: Path) -> subprocess.Popen[str]:
        words = [*command, "--output-dir", str(output), "--jobs", "2"]
        return subprocess.Popen(
            words, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    left = 0
    for _ in range(4):
        before = hellos(stopped)
        process = run(stopped)
        while hellos(stopped) == before:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left += len(boxes_in_engine(stopped))
    for output in (stopped, whole):
        process = run(output)
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    assert left > 0, "no kill left a container, so there was nothing to reap"
    assert boxes_in_engine(stopped) == []
    found = diff(Run.open(stopped), Run.open(whole))
    assert found.equal and found.records == 64, found


def hellos(output: Path) -> int:
    """How many attempts of a run had a box that said hello."""
    return len(list((output / "attempts").glob("*/*/attempt.json")))


def boxes_in_engine(output: Path) -> list[str]:
    """Containers of a run, running or not."""
    engine, reasons = Engine.diagnose()
    assert engine is not None, reasons
    with engine:
        return [box.name for box in engine.list_boxes({ownership.RUN: str(output)})]
