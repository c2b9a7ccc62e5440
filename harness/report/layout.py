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

from harness.aggregate.compare import LEVEL, SAME, compare
from harness.aggregate.dimensions import by_key
from harness.aggregate.stats import holm
from harness.judging.base import NEEDS_MODEL

Aggregate = Mapping[str, Any]

BEST = "●"
TIED = "≈"

#: Column heads in two lines, in the order of the six dimensions.
HEADS = {
    "memory_recall.avg_recall": ("Memory", "recall"),
    "memory_recall.avg_update_recall": ("Update", "recall"),
    "memory_correctness.avg_correctness": ("Memory", "correct"),
    "memory_correctness.avg_hallucination": ("Memory", "halluc."),
    "update_handling.score": ("Update", "handling"),
    "interference_rejection.score": ("Interf.", "rejected"),
    "question_answering.correct_ratio": ("QA", "correct"),
    "question_answering.hallucination_ratio": ("QA", "halluc."),
    "question_answering.omission_ratio": ("QA", "omitted"),
    "question_answering.gold_found": ("QA gold", "found"),
    "evidence_coverage.hit_rate": ("Evidence", "coverage"),
}

#: Shown even where no row has a value, so that all six dimensions always stand there.
_ALWAYS = {
    "memory_recall.avg_recall",
    "memory_correctness.avg_correctness",
    "update_handling.score",
    "interference_rejection.score",
    "question_answering.correct_ratio",
    "evidence_coverage.hit_rate",
}


@dataclass(frozen=True)
class Cell:
    """One cell, ready to be drawn.

    ``value`` is the strict number or the footnote of an N/A (``—¹``). ``interval``, ``count``
    (``95/100``) and ``valid`` (the score over valid units, where it differs) are empty where there
    is nothing to say; ``mark`` is :data:`BEST`, :data:`TIED` or empty.
    """

    value: str
    interval: str = ""
    count: str = ""
    valid: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One row. ``reference`` rows are not ranked."""

    name: str
    cells: tuple[Cell, ...]
    degraded: str
    failed: str
    reference: bool = False


@dataclass(frozen=True)
class Table:
    """A table without a format."""

    title: str
    subtitle: tuple[str, ...]
    heads: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]
    aggregates: tuple[Aggregate, ...] = field(repr=False, default=())


def tables_of(aggregates: Sequence[Aggregate]) -> list[Table]:
    """One table for each group of rows that may stand beside each other, in the order given."""
    groups: dict[tuple[str, ...], list[Aggregate]] = {}
    for aggregate in aggregates:
        groups.setdefault(tuple(str(aggregate.get(name)) for name in SAME), []).append(aggregate)
    return [_table(group) for group in groups.values()]


def _table(rows: Sequence[Aggregate]) -> Table:
    keys = [key for key in HEADS if key in _ALWAYS or any(_has(row, key) for row in rows)]
    notes = _Footnotes()
    marks, how = _marks(rows, keys)
    made = [_row(row, keys, marks, notes, index) for index, row in enumerate(rows)]
    # gold_found exists where there are no verdicts; its absence beside verdicts is no news.
    hidden = [k for k in HEADS if k not in keys and k != "question_answering.gold_found"]
    footnotes = [
        "strict: a failed unit counts as wrong; below it the 95 % cluster-robust t interval over "
        "conversations; where units failed also n/N, and v: over valid units only",
        *how,
        *notes.lines(),
        *_hidden_notes(rows, hidden),
        *_measured_notes(rows, keys),
        *_judge_notes(rows),
    ]
    return Table(
        title=str(rows[0].get("dataset", "unnamed data")),
        subtitle=_subtitle(rows),
        heads=tuple(HEADS[key] for key in keys),
        keys=tuple(keys),
        rows=tuple(made),
        footnotes=tuple(footnotes),
        aggregates=tuple(rows),
    )


def _cell(row: Aggregate, key: str) -> Mapping[str, Any] | None:
    dimension, _, name = key.partition(".")
    found: Mapping[str, Any] | None = row["dimensions"].get(dimension, {}).get(name)
    return found


def _has(row: Aggregate, key: str) -> bool:
    found = _cell(row, key)
    return found is not None and found["value"] is not None


# -- cells ----------------------------------------------------------------------------------


class _Footnotes:
    """Numbers the reasons for N/A in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, reason: str) -> int:
        return self._numbers.setdefault(reason, len(self._numbers) + 1)

    def lines(self) -> list[str]:
        return [f"—{superscript(n)} N/A: {reason}" for reason, n in self._numbers.items()]


