"""What is known of a run while it goes on: one line a box, totals a row. Fed by events, no display.

Kept apart from the display so that what is shown can be tested without a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from cli.words import counted
from harness.outcomes import Status
from harness.pipeline.events import (
    BoxFailed,
    BoxReady,
    CallRetried,
    Event,
    JudgeProgress,
    Note,
    QuestionDone,
    RunDone,
    RunStarted,
    SampleDone,
    SampleStarted,
    SessionDone,
)

#: The sandbox of a row that has none.
HOST = "host"


@dataclass
class BoxLine:
    """One sample in its box. ``retrieve_ms`` holds one number a question."""

    row: str
    sample: str
    sessions: int
    questions: int
    attempt: int = 1
    state: str = "starting"
    session: int = 0
    asked: int = 0
    ops: int = 0
    failures: int = 0
    retrieve_ms: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float | None:
        """Median time of ``retrieve`` in milliseconds, as the host saw it."""
        return median(self.retrieve_ms) if self.retrieve_ms else None


@dataclass
class RowLine:
    """One row of the table to be: its samples and what went wrong so far."""

    row: str
    sandbox: str = ""
    samples: int = 0
    done: int = 0
    sessions: int = 0
    questions: int = 0
    failures: int = 0
    judged: int = 0
    to_judge: int = 0
    finished: bool = False


class Board:
    """Takes events, keeps lines. Not thread-safe: a run calls its listener one call at a time."""

    def __init__(self) -> None:
        self.rows: dict[str, RowLine] = {}
        self.boxes: dict[tuple[str, str], BoxLine] = {}
        self._notes: set[str] = set()

    def take(self, event: Event) -> str | None:
        """Take one event; the sentence worth a line of its own, if it has one."""
        if isinstance(event, SessionDone | QuestionDone):
            self._worked(event)
            return None
        if isinstance(event, BoxReady):
            self._box(event).state = "running"
            return None
        if isinstance(event, JudgeProgress):
            row = self._row(event.row)
            row.judged, row.to_judge = event.done, event.total
            return None
        return self._said(event)

    def _said(self, event: Event) -> str | None:
        if isinstance(event, RunStarted):
            return self._started(event)
        if isinstance(event, SampleStarted):
            return self._sample_started(event)
        if isinstance(event, SampleDone):
            return self._sample_done(event)
        if isinstance(event, BoxFailed):
            return self._box_failed(event)
        if isinstance(event, Note):
            return self._noted(event)
        if isinstance(event, CallRetried):
            return f"{event.row}  {event.sample_id}: {event.call} failed ({event.kind}), once more"
        if isinstance(event, RunDone):
            self._row(event.row).finished = True
        return None

    def _noted(self, note: Note) -> str | None:
        """A note; what was said of one row (its sandbox, and why) is not said of each."""
        text = note.text.removeprefix(note.row).strip()
        if text in self._notes:
            return None
        self._notes.add(text)
        return note.text if note.text.startswith(note.row) else f"{note.row}  {note.text}"

    def _row(self, name: str) -> RowLine:
        return self.rows.setdefault(name, RowLine(name))

    def _box(self, event: SessionDone | QuestionDone | BoxReady | BoxFailed) -> BoxLine:
        key = (event.row, event.sample_id)
        return self.boxes.setdefault(key, BoxLine(event.row, event.sample_id, 0, 0))

    def _started(self, event: RunStarted) -> str:
        self.rows[event.row] = RowLine(event.row, event.sandbox, event.samples, event.done)
        before = f", {event.done} done before" if event.done else ""
        what = f"{counted(event.sessions, 'session')}, {counted(event.questions, 'question')}"
        if event.sandbox == HOST:
            what = f"{counted(event.questions, 'question')}; a reference row made on the host"
        else:
            what += f"; {event.jobs} at a time, sandbox {event.sandbox}"
        return f"{event.row}  {counted(event.samples, 'sample')}{before}, {what}"

    def _sample_started(self, event: SampleStarted) -> str | None:
        self.boxes[event.row, event.sample_id] = BoxLine(
            event.row, event.sample_id, event.sessions, event.questions, event.attempt
        )
        again = f"{event.row}  {event.sample_id}: attempt {event.attempt}, from its first turn"
        return again if event.attempt > 1 else None

    def _worked(self, event: SessionDone | QuestionDone) -> None:
        box, row = self._box(event), self._row(event.row)
        box.ops += event.ops
        failed = int(event.status.is_failure)
        box.failures += failed
        row.failures += failed
        if isinstance(event, SessionDone):
            box.session = event.position + 1
            row.sessions += 1
        else:
            box.asked += 1
            row.questions += 1
            if event.retrieve_ms is not None:
                box.retrieve_ms.append(event.retrieve_ms)

    def _sample_done(self, event: SampleDone) -> str:
        row = self._row(event.row)
        row.done += 1
        box = self.boxes.pop((event.row, event.sample_id), None)
        p50 = f", retrieve p50 {box.p50:.1f} ms" if box and box.p50 is not None else ""
        statuses, work = event.statuses, ""
        if box and row.sandbox == HOST:  # it has no box, so its sessions have no status of a system
            statuses = {s: n for s, n in statuses.items() if s is not Status.UNSUPPORTED}
            work = f"  {counted(box.asked, 'question')} (host-side row: questions only)"
        elif box:
            work = (
                f"  {counted(box.session, 'session')}, {counted(box.asked, 'question')}, "
                f"{counted(box.ops, 'call')}"
            )
        return (
            f"{event.row}  {event.sample_id} done ({row.done}/{row.samples}){work}{p50}, "
            f"{event.ms / 1000:.1f} s{_failures(statuses)}"
        )

    def _box_failed(self, event: BoxFailed) -> str:
        self._box(event).state = "restarting" if event.restarts_left else "failed"
        log = f"\n  log: {event.log}" if event.log else ""
        then = "starting afresh" if event.restarts_left else "no more restarts"
        return f"{event.row}  {event.sample_id}: {event.kind}: {event.message} ({then}){log}"


def _failures(statuses: dict[Status, int]) -> str:
    bad = {status: n for status, n in statuses.items() if n and status is not Status.OK}
    return "".join(f", {n} {status.value}" for status, n in sorted(bad.items()))
