"""What a run tells whoever watches it. Frozen values; nothing in memrig depends on them.

A listener is called from the threads that do the work, one call at a time. What it raises ends the
run as any other fault would: what was recorded is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.outcomes import Status


@dataclass(frozen=True)
class Note:
    """A sentence for the user: which sandbox and why, what is being built, what was cut back."""

    row: str
    text: str


@dataclass(frozen=True)
class RunStarted:
    """Stage 1 begins. ``done`` samples are there from before."""

    row: str
    samples: int
    done: int
    sessions: int
    questions: int
    jobs: int
    sandbox: str
    path: Path


@dataclass(frozen=True)
class SampleStarted:
    """A sample starts in a fresh box, as attempt number ``attempt``."""

    row: str
    sample_id: str
    ordinal: str
    attempt: int
    sessions: int
    questions: int


@dataclass(frozen=True)
class BoxReady:
    """The sample's box said hello. ``ms`` is what its start took."""

    row: str
    sample_id: str
    ms: float


@dataclass(frozen=True)
class SessionDone:
    """A session was fed and looked at. ``ops`` is how many adapter calls it took."""

    row: str
    sample_id: str
    session_id: str
    position: int
    status: Status
    turns: int
    ops: int
    ms: float


@dataclass(frozen=True)
class QuestionDone:
    """A question was asked. ``retrieve_ms`` is absent when ``retrieve`` gave nothing."""

    row: str
    sample_id: str
    question_id: str
    position: int
    status: Status
    ops: int
    ms: float
    retrieve_ms: float | None = None


@dataclass(frozen=True)
class CallRetried:
    """A failed call said that nothing was stored, and was made once more."""

    row: str
    sample_id: str
    call: str
    kind: str


@dataclass(frozen=True)
class BoxFailed:
    """A box ended. ``restarts_left`` fresh ones may follow."""

    row: str
    sample_id: str
    kind: str
    message: str
    restarts_left: int
    log: Path | None = None


@dataclass(frozen=True)
class SampleDone:
    """A sample's records are on the disk. ``statuses`` counts its units by status."""

    row: str
    sample_id: str
    attempt: int
    ms: float
    statuses: dict[Status, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JudgeProgress:
    """Stage 2: so many of the run's records have been judged."""

    row: str
    done: int
    total: int


@dataclass(frozen=True)
class RunDone:
    """All stages ended; the table's numbers stand in ``path / "aggregate_metrics.json"``."""

    row: str
    path: Path


Event = (
    Note
    | RunStarted
    | SampleStarted
    | BoxReady
    | SessionDone
    | QuestionDone
    | CallRetried
    | BoxFailed
    | SampleDone
    | JudgeProgress
    | RunDone
)

Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a run that nobody watches."""
