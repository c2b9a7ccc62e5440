"""The six dimensions: which numbers each has, and how a graded unit adds to them.

Aggregation as the seed says: recall and correctness are means over the sessions that have a
denominator; updates, interference, questions and evidence are pooled. Either way a number is
R = sum of numerators / sum of denominators over units, kept as one pair a conversation
(:mod:`harness.aggregate.sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Block = Mapping[str, Any]
#: Numerator and denominator that one unit adds, or None where the instrument has no such number.
Value = tuple[int | Fraction, int] | None

NO_SHARE = "needs a judge model"


@dataclass(frozen=True)
class Number:
    """One number of a dimension.

    ``key`` is "dimension.name" in the aggregate; ``block`` the part of an eval object that it is
    read from; ``unit`` what its n and N count; ``value`` reads a block that is not N/A. ``absent``
    is the reason given when ``value`` finds none.
    """

    key: str
    block: str
    unit: str
    value: Callable[[Block], Value]
    better: str = "high"
    absent: str = "no denominator"

    @property
    def dimension(self) -> str:
        """Its dimension."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """Its name in the dimension."""
        return self.key.partition(".")[2]


def _session_share(field: str) -> Callable[[Block], Value]:
    """One session's share; the session counts once, however many points it has."""

    def value(block: Block) -> Value:
        part = block.get(field)  # absent, too, where a failed session was not looked at
        return None if part is None else (Fraction(part, block["total"]), 1)

    return value


def _pooled(*fields: str) -> Callable[[Block], Value]:
    return lambda block: (sum(block[name] for name in fields), block["total"])


def _update_score(block: Block) -> Value:
    return Fraction(2 * block["updated"] + block["both"], 2), block["total"]


def _verdict(name: str | None) -> Callable[[Block], Value]:
    """``None`` is the verdict on a question that was not answered (its unit failed)."""
    return lambda block: (int(block["verdict"] == name), 1)


SESSION_NUMBERS = (
    Number("memory_recall.avg_recall", "recall", "sessions", _session_share("covered")),
    Number(
        "memory_recall.avg_update_recall", "update_recall", "sessions", _session_share("covered")
    ),
    Number(
        "memory_correctness.avg_correctness", "correctness", "sessions", _session_share("supported")
    ),
    Number(
        "memory_correctness.avg_hallucination",
        "correctness",
        "sessions",
        _session_share("hallucinated"),
        better="low",
        absent=NO_SHARE,
    ),
    Number("update_handling.score", "update", "updates", _update_score),
    Number("update_handling.updated_ratio", "update", "updates", _pooled("updated")),
    Number("update_handling.both_ratio", "update", "updates", _pooled("both"), better="none"),
    Number(
        "update_handling.outdated_ratio",
        "update",
        "updates",
        _pooled("outdated", "lost"),
        better="low",
    ),
    Number("interference_rejection.score", "interference", "points", _pooled("rejected")),
)

QUESTION_NUMBERS = (
    Number("question_answering.correct_ratio", "answer", "questions", _verdict("Correct")),
    Number(
        "question_answering.hallucination_ratio",
        "answer",
        "questions",
        _verdict("Hallucination"),
        better="low",
    ),
    Number(
        "question_answering.omission_ratio",
        "answer",
        "questions",
        _verdict("Omission"),
        better="low",
    ),
    Number("question_answering.failed_ratio", "answer", "questions", _verdict(None), better="low"),
    Number("question_answering.gold_found", "gold_found", "questions", _pooled("found")),
    Number("evidence_coverage.hit_rate", "evidence", "evidence points", _pooled("covered")),
)

NUMBERS = (*SESSION_NUMBERS, *QUESTION_NUMBERS)

DIMENSIONS = tuple(dict.fromkeys(number.dimension for number in NUMBERS))


def by_key(key: str) -> Number:
    """A number by its key; ``KeyError`` if there is none."""
    return {number.key: number for number in NUMBERS}[key]


def values(
    numbers: tuple[Number, ...], graded: Block
) -> Iterator[tuple[Number, Value, str | None]]:
    """For each number the unit's value, or the reason why it has none."""
    for number in numbers:
        block = graded.get(number.block)
        if block is None:
            yield number, None, number.absent
        elif "na" in block:
            yield number, None, block["na"]
        else:
            value = number.value(block)
            yield number, value, None if value is not None else number.absent