def superscript(number: int) -> str:
    """A number in superior figures."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def number(value: float, decimals: int = 3) -> str:
    """Decimals without the leading zero: ``.720``, ``1.000``."""
    text = f"{value:.{decimals}f}"
    return text.replace("0.", ".", 1) if text.startswith("0.") else text


def bounds(interval: Sequence[float]) -> str:
    """An interval in two decimals: ``.57–.71``; the ends of the scale are ``0`` and ``1``."""
    ends = (number(end, 2) for end in interval)
    return "–".join({".00": "0", "1.00": "1"}.get(end, end) for end in ends)


def _row(
    row: Aggregate,
    keys: Sequence[str],
    marks: Mapping[tuple[int, str], str],
    notes: _Footnotes,
    index: int,
) -> Row:
    cells = []
    for key in keys:
        found = _cell(row, key)
        if found is None or found["value"] is None:
            reason = (found or {}).get("na") or "not measured"
            cells.append(Cell(f"—{superscript(notes.number(reason))}"))
            continue
        interval = found["interval"]
        cells.append(
            Cell(
                value=number(found["value"]),
                interval=bounds(interval) if interval else "",
                count=f"{found['n']}/{found['N']}" if found["n"] < found["N"] else "",
                valid=_valid(found),
                mark=marks.get((index, key), ""),
            )
        )
    name = str(row.get("row", "?"))
    if row.get("alias_of"):
        name = f"{name} (asked for as {row['alias_of']})"
    return Row(name, tuple(cells), _degraded(row), _failed(row), bool(row.get("reference")))


def _valid(cell: Mapping[str, Any]) -> str:
    valid = cell["valid"]
    if cell["n"] == cell["N"] or valid is None or number(valid) == number(cell["value"]):
        return ""
    return number(valid)


def _degraded(row: Aggregate) -> str:
    counts = row["degraded"]
    total = counts["sessions"] + counts["questions"]
    return str(total) if total else "0"


def _failed(row: Aggregate) -> str:
    return str(
        sum(
            count
            for statuses in row["statuses"].values()
            for status, count in statuses.items()
            if status.startswith("failed_") or status == "budget_exhausted"
        )
    )


# -- marks ----------------------------------------------------------------------------------


def _marks(
    rows: Sequence[Aggregate], keys: Sequence[str]
) -> tuple[dict[tuple[int, str], str], list[str]]:
    """Marks for each ranked row and column, and the lines that explain them."""
    ranked = [index for index, row in enumerate(rows) if not row.get("reference")]
    marks: dict[tuple[int, str], str] = {}
    if len(ranked) < 2:
        return marks, []
    smallest = 1.0
    for key in keys:
        able = [index for index in ranked if _has(rows[index], key)]
        if len(able) > 1 and by_key(key).better != "none":
            smallest = min(smallest, _mark_column(rows, key, able, marks))
    if not marks:
        clusters = max(len(rows[index]["conversations"]["ids"]) for index in ranked)
        return marks, [
            f"no row is marked as better: with {clusters} conversations no difference can reach "
            f"p < {LEVEL} (paired sign-flip; at best p = {smallest:.3g})"
        ]
    return marks, [
        f"{BEST} best, beyond chance; {TIED} not distinguishable from the best (paired sign-flip "
        f"over conversations, Holm over the column, p >= {LEVEL})"
    ]


def _mark_column(
    rows: Sequence[Aggregate],
    key: str,
    able: Sequence[int],
    marks: dict[tuple[int, str], str],
) -> float:
    """Mark one column; returns the smallest p that its tests could have given."""
    sign = -1 if by_key(key).better == "low" else 1
    best = max(able, key=lambda index: (sign * _cell(rows[index], key)["value"], -index))  # type: ignore[index]
    others = [index for index in able if index != best]
    results = [compare(rows[best], rows[index], [key])[0] for index in others]
    pairs = [(index, r.paired) for index, r in zip(others, results, strict=True) if r.paired]
    smallest = min((paired.smallest_p for _, paired in pairs), default=1.0)
    if smallest >= LEVEL:
        return smallest  # no outcome could have been told from chance: a mark would say nothing
    adjusted = holm([paired.p for _, paired in pairs])
    tied = [index for (index, _), p in zip(pairs, adjusted, strict=True) if p >= LEVEL]
    for index in tied:
        marks[(index, key)] = TIED
    marks[(best, key)] = TIED if tied else BEST
    return smallest


# -- words ----------------------------------------------------------------------------------


def _subtitle(rows: Sequence[Aggregate]) -> tuple[str, ...]:
    first = rows[0]
    kinds = sorted({str(row["sandbox"]) for row in rows if row.get("sandbox")})
    conversations = max(len(row["conversations"]["ids"]) for row in rows)
    lines = [f"judge: {first.get('judge_title', '')} [{first.get('judge')}]"]
    if first.get("answerer"):
        lines.append(f"answers: {first['answerer']} · top {first.get('top_k')}")
    size = f"{conversations} conversation{'s' if conversations != 1 else ''}"
    lines.append(size + (f" · sandbox: {', '.join(kinds)}" if kinds else ""))
    open_network = sorted({str(row["row"]) for row in rows if row.get("network") == "host"})
    if open_network:
        lines.append(f"not cut off from the network: {', '.join(open_network)}")
    notes = dict.fromkeys(str(row["data_note"]) for row in rows if row.get("data_note"))
    return (*lines, *notes)


def _hidden_notes(rows: Sequence[Aggregate], hidden: Sequence[str]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for key in hidden:
        cells = [found for row in rows if (found := _cell(row, key)) is not None]
        reasons = Counter(str(cell.get("na") or "not measured") for cell in cells)
        structural = NEEDS_MODEL in reasons
        reason = NEEDS_MODEL if structural else reasons.most_common(1)[0][0]
        by_reason.setdefault(reason, []).append(
            " ".join(HEADS[key]).replace("halluc.", "hallucination")
        )
    return [f"not shown: {', '.join(names)} ({reason})" for reason, names in by_reason.items()]


def _measured_notes(rows: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """The metric ids of the columns that have a number, once for all rows."""
    cells = [_cell(row, key) for key in keys for row in rows if _has(row, key)]
    ids = [str(cell["metric_id"]).partition("/")[0] for cell in cells if cell is not None]
    return [f"metrics: {', '.join(dict.fromkeys(ids))}"] if ids else []


def _judge_notes(rows: Sequence[Aggregate]) -> list[str]:
    """How far the judge is to be trusted, once for all rows whose judge was measured alike."""
    errors = [row["calibration"] for row in rows if row.get("calibration")]
    return list(dict.fromkeys(_error(error) for error in errors))


def _error(error: Mapping[str, Any]) -> str:
    accepted, missed = error["false_correct"], error["missed_correct"]
    line = (
        f"{error['judge']} judge on {error['n']} calibration items: accepts "
        f"{accepted['hits']} of {accepted['n']} wrong answers, misses "
        f"{missed['hits']} of {missed['n']} right ones"
    )
    return f"{line}; deterministic, not exact" if error["deterministic"] else line
