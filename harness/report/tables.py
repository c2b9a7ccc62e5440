"""Tables of rows in five formats: ``text`` (terminals), ``markdown``, ``csv``, ``latex``, ``json``.

``csv`` is long, one line a number with everything known about it; ``json`` is the aggregates
without their per-conversation sums. The others are drawn from :mod:`harness.report.layout`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from harness.outcomes import UnknownName
from harness.report.beside import Beside, beside_of
from harness.report.layout import BEST, Cell, Row, Table, tables_of

Aggregate = Mapping[str, Any]

#: Terminal columns that a table is drawn for when nobody says otherwise.
WIDTH = 112


def render(aggregates: Sequence[Aggregate], fmt: str = "text", *, width: int = WIDTH) -> str:
    """Draw the tables of some rows.

    Args:
        aggregates: contents of ``aggregate_metrics.json``, in the order of the rows.
        fmt: one of :data:`FORMATS`.
        width: of ``text``, in terminal columns.

    Raises:
        UnknownName: another format.
    """
    if fmt == "text":
        return as_text(aggregates, width)
    if fmt not in FORMATS:
        raise UnknownName("format", fmt, ["text", *FORMATS])
    return FORMATS[fmt](aggregates)


def as_text(aggregates: Sequence[Aggregate], width: int = WIDTH) -> str:
    """Plain text without colour."""
    file = io.StringIO()
    console = Console(file=file, width=width, no_color=True, force_terminal=False, highlight=False)
    console.print(renderable(aggregates))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def renderable(aggregates: Sequence[Aggregate]) -> RenderableType:
    """The tables for a Rich console: the live terminal's form."""
    parts: list[RenderableType] = []
    for table in tables_of(aggregates):
        if parts:
            parts.append(Text())
        parts += _rich(table)
    return Group(*parts)


#: More columns than this leave no room for names; then the one that follows from others goes.
_MOST_COLUMNS = 9
_FOLLOWS = "question_answering.omission_ratio"


def _rich(table: Table) -> list[RenderableType]:
    drawn = _grid()
    shown = [
        place
        for place, key in enumerate(table.keys)
        if len(table.keys) <= _MOST_COLUMNS or key != _FOLLOWS
    ]
    for head in (table.heads[place] for place in shown):
        drawn.add_column(_head(head), justify="right", no_wrap=True)
    drawn.add_column(_head(("degr./", "failed")), justify="right", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*_rich_row(row, shown))
    rule = Rule(style="dim")
    parts: list[RenderableType] = [
        Text(table.title, style="bold"),
        *(Text(line, style="dim") for line in table.subtitle),
        rule,
        drawn,
    ]
    beside = beside_of(table.aggregates)
    if beside is not None:
        parts += [Text(), _rich_beside(beside)]
    notes = list(table.footnotes)
    if len(shown) < len(table.keys):
        notes.append("QA omitted is the rest of QA correct, hallucinated and failed")
    parts += [rule, *(_note(note) for note in notes)]
    return parts


def _grid() -> RichTable:
    """A table without lines whose first column holds names and may break them."""
    drawn = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    drawn.add_column("", min_width=8, max_width=20, overflow="fold")
    return drawn


def _head(lines: Sequence[str]) -> str:
    """Two lines, each with the blank that a mark takes after values."""
    return "\n".join(f"{line} " for line in lines)


def _note(note: str) -> RenderableType:
    """A footnote whose further lines are set in."""
    hanging = RichTable.grid(padding=(0, 1, 0, 0))
    hanging.add_column(width=1)
    hanging.add_column()
    hanging.add_row(Text(" "), Text(note, style="dim"))
    return hanging


def _rich_row(row: Row, shown: Sequence[int]) -> list[Text]:
    style = "italic" if row.reference else "bold"
    name = Text(row.name, style=style)
    if row.reference:
        name.append("\nreference row", style="dim")
    cells = (_rich_cell(row.cells[place]) for place in shown)
    return [name, *cells, Text(f"{row.degraded}/{row.failed} ")]


