"""Two rows on the same data: which of their differences are more than chance.

Reads two aggregates; everything needed stands in their ``conversations``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.aggregate.dimensions import by_key
from harness.aggregate.stats import Paired, holm, mcnemar, sign_flip
from harness.outcomes import RunError, Status

Aggregate = Mapping[str, Any]

#: One or two numbers for each dimension: what is compared, and what a table shows.
HEADLINES = (
    "memory_recall.avg_recall",
    "memory_recall.avg_update_recall",
    "memory_correctness.avg_correctness",
    "memory_correctness.avg_hallucination",
    "update_handling.score",
    "interference_rejection.score",
    "question_answering.correct_ratio",
    "question_answering.hallucination_ratio",
    "question_answering.omission_ratio",
    "question_answering.gold_found",
    "evidence_coverage.hit_rate",
)

LEVEL = 0.05

#: What two rows must have in common for their numbers to be of one kind.
SAME = ("dataset", "dataset_sha256", "judge", "answerer", "top_k")


@dataclass(frozen=True)
class Compared:
    """One number of rows A and B. ``p_holm`` is adjusted over all numbers that were compared."""

    key: str
    a: float | None
    b: float | None
    paired: Paired | None = None
    p_holm: float | None = None
    reason: str | None = None

    @property
    def different(self) -> bool:
        """More than chance, after Holm's correction."""
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def winner(self) -> str | None:
        """Which row is better ("a" or "b"); None where they cannot be told apart."""
        if not self.different or self.paired is None or by_key(self.key).better == "none":
            return None
        higher = "a" if self.paired.difference > 0 else "b"
        if by_key(self.key).better == "low":
            return "b" if higher == "a" else "a"
        return higher


def compare(
    a: Aggregate, b: Aggregate, keys: Sequence[str] = HEADLINES, *, seed: int = 0
) -> list[Compared]:
    """Compare two rows number by number, paired by conversation, strict values.

    Raises:
        RunError: they differ in data, judge, answerer or depth, or share no conversation.
    """
    differing = [name for name in SAME if a.get(name) != b.get(name)]
    if differing:
        told = "; ".join(f"{name}: {a.get(name)!r} and {b.get(name)!r}" for name in differing)
        raise RunError(f"these runs cannot be compared, they differ in {told}")
    shared = sorted(set(a["conversations"]["ids"]) & set(b["conversations"]["ids"]))
    if not shared:
        raise RunError("these runs share no conversation")
    made = [_one(a, b, key, shared, seed) for key in keys]
    tested = [entry for entry in made if entry.paired is not None]
    adjusted = iter(holm([entry.paired.p for entry in tested if entry.paired is not None]))
    return [
        Compared(e.key, e.a, e.b, e.paired, next(adjusted), None) if e.paired is not None else e
        for e in made
    ]


@dataclass(frozen=True)
class Discordant:
    """Questions that only one of two rows got right, and the exact McNemar p.

    Unclustered: it takes questions as independent, which those of one conversation are not.
    """

    only_a: int
    only_b: int
    both_asked: int

    @property
    def p(self) -> float:
        """Two-sided."""
        return mcnemar(self.only_a, self.only_b)


def discordant(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]) -> Discordant | None:
    """Count over the judged question lines of two rows; None where neither has verdicts."""
    rights = _right(a)
    only_a = only_b = both = 0
    for place, right in _right(b).items():
        if place in rights:
            both += 1
            only_a += rights[place] and not right
            only_b += right and not rights[place]
    return Discordant(only_a, only_b, both) if both else None


def _right(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], bool]:
    """Whether each question was answered right, strictly, by (sample, position)."""
    found = {}
    for line in lines:
        block = line["eval"]["answer"]
        status = Status(line["eval"].get("status") or line["status"])
        if "na" not in block and (status.has_result or status.is_failure):
            place = (str(line["sample_id"]), int(line["position"]))
            found[place] = block["verdict"] == "Correct"
    return found


def value_of(row: Aggregate, key: str) -> float | None:
    """The strict value of a number, None where it is N/A."""
    dimension, _, name = key.partition(".")
    cell = row["dimensions"].get(dimension, {}).get(name)
    return None if cell is None else cell["value"]


def _one(a: Aggregate, b: Aggregate, key: str, shared: Sequence[str], seed: int) -> Compared:
    values = value_of(a, key), value_of(b, key)
    if None in values:
        return Compared(key, *values, reason=_why_not(a if values[0] is None else b, key))
    paired = sign_flip(_sums(a, key, shared), _sums(b, key, shared), seed=seed)
    if paired is None:
        return Compared(key, *values, reason="no conversation has a denominator in both")
    return Compared(key, *values, paired=paired)


def _why_not(row: Aggregate, key: str) -> str:
    dimension, _, name = key.partition(".")
    cell = row["dimensions"].get(dimension, {}).get(name) or {}
    return f"{row.get('row', 'a row')}: {cell.get('na') or 'not measured'}"


def _sums(row: Aggregate, key: str, shared: Sequence[str]) -> tuple[list[float], list[float]]:
    place = {name: index for index, name in enumerate(row["conversations"]["ids"])}
    numbers = row["conversations"]["numbers"][key]
    return (
        [numbers["y"][place[name]] for name in shared],
        [numbers["x"][place[name]] for name in shared],
    )
