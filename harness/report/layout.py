"""What a table of rows says, before it is drawn: columns, cells, marks, footnotes, title.

A table holds rows that one data set, judge, answerer and depth made; others get their own
(:func:`tables_of`). Every cell shows the strict value; where units failed also n/N and, if it
differs, the score over valid units. A column that is N/A for all rows and that is not the first of
its dimension becomes a footnote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.aggregate.compare import SAME
from harness.report import notes
from harness.report.beside import Beside, beside_of
from harness.report.marks import BEST, TIED, cell_of, has, marks_of
from harness.report.names import HEADS
from harness.report.notes import NO_INTERVAL, Footnotes, number, superscript

__all__ = [
    "BEST",
    "HEADS",
    "TIED",
    "Cell",
    "Row",
    "Table",
    "bounds",
    "number",
    "superscript",
    "tables_of",
]

Aggregate = Mapping[str, Any]

#: Shown even where no row has a value, so that all six dimensions always stand there.
_ALWAYS = {
    "memory_recall.avg_recall",
    "memory_correctness.avg_correctness",
    "update_handling.score",
    "interference_rejection.score",
    "question_answering.correct_ratio",
    "evidence_coverage.hit_rate",
}
_GOLD_FOUND = "question_answering.gold_found"
_VERDICTS = "question_answering.correct_ratio"


@dataclass(frozen=True)
class Cell:
    """One cell, ready to be drawn.

    ``value`` is the strict number or the footnote of an N/A (``—¹``). ``interval`` is the interval,
    or the sign of the reason why there is none; it, ``count`` (``95/100``) and ``valid`` (the score
    over valid units, where it differs) are empty where there is nothing to say; ``mark`` is
    :data:`BEST`, :data:`TIED` or empty.
    """

    value: str
    interval: str = ""
    count: str = ""
    valid: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One row. ``reference`` rows are not ranked; ``under`` is what stands below the name."""

    name: str
    cells: tuple[Cell, ...]
    degraded: str
    failed: str
    reference: bool = False
    under: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name and what stands below it, in one line."""
        return f"{self.name} ({', '.join(self.under)})" if self.under else self.name


@dataclass(frozen=True)
class Table:
    """A table without a format. ``counts`` are the columns' N (``24``, ``18–24`` or empty)."""

    title: str
    subtitle: tuple[str, ...]
    heads: tuple[tuple[str, str], ...]
    counts: tuple[str, ...]
    keys: tuple[str, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]
    beside: Beside | None = None
    aggregates: tuple[Aggregate, ...] = field(repr=False, default=())

    @property
    def full_heads(self) -> list[str]:
        """Every column's head and N in one line."""
        return [
            " ".join(head) + (f" (N {count})" if count else "")
            for head, count in zip(self.heads, self.counts, strict=True)
        ]


def tables_of(aggregates: Sequence[Aggregate]) -> list[Table]:
    """One table for each group of rows that may stand beside each other, in the order given."""
    groups: dict[tuple[str, ...], list[Aggregate]] = {}
    for aggregate in aggregates:
        groups.setdefault(tuple(str(aggregate.get(name)) for name in SAME), []).append(aggregate)
    return [_table(group) for group in groups.values()]


def _table(rows: Sequence[Aggregate]) -> Table:
    keys = [key for key in HEADS if _is_shown(rows, key)]
    signs = Footnotes()
    marks, how = marks_of(rows, keys)
    made = [_row(rows, index, keys, marks, signs) for index in range(len(rows))]
    beside = beside_of(rows, signs.sign)
    missing = [key for key in HEADS if key not in keys and _is_news(rows, key)]
    footnotes = [
        *notes.how_to_read(rows, keys),
        *how,
        *signs.lines(),
        *notes.hidden(rows, missing),
        *notes.warnings(rows, keys),
        *notes.meanings(rows, keys, beside.keys if beside else ()),
        "what a number means and which records made it: memrig explain RUN NAME",
        *notes.metrics(rows, keys),
        *notes.judges(rows),
    ]
    return Table(
        title=str(rows[0].get("dataset", "unnamed data")),
        subtitle=notes.subtitle(rows),
        heads=tuple(HEADS[key] for key in keys),
        counts=tuple(_counts(rows, key) for key in keys),
        keys=tuple(keys),
        rows=tuple(made),
        footnotes=tuple(footnotes),
        beside=beside,
        aggregates=tuple(rows),
    )