def _rich_cell(cell: Cell) -> Text:
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


def _rich_beside(beside: Beside) -> RichTable:
    drawn = _grid()
    for head in beside.heads:
        drawn.add_column(_head(head), justify="right", no_wrap=True)
    for name, values in beside.rows:
        drawn.add_row(Text(name), *(f"{value} " for value in values))
    return drawn


# -- other formats --------------------------------------------------------------------------


def _markdown(aggregates: Sequence[Aggregate]) -> str:
    parts = []
    for table in tables_of(aggregates):
        heads = ["", *(" ".join(head) for head in table.heads), "degraded/failed"]
        lines = [f"**{table.title}**", "", *(f"{line}  " for line in table.subtitle), ""]
        lines += [_bars(heads), _bars(["---"] + ["---:"] * (len(heads) - 1))]
        for row in table.rows:
            name = f"*{row.name}* (reference row)" if row.reference else row.name
            cells = [_one_line(cell) for cell in row.cells]
            lines.append(_bars([name, *cells, f"{row.degraded}/{row.failed}"]))
        lines += ["", *(f"- {note}" for note in table.footnotes)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one_line(cell: Cell) -> str:
    text = cell.value + (f" {cell.mark}" if cell.mark else "")
    if cell.interval:
        text += f" [{cell.interval}]"
    more = ", ".join(part for part in (cell.count, cell.valid and f"valid {cell.valid}") if part)
    return f"{text} ({more})" if more else text


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "—": "---",
    "–": "--",
    "●": r"$\bullet$",
    "≈": r"$\approx$",
    "·": r"$\cdot$",
}
_LATEX |= {s: f"$^{{{n}}}$" for n, s in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(aggregates: Sequence[Aggregate]) -> str:
    """A ``tabular`` in a ``table``; needs no package."""
    parts = []
    for table in tables_of(aggregates):
        heads = ["", *(" ".join(head) for head in table.heads), "degraded/failed"]
        lines = [
            r"\begin{table}",
            r"\centering",
            r"\begin{tabular}{l" + "r" * (len(heads) - 1) + "}",
        ]
        lines += [r"\hline", " & ".join(_tex(head) for head in heads) + r" \\", r"\hline"]
        for row in table.rows:
            name = rf"\emph{{{_tex(row.name)}}}" if row.reference else _tex(row.name)
            cells = [_tex(_one_line(cell)) for cell in row.cells]
            lines.append(" & ".join([name, *cells, f"{row.degraded}/{row.failed}"]) + r" \\")
        caption = ". ".join([table.title, *table.subtitle, *table.footnotes])
        lines += [r"\hline", r"\end{tabular}", rf"\caption{{{_tex(caption)}.}}", r"\end{table}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


#: The columns of ``csv``.
CSV_COLUMNS = (
    *("row", "dataset", "judge", "answerer", "top_k", "sandbox", "dimension", "number"),
    *("metric_id", "unit", "value", "valid", "n", "N", "low", "high", "clusters", "na"),
)


def _csv(aggregates: Sequence[Aggregate]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for aggregate in aggregates:
        parts = {**aggregate["dimensions"], "retrieval": aggregate.get("retrieval", {})}
        for dimension, numbers in parts.items():
            for name, cell in numbers.items():
                low, high = cell["interval"] or (None, None)
                place = {"dimension": dimension, "number": name, "low": low, "high": high}
                writer.writerow({**aggregate, **cell, **place})
    return file.getvalue()


def _json(aggregates: Sequence[Aggregate]) -> str:
    rows = [{k: v for k, v in row.items() if k != "conversations"} for row in aggregates]
    return json.dumps({"rows": rows}, ensure_ascii=False, indent=2) + "\n"


FORMATS: dict[str, Callable[[Sequence[Aggregate]], str]] = {
    "markdown": _markdown,
    "csv": _csv,
    "latex": _latex,
    "json": _json,
}
