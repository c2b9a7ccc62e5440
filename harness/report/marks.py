"""Which rows of a column are marked as best, and the line that says how or why none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.aggregate.compare import LEVEL, compare
from harness.aggregate.dimensions import by_key
from harness.aggregate.stats import holm
from harness.report.names import HEADS, counted

Aggregate = Mapping[str, Any]

BEST = "●"
TIED = "≈"


@dataclass
class _Found:
    """What came of the columns: ``reach`` is the smallest Holm p that any could have given."""

    marks: dict[tuple[int, str], str] = field(default_factory=dict)
    columns: int = 0
    equal: int = 0
    reach: float = float("inf")
    pairs: int = 0
    at_odds: list[str] = field(default_factory=list)


def cell_of(row: Aggregate, key: str) -> Mapping[str, Any] | None:
    """The cell behind ``dimension.name``."""
    dimension, _, name = key.partition(".")
    found: Mapping[str, Any] | None = row["dimensions"].get(dimension, {}).get(name)
    return found


def has(row: Aggregate, key: str) -> bool:
    """Whether there is a number in it."""
    found = cell_of(row, key)
    return found is not None and found["value"] is not None


def marks_of(
    rows: Sequence[Aggregate], keys: Sequence[str]
) -> tuple[dict[tuple[int, str], str], list[str]]:
    """Marks for each ranked row and column, and the lines that explain them."""
    ranked = [index for index, row in enumerate(rows) if not row.get("reference")]
    if len(ranked) < 2:
        return {}, []
    found = _Found()
    for key in keys:
        able = [index for index in ranked if has(rows[index], key)]
        if len(able) > 1 and by_key(key).better != "none":
            _mark_column(rows, key, able, found)
    return found.marks, _why(rows, ranked, found)


def _why(rows: Sequence[Aggregate], ranked: Sequence[int], found: _Found) -> list[str]:
    lines = []
    if found.marks:
        lines.append(
            f"{BEST} best, beyond chance; {TIED} not distinguishable from the best (paired "
            f"sign-flip over conversations, Holm over the column, p >= {LEVEL})"
        )
    elif found.columns and found.equal == found.columns:
        lines.append("no row is marked as better: they are equal in every column")
    elif found.columns and found.reach >= LEVEL:
        size = max(len(rows[index]["conversations"]["ids"]) for index in ranked)
        among = f" among {found.pairs + 1} rows" if found.pairs > 1 else ""
        lines.append(
            f"no row is marked as better: with {counted(size, 'conversations')} no difference"
            f"{among} can reach p < {LEVEL} (paired sign-flip; at best p = {found.reach:.3g})"
        )
    if found.at_odds:
        lines.append(
            f"not marked: {', '.join(found.at_odds)} (the best row there is another one once "
            "failed units are left out)"
        )
    return lines


def _mark_column(rows: Sequence[Aggregate], key: str, able: Sequence[int], found: _Found) -> None:
    sign = -1 if by_key(key).better == "low" else 1

    def best_by(name: str) -> list[int]:
        values = {index: (cell_of(rows[index], key) or {}).get(name) for index in able}
        scores = {index: sign * value for index, value in values.items() if value is not None}
        return [index for index in scores if scores[index] == max(scores.values())]

    best = best_by("value")[0]
    others = [index for index in able if index != best]
    results = [compare(rows[best], rows[index], [key])[0] for index in others]
    pairs = [(index, r.paired) for index, r in zip(others, results, strict=True) if r.paired]
    if not pairs:
        return
    found.columns += 1
    # Holm multiplies the smallest p by the number of pairs: below that nothing can come out.
    reach = min(1.0, min(paired.smallest_p for _, paired in pairs) * len(pairs))
    if reach < found.reach:
        found.reach, found.pairs = reach, len(pairs)
    if all(paired.difference == 0 for _, paired in pairs):
        found.equal += 1
    if reach >= LEVEL:
        return  # no outcome could have been told from chance: a mark would say nothing
    # A row that fails often has few hallucinations, too. It is best only if it is both ways.
    if best not in best_by("valid"):
        found.at_odds.append(" ".join(HEADS[key]))
        return
    adjusted = holm([paired.p for _, paired in pairs])
    tied = [index for (index, _), p in zip(pairs, adjusted, strict=True) if p >= LEVEL]
    for index in tied:
        found.marks[(index, key)] = TIED
    found.marks[(best, key)] = TIED if tied else BEST
