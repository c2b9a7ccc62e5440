"""One run as a program of its own, to be killed, interrupted or starved: see its callers.

    python stopped_run.py OUTPUT_DIR CONVERSATIONS JOBS [--limit BYTES]

Boxes are real processes of ``slow_memory``. Prints what the run adds up to.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from pathlib import Path

import harness
from harness import run_eval
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from harness.outcomes import MemrigError
from harness.sandbox.process import ProcessLauncher

SLOW = Path(__file__).parents[1] / "pipeline" / "slow"
SHAPE = Shape(sessions=4, facts=6, updates=2, hearsay=1, refusals=1)


def launcher(slow_ms: float) -> ProcessLauncher:
    path = f"{Path(harness.__file__).parents[1]}:{SLOW}"
    return ProcessLauncher(
        [sys.executable, "-m", "harness.adapter.serve"],
        {"PYTHONPATH": path, "SLOW_MS": str(slow_ms)},
        None,
        "slow_memory:SlowMemory",
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("conversations", type=int)
    parser.add_argument("jobs", type=int)
    parser.add_argument("--slow-ms", type=float, default=20)
    parser.add_argument("--limit", type=int, help="no file may grow over this many bytes")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.limit, given.limit))
    shape = Shape(**{**vars(SHAPE), "conversations": given.conversations})
    config = EvalConfig(given.output, "Slow", given.output, jobs=given.jobs)
    try:
        result = run_eval(
            config,
            load_domain_bundle=lambda _: DrawnDataset(shape, seed=7),
            launcher=launcher(given.slow_ms),
            # One write a line: two threads tell events, and print() writes the line end apart.
            on_event=lambda event: os.write(2, f"{type(event).__name__}\n".encode()),
        )
    except MemrigError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    assert result.aggregate is not None
    print(result.aggregate["statuses"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
