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

from rich.console import Console, RenderableType

from harness.outcomes import UnknownName
from harness.report.beside import Beside
from harness.report.layout import Cell, Row, Table, tables_of
from harness.report.notes import NO_INTERVAL
from harness.report.terminal import Drawn

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
    """The tables for a Rich console, laid out for its width."""
    return Drawn(tables_of(aggregates))


# -- other formats --------------------------------------------------------------------------


def _markdown(aggregates: Sequence[Aggregate]) -> str:
    parts = []
    for table in tables_of(aggregates):
        heads = ["", *table.full_heads, "degraded/failed"]
        lines = [f"**{table.title}**", "", *(f"{line}  " for line in table.subtitle), ""]
        lines += [_bars(heads), _bars(["---"] + ["---:"] * (len(heads) - 1))]
        for row in table.rows:
            cells = [_one_line(cell) for cell in row.cells]
            lines.append(_bars([_emphasized(row), *cells, f"{row.degraded}/{row.failed}"]))
        if table.beside is not None:
            lines += ["", *_beside(table, table.beside)]
        lines += ["", *(f"- {note}" for note in table.footnotes)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _beside(table: Table, beside: Beside) -> list[str]:
    heads = ["", *(" ".join(head) for head in beside.heads)]
    lines = [_bars(heads), _bars(["---"] + ["---:"] * (len(heads) - 1))]
    rows = zip(table.rows, beside.rows, strict=True)
    return lines + [_bars([_emphasized(row), *values]) for row, values in rows]


def _emphasized(row: Row) -> str:
    return row.full_name.replace(row.name, f"*{row.name}*", 1) if row.reference else row.full_name


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one_line(cell: Cell) -> str:
    text = cell.value + (f" {cell.mark}" if cell.mark else "")
    if cell.interval:
        is_sign = cell.interval in NO_INTERVAL.values()
        text += f" {cell.interval}" if is_sign else f" [{cell.interval}]"
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
    "°": r"$^\circ$",
}
_LATEX |= {s: f"$^{{{n}}}$" for n, s in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(aggregates: Sequence[Aggregate]) -> str:
    """A ``tabular`` in a ``table``; needs no package."""
    parts = []
    for table in tables_of(aggregates):
        heads = ["", *table.full_heads, "degraded/failed"]
        lines = [
            r"\begin{table}",
            r"\centering",
            r"\begin{tabular}{l" + "r" * (len(heads) - 1) + "}",
        ]
        lines += [r"\hline", " & ".join(_tex(head) for head in heads) + r" \\", r"\hline"]
        for row in table.rows:
            name = rf"\emph{{{_tex(row.full_name)}}}" if row.reference else _tex(row.full_name)
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
