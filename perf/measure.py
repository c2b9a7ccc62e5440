"""What a measurement comes to, and how the list of them is printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Measure:
    """One number beside its target. ``bound`` says on which side of the target it should be."""

    name: str
    value: float
    target: float
    unit: str
    bound: Literal["at most", "at least"] = "at most"
    note: str = ""

    @property
    def missed(self) -> bool:
        """The number is on the wrong side of its target."""
        if self.bound == "at most":
            return self.value > self.target
        return self.value < self.target

    def line(self) -> str:
        """``measured  target  name  note``, with a mark where the target is missed."""
        mark = "OVER " if self.missed else "ok   "
        measured = f"{self.value:.2f} {self.unit}"
        target = f"{self.bound} {self.target:g} {self.unit}"
        note = f"   ({self.note})" if self.note else ""
        return f"{mark} {measured:>12}  {target:<18} {self.name}{note}"


def say(line: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(measures: Sequence[Measure]) -> None:
    """The list, on stdout."""
    for measure in measures:
        sys.stdout.write(measure.line() + "\n")
    sys.stdout.flush()
