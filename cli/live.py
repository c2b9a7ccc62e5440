"""Shows a run while it goes on, on stderr: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from cli.board import Board, BoxLine, RowLine
from cli.pulse import PULSE_S, Pulse
from cli.words import counted, pasteable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from harness.pipeline.events import Event


class PlainWatch:
    """A line for each thing worth one, and a sign of life in between."""

    def __init__(self, pulse_s: float = PULSE_S) -> None:
        self.board = Board()
        self._guard = threading.Lock()
        self._doing = ""
        self._pulse = Pulse(self._alive, self._write, pulse_s)

    def __enter__(self) -> PlainWatch:
        self._pulse.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pulse.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Listen to a run."""
        with self._guard:
            said = self.board.take(event)
        if said is not None:
            self.say(said)

    def say(self, line: str) -> None:
        """Print a line of our own between those of the run."""
        self._doing = line.splitlines()[0]
        self._pulse.said()
        self._write(line)

    def _write(self, line: str) -> None:
        sys.stderr.write(pasteable(line) + "\n")
        sys.stderr.flush()

    def _alive(self) -> str | None:
        """Where the boxes are, or the judge; before the first box what was said last."""
        with self._guard:
            boxes = [pulse(box) for box in self.board.boxes.values()]
            judging = [row for row in self.board.rows.values() if row.to_judge and not row.finished]
            judging_lines = [progress_of(row) for row in judging]
        lines = boxes or judging_lines
        return "; ".join(lines) or (f"still at it: {self._doing}" if self._doing else None)


class LiveWatch:
    """A table that is redrawn a few times a second; what is worth a line stays above it."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self.board = Board()
        self._console = console
        self._live = Live(
            get_renderable=self._table, console=console, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> LiveWatch:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Listen to a run."""
        said = self.board.take(event)
        if said is not None:
            self.say(said)

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._console.print(pasteable(line), markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> RenderableType:
        return table_of(self.board)


def watch() -> PlainWatch | LiveWatch:
    """The display that suits this stderr."""
    if sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_dumb_terminal:
            return LiveWatch(console)
    return PlainWatch()


def table_of(board: Board) -> RenderableType:
    """The boxes at work, and under them the rows as far as they are."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    progress = [Text(progress_of(row)) for row in list(board.rows.values()) if not row.finished]
    if not board.boxes:
        return Group(*progress)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("row", "sample", "session", "questions", "calls", "retrieve p50", "failures", ""):
        table.add_column(name, justify="left" if name in ("row", "sample", "") else "right")
    for box in list(board.boxes.values()):
        table.add_row(*(Text(cell) for cell in cells(box)))
    return Group(table, *progress)


def cells(box: BoxLine) -> tuple[str, ...]:
    """A box as the texts of the table's columns."""
    p50 = f"{box.p50:.1f} ms" if box.p50 is not None else "-"
    state = box.state if box.state != "running" else ""
    return (
        box.row,
        box.sample,
        f"{box.session}/{box.sessions}",
        f"{box.asked}/{box.questions}",
        str(box.ops),
        p50,
        str(box.failures),
        f"attempt {box.attempt} {state}".strip() if box.attempt > 1 else state,
    )


def pulse(box: BoxLine) -> str:
    """A box as half a sentence."""
    if box.state != "running":
        return f"{box.row}  {box.sample}: {box.state}"
    return (
        f"{box.row}  {box.sample}: session {box.session}/{box.sessions}, "
        f"question {box.asked}/{box.questions}, {box.ops} calls"
    )


def progress_of(row: RowLine) -> str:
    """A row as one line under the table."""
    judged = f", judged {row.judged}/{row.to_judge}" if row.to_judge else ""
    failed = f", {row.failures} failed" if row.failures else ""
    return f"{row.row}: {row.done}/{counted(row.samples, 'sample')}{judged}{failed}"
