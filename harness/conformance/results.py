"""What a check found. Plain values; a report turns into JSON with :meth:`Report.to_json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 (no password)
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True)
class Verdict:
    """What a check says: its outcome, why, and (after a failure) what to do."""

    outcome: Outcome
    reason: str = ""
    next_step: str = ""


def ok(reason: str = "") -> Verdict:
    """The promise holds."""
    return Verdict(Outcome.PASS, reason)


def broken(reason: str, next_step: str) -> Verdict:
    """The promise does not hold."""
    return Verdict(Outcome.FAIL, reason, next_step)


def not_applicable(reason: str) -> Verdict:
    """The system promises nothing of the kind."""
    return Verdict(Outcome.NOT_APPLICABLE, reason)


@dataclass(frozen=True)
class CheckResult:
    """One line of the report. ``ms`` is host time, boxes included."""

    id: str
    meaning: str
    outcome: Outcome
    reason: str
    next_step: str
    ms: float


@dataclass(frozen=True)
class Report:
    """All results for one baseline in one kind of sandbox. ``logs`` is where boxes wrote."""

    baseline: str
    sandbox: str
    results: tuple[CheckResult, ...]
    logs: str

    @property
    def passed(self) -> bool:
        """Nothing failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(result for result in self.results if result.outcome is Outcome.FAIL)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for ``--json``."""
        return {
            "baseline": self.baseline,
            "sandbox": self.sandbox,
            "passed": self.passed,
            "counts": {
                outcome.value: sum(result.outcome is outcome for result in self.results)
                for outcome in Outcome
            },
            "results": [asdict(result) for result in self.results],
            "logs": self.logs,
        }
