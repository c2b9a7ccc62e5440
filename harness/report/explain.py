"""How a number came about: from a cell back to the records that made it.

Reads a finished run's judged lines, once, one at a time. What is said in words here stands in the
``eval`` objects; nothing is judged or added up anew but the sums that are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from harness.aggregate.dimensions import (
    QUESTION_NUMBERS,
    SESSION_NUMBERS,
    Number,
    by_key,
    values,
)
from harness.judging.sources import ndcg_at
from harness.outcomes import Status
from harness.report.measured import failure_words
from harness.report.names import Name, counted

Line = Mapping[str, Any]

#: How the numbers are put together, in words.
HOW = {
    "sessions": "mean over the sessions that have a denominator",
    "updates": "pooled over all update points that name an original",
    "points": "pooled over all interference points",
    "questions": "pooled over all questions",
    "evidence points": "pooled over all resolved evidence points of all questions",
}
HOW_RETRIEVAL = "mean over the questions that cite sources"


@dataclass(frozen=True)
class Unit:
    """One record's part in a number. ``shown`` are sentences about what was found."""

    sample_id: str
    where: str
    status: str
    after_failure: bool
    numerator: Fraction | None
    denominator: int
    reason: str | None
    shown: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        """All of it was right."""
        return self.numerator is not None and self.numerator == self.denominator


@dataclass(frozen=True)
class Explanation:
    """A number with its parts: first what failed, then the worst. ``cell`` is the aggregate's."""

    key: str
    metric_id: str
    about: str
    how: str
    cell: Mapping[str, Any]
    numerator: Fraction
    denominator: int
    units: tuple[Unit, ...]
    without: Mapping[str, int] = field(default_factory=dict)


def explain(
    name: Name,
    aggregate: Mapping[str, Any],
    sessions: Iterable[Line],
    questions: Iterable[Line],
) -> Explanation:
    """Trace a number, of a dimension or of retrieval, to its records."""
    number = by_key(name.key) if name.kind == "number" else None
    lines = sessions if number in SESSION_NUMBERS else questions
    units: list[Unit] = []
    without: dict[str, int] = {}
    total, numerator = 0, Fraction(0)
    for line in lines:
        unit = _unit(number, line) if number else _retrieval_unit(name.key, line)
        if unit.numerator is None:
            reason = unit.reason or "no denominator"
            without[reason] = without.get(reason, 0) + 1
            continue
        total += unit.denominator
        numerator += unit.numerator
        units.append(unit)
    low = number is not None and number.better == "low"
    units.sort(key=lambda unit: (*_rank(unit, low), unit.sample_id, unit.where))
    if number:
        cell = aggregate["dimensions"][number.dimension][number.name]
    else:
        cell = aggregate["retrieval"][name.key]
    return Explanation(
        key=name.key,
        metric_id=cell["metric_id"],
        about=name.about,
        how=HOW[number.unit] if number else HOW_RETRIEVAL,
        cell=cell,
        numerator=numerator,
        denominator=total,
        units=tuple(units),
        without=without,
    )


def _rank(unit: Unit, low: bool) -> tuple[bool, Fraction]:
    """Failed units first, then the worst."""
    return not Status(unit.status).is_failure, -_share(unit) if low else _share(unit)


def _share(unit: Unit) -> Fraction:
    return (unit.numerator or Fraction(0)) / (unit.denominator or 1)


def _unit(number: Number, line: Line) -> Unit:
    graded, base = line["eval"], _base(line)
    status = Status(base["status"])
    if not (status.has_result or status.is_failure):
        return Unit(**base, numerator=None, denominator=0, reason=_why_none(line, status))
    (_, value, reason) = next(iter(values((number,), graded)))
    if value is None:
        return Unit(**base, numerator=None, denominator=0, reason=reason)
    shown = tuple(_words(number, line, graded))
    return Unit(
        **base, numerator=Fraction(value[0]), denominator=value[1], reason=None, shown=shown
    )


def _retrieval_unit(key: str, line: Line) -> Unit:
    """``key`` is ``recall@k`` or ``ndcg@k``."""
    base = _base(line)
    status = Status(base["status"])
    block = line["eval"].get("retrieval") or {"na": "not judged"}
    if not (status.has_result or status.is_failure) or "na" in block:
        reason = block.get("na") if status.has_result or status.is_failure else None
        why = reason or _why_none(line, status)
        return Unit(**base, numerator=None, denominator=0, reason=why)
    kind, _, depth = key.partition("@")
    first, k = block["first"], int(depth)
    found = sum(1 for rank in first if rank is not None and rank <= k)
    value = Fraction(found, len(first)) if kind == "recall" else Fraction(ndcg_at(first, k))
    shown = (*_failure(line), f"asked: {line.get('question')}", _ranks(first))
    return Unit(**base, numerator=value, denominator=1, reason=None, shown=shown)


def _base(line: Line) -> dict[str, Any]:
    return {
        "sample_id": line["sample_id"],
        "where": str(line.get("question_id") or line["session_id"]),
        "status": Status(line["eval"].get("status") or line["status"]).value,
        "after_failure": bool(line.get("after_failure")),
    }


def _why_none(line: Line, status: Status) -> str:
    failure = line.get("failure") or {}
    return f"{status.value}: {failure['message']}" if failure.get("message") else status.value


def _failure(line: Line) -> tuple[str, ...]:
    failure = line["eval"].get("failure") or line.get("failure")
    return (f"failed: {failure_words(failure)}",) if failure else ()


