"""Ten times the samples costs no more memory: a data set is an index, not a list of samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from loader_bundles import base, renamed, session

SAMPLES = 20
LIMIT_KB = 20 * 1024

#: ``ru_maxrss`` of a child starts at what its parent had (Linux), so the kernel's own mark of the
#: new program is read where there is one.
MEASURE = """
import resource, sys
from pathlib import Path
from harness.loaders import open_dataset
dataset = open_dataset(sys.argv[1])
samples = list(dataset) if sys.argv[2] == "hold" else dataset
turns = sum(len(s.turns) for sample in samples for s in sample.sessions)
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
marks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
print(turns, *(marks or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def peak(folder: Path, how: str = "stream") -> tuple[int, int]:
    """Turns read and peak memory in KiB of a process that opens and reads a folder."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), how],
        capture_output=True,
        text=True,
        check=True,
    )
    turns, memory = done.stdout.split()
    return int(turns), int(memory)


def grown(folder: Path, count: int) -> Path:
    bundle = base()
    text = "The same old story about the van, told once more. " * 40
    bundle.sessions.extend(session(f"S{n:02}", 4, text, text) for n in range(3, 40))
    names = [f"w{n}" for n in range(count)]
    bundle.samples = [renamed(bundle.sample, name) for name in names]
    bundle.point_rows = [renamed(bundle.points, name) for name in names]
    bundle.checkpoint_rows = [renamed(bundle.checkpoints, name) for name in names]
    return bundle.write(folder)


@pytest.mark.slow
def test_ten_times_the_samples_cost_less_than_20_mb_more(tmp_path: Path) -> None:
    few = grown(tmp_path / "few", SAMPLES)
    many = grown(tmp_path / "many", 10 * SAMPLES)
    assert (many / "domain_a_v2.json").stat().st_size > 30_000_000
    (few_turns, few_kb), (many_turns, many_kb) = peak(few), peak(many)
    assert many_turns == 10 * few_turns
    assert many_kb - few_kb < LIMIT_KB, f"{few_kb} KiB for {SAMPLES}, {many_kb} KiB for ten times"
    _, held_kb = peak(many, "hold")
    assert held_kb - few_kb > LIMIT_KB, "this measurement would not notice samples that are held"
