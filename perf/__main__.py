"""`make perf`, or `python -m perf [calls relay locomo jobs memory help build]`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from perf import calls, relay, runs, startup
from perf.measure import Measure, say, show

PARTS: dict[str, Callable[[], list[Measure]]] = {
    "help": startup.help_page,
    "build": startup.unchanged_build,
    "calls": calls.call_cost,
    "relay": relay.relay_cost,
    "locomo": runs.locomo_whole,
    "jobs": runs.jobs,
    "memory": runs.memory,
}


def main(names: list[str]) -> int:
    """Measure the named parts, or all; print each number beside its target. Never fails on one."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        say(f"unknown: {' '.join(unknown)}; there are: {' '.join(PARTS)}")
        return 2
    for name in names or PARTS:
        say(f"-- {name}")
        show(PARTS[name]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