def _is_shown(rows: Sequence[Aggregate], key: str) -> bool:
    if key == notes.FAILED:
        return notes.any_failed(rows)
    if key == _GOLD_FOUND and not any(has(row, _VERDICTS) for row in rows):
        # The one number of a judge without verdicts: a dash with its reason if it has none.
        return any(_can_be(row, key) for row in rows)
    return key in _ALWAYS or any(has(row, key) for row in rows)


def _can_be(row: Aggregate, key: str) -> bool:
    cell = cell_of(row, key)
    return cell is not None and not str(cell.get("na")).endswith("gives verdicts instead")


def _is_news(rows: Sequence[Aggregate], key: str) -> bool:
    """No question failed, or verdicts stand where gold found would: that needs no footnote."""
    return key not in (notes.FAILED, _GOLD_FOUND)


def _counts(rows: Sequence[Aggregate], key: str) -> str:
    found = sorted({(cell_of(row, key) or {})["N"] for row in rows if has(row, key)})
    if not found:
        return ""
    return str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}"


def bounds(interval: Sequence[float]) -> str:
    """An interval in two decimals: ``.57–.71``; the ends of the scale are ``0`` and ``1``."""
    ends = (number(end, 2) for end in interval)
    return "–".join({".00": "0", "1.00": "1"}.get(end, end) for end in ends)


def _row(
    rows: Sequence[Aggregate],
    index: int,
    keys: Sequence[str],
    marks: Mapping[tuple[int, str], str],
    signs: Footnotes,
) -> Row:
    row = rows[index]
    alone = not any(
        cell["interval"] for r in rows for k in keys if has(r, k) and (cell := cell_of(r, k))
    )
    cells = []
    for key in keys:
        found = cell_of(row, key)
        if found is None or found["value"] is None:
            cells.append(Cell(signs.sign((found or {}).get("na") or "not measured")))
            continue
        interval = found["interval"]
        none = "" if alone else NO_INTERVAL.get(str(found.get("no_interval")), "")
        cells.append(
            Cell(
                value=number(found["value"]),
                interval=bounds(interval) if interval else none,
                count=f"{found['n']}/{found['N']}" if found["n"] < found["N"] else "",
                valid=_valid(found),
                mark=marks.get((index, key), ""),
            )
        )
    return Row(
        name=str(row.get("row", "?")),
        cells=tuple(cells),
        degraded=str(row["degraded"]["sessions"] + row["degraded"]["questions"]),
        failed=str(notes.failed(row)),
        reference=bool(row.get("reference")),
        under=_under(row, rows),
    )


def _under(row: Aggregate, rows: Sequence[Aggregate]) -> tuple[str, ...]:
    """What tells a row from others: its kind, another name, its run, its sandbox."""
    told = []
    if row.get("reference"):
        told.append("reference row")
    if row.get("alias_of"):
        told.append(f"asked for as {row['alias_of']}")
    same = Counter(str(other.get("row")) for other in rows)
    if same[str(row.get("row"))] > 1 and row.get("run"):
        told.append(str(row["run"]))
    boxes = {other.get("sandbox") for other in rows if not other.get("reference")}
    if len(boxes) > 1 and not row.get("reference"):
        told.append(f"in {row.get('sandbox')}")
    return tuple(told)


def _valid(cell: Mapping[str, Any]) -> str:
    valid = cell["valid"]
    if cell["n"] == cell["N"] or valid is None or number(valid) == number(cell["value"]):
        return ""
    return number(valid)
