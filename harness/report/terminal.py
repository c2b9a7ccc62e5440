"""Tables in a terminal, as wide as it is.

The column of names is never cut and never left out. What does not fit beside it goes into a table
below, with the names again: first what comes from sessions, then what comes from questions; first
retrieval and times, then sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from harness.aggregate.dimensions import SESSION_NUMBERS
from harness.report.layout import BEST, Cell, Row, Table

#: Names longer than this part of the width are folded: something must stand beside them.
_NAMES_SHARE = 0.5
_FROM_SESSIONS = {number.key for number in SESSION_NUMBERS}


@dataclass(frozen=True)
class Drawn:
    """Tables for a Rich console, laid out when its width is known."""

    tables: Sequence[Table]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        for place, table in enumerate(self.tables):
            if place:
                yield Text()
            yield from _parts(table, options.max_width)


@dataclass(frozen=True)
class _Column:
    head: Text
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        """In terminal columns, with the blank that parts it from the next."""
        return 1 + max(_width(text) for text in (self.head, *self.cells))


def _width(text: Text) -> int:
    return max(cell_len(line) for line in text.plain.split("\n"))


def _parts(table: Table, width: int) -> Iterator[RenderableType]:
    rule = Rule(style="dim")
    yield Text(table.title, style="bold")
    yield from (Text(line, style="dim") for line in table.subtitle)
    yield rule
    names = tuple(_name(row) for row in table.rows)
    columns = _columns(table)
    sessions = sum(key in _FROM_SESSIONS for key in table.keys)
    yield from _stacked(names, columns, width, sessions)
    if table.beside is not None:
        short = tuple(
            Text(row.name) if _alone(row, table) else name
            for row, name in zip(table.rows, names, strict=True)
        )
        heads = (f"{first}\n{second}" for first, second in table.beside.heads)
        beside = [
            _Column(Text(head, style="bold"), tuple(Text(v[place]) for v in table.beside.rows))
            for place, head in enumerate(heads)
        ]
        yield Text()
        sizes = table.beside.keys.index("context") if "context" in table.beside.keys else 0
        yield from _stacked(short, beside, width, sizes)
    yield rule
    yield from (_note(note) for note in table.footnotes)


def _alone(row: Row, table: Table) -> bool:
    """No other row has its name: the name is enough in the second table."""
    return sum(other.name == row.name for other in table.rows) == 1


def _name(row: Row) -> Text:
    name = Text(row.name, style="italic" if row.reference else "bold")
    for line in row.under:
        name.append(f"\n{line}", style="dim")
    return name


def _columns(table: Table) -> list[_Column]:
    made = []
    for place, (first, second) in enumerate(table.heads):
        # The blank is a mark's place: it keeps heads and numbers in line.
        head = Text(f"{first} \n{second} ", style="bold")
        if any(table.counts):  # three lines for all: heads stand at the foot of their cells
            count = table.counts[place]
            head.append(f"\nN {count} " if count else "\n", style="dim")
        made.append(_Column(head, tuple(_cell(row.cells[place]) for row in table.rows)))
    last = tuple(Text(f"{row.degraded}/{row.failed} ") for row in table.rows)
    head = Text("degr./ \nfailed " + ("\n" if any(table.counts) else ""), style="bold")
    return [*made, _Column(head, last)]


def _cell(cell: Cell) -> Text:
    text = Text()
    # A mark or its place stands after every value, so that the numbers stay in line.
    text.append(cell.value, style="bold green" if cell.mark == BEST else "")
    text.append(cell.mark or " ", style="dim")
    if cell.interval:
        text.append(f"\n{cell.interval} ", style="dim")
    if cell.count:
        text.append(f"\n{cell.count} ", style="yellow")
    if cell.valid:
        text.append(f"\nv {cell.valid} ", style="yellow")
    return text


def _stacked(
    names: Sequence[Text], columns: Sequence[_Column], width: int, border: int
) -> Iterator[RenderableType]:
    widest = min(max(_width(name) for name in names), max(8, int(width * _NAMES_SHARE)))
    for place, block in enumerate(blocks([c.width for c in columns], width - widest, border)):
        if place:
            yield Text()
        drawn = RichTable(box=None, padding=(0, 0, 0, 1), pad_edge=False, show_edge=False)
        drawn.add_column("", width=widest, overflow="fold", header_style="")
        for column in block:
            drawn.add_column(columns[column].head, justify="right", no_wrap=True, header_style="")
        for row, name in enumerate(names):
            drawn.add_row(name, *(columns[column].cells[row] for column in block))
        yield drawn


def blocks(widths: Sequence[int], room: int, border: int = 0) -> list[list[int]]:
    """Which columns stand in which table: few tables, and none wider than ``room``.

    Args:
        widths: of the columns.
        room: what the names leave.
        border: where to part them if they do not all fit and each side does.
    """
    places = list(range(len(widths)))
    if sum(widths) <= room:
        return [places]
    if 0 < border < len(widths) and max(sum(widths[:border]), sum(widths[border:])) <= room:
        return [places[:border], places[border:]]
    made: list[list[int]] = [[]]
    for place in places:
        if made[-1] and sum(widths[p] for p in made[-1]) + widths[place] > room:
            made.append([])
        made[-1].append(place)
    return made


def _note(note: str) -> RenderableType:
    """A footnote whose further lines are set in."""
    hanging = RichTable.grid(padding=(0, 1, 0, 0))
    hanging.add_column(width=1)
    hanging.add_column()
    hanging.add_row(Text(" "), Text(note, style="dim"))
    return hanging