def _ranks(first: Iterable[int | None]) -> str:
    told = (
        f"cited source {place}: {f'first at rank {rank}' if rank else 'not retrieved'}"
        for place, rank in enumerate(first, start=1)
    )
    return "; ".join(told)


def _answer(line: Line) -> str:
    if line.get("answer") is None:
        return f"no answer ({line['status']})"
    return f"answered: {line['answer']}"


def _words(number: Number, line: Line, graded: Line) -> Iterator[str]:
    yield from _failure(line)
    if number in QUESTION_NUMBERS:
        yield from _question_words(number, line, graded)
        return
    checks = {"recall": "recall", "update_recall": "recall", "update": "update"}
    check = checks.get(number.block, number.block)
    if check == "correctness":
        for item in graded.get("items", ()):
            yield _item_words(item)
        return
    for point in graded.get("points", ()):
        if point["check"] == check:
            yield _point_words(point)


def _item_words(item: Line) -> str:
    if item["interference"]:
        return f"memory {item['memory_id']}: hearsay {item['interference']}, not counted here"
    if item["supports"]:
        return f"memory {item['memory_id']}: states {item['supports']}"
    return f"memory {item['memory_id']}: carries no key of a gold point"


def _point_words(point: Line) -> str:
    place = f"in memory {point['in']}" if point["in"] else "in no memory"
    if point["check"] == "interference":
        verdict = "believed" if point["in"] else "rejected"
        return f"{point['id']}: {verdict} ({place})"
    if point["check"] == "update":
        old = f"in memory {point['old']}" if point["old"] else "in no memory"
        return f"{point['id']}: {point['is']} (new value {place}, old value {old})"
    return f"{point['id']}: {'found' if point['in'] else 'missed'} ({place})"


def _question_words(number: Number, line: Line, graded: Line) -> Iterator[str]:
    yield f"asked: {line.get('question')}"
    if number.block == "evidence":
        for point in graded["evidence"].get("points", ()):
            place = f"in memory {point['in']}" if point["in"] else "not retrieved"
            yield f"{point['id']}: {place}"
        return
    yield _answer(line)
    block = graded[number.block]
    if "verdict" in block:
        why = ""
        if block.get("forbidden"):
            why = f" (forbidden key {block['forbidden']!r})"
        elif block.get("alternative") is not None:
            why = f" (all keys of alternative {block['alternative'] + 1})"
        yield f"verdict: {block['verdict'] or 'none, the unit failed'}{why}"
    elif "found" in block:
        yield f"gold answer {'found' if block['found'] else 'not found'} in it"
    if line.get("answer_from") is not None and line.get("retrieved"):
        item = line["retrieved"][line["answer_from"]]
        rank = line["answer_from"] + 1
        yield f"from memory {item['memory_id']}, rank {rank}: {_cut(item['text'])}"


def _cut(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def find_question(questions: Iterable[Line], wanted: str) -> list[Line]:
    """The judged lines of a question: by ``SAMPLE/QUESTION``, question id, or part of its text."""
    sample, slash, name = wanted.partition("/")
    found, texts = [], []
    for line in questions:
        if slash and line["sample_id"] == sample and line["question_id"] == name:
            return [line]
        if line["question_id"] == wanted:
            found.append(line)
        elif wanted.casefold() in str(line.get("question", "")).casefold():
            texts.append(line)
    return found or texts


#: So many memories of one that is read whole are shown in a story.
_SHOWN_OF_ALL = 10


def question_story(
    line: Line, gold: Mapping[str, Any] | None = None, *, whole: bool = False
) -> list[str]:
    """One question from retrieval to verdict, in lines of text.

    ``whole``: the row returns all it has, and all of it is read and scored.
    """
    graded = line["eval"]
    told = [f"{line['sample_id']}/{line['question_id']}: {line.get('question')}"]
    told.append(f"status {line['status']}, after session {line['session_id']}")
    told += _failure(line)
    items = line.get("retrieved")
    if items is None:
        told.append("nothing was retrieved")
    else:
        top_k = int(line.get("top_k") or len(items))
        told += _retrieved(line, items, top_k, whole)
    told.append(_answer(line))
    if gold:
        told += [f"{name}: {value}" for name, value in gold.items()]
    for name in ("answer", "gold_found", "evidence", "retrieval"):
        told.append(f"{name}: {_block_words(graded.get(name) or {})}")
    told.append(f"judge: {graded['judge']}")
    return told


def _retrieved(line: Line, items: list[Line], top_k: int, whole: bool) -> Iterator[str]:
    scored = "all of them are read and scored" if whole else f"the first {top_k} are scored"
    yield f"retrieved {counted(len(items), 'memories')}, {scored}"
    shown = _SHOWN_OF_ALL if whole else top_k
    used = line.get("answer_from")
    for rank, item in enumerate(items, start=1):
        here = used == rank - 1
        if rank <= shown or here:
            arrow = " <- answered from here" if here else ""
            yield f"  {rank}. [{item['memory_id']}] {_cut(item['text'])}{arrow}"
    if whole and len(items) > shown:
        left = len(items) - shown - (used is not None and used >= shown)
        yield f"  and {left} more"


def _block_words(block: Line) -> str:
    if "na" in block:
        return f"N/A ({block['na']})"
    told = [
        f"{name} {value}"
        for name, value in block.items()
        if value is not None and name not in ("points", "first")
    ]
    for point in block.get("points", ()):
        told.append(f"{point['id']} {'in ' + point['in'] if point['in'] else 'not retrieved'}")
    if "first" in block:
        told.append(_ranks(block["first"]))
    return ", ".join(told)
