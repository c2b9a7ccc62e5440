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
    NUMBERS,
    QUESTION_NUMBERS,
    SESSION_NUMBERS,
    Number,
    values,
)
from harness.outcomes import Status, UnknownName

Line = Mapping[str, Any]

#: How the numbers are put together, in words.
HOW = {
    "sessions": "mean over the sessions that have a denominator",
    "updates": "pooled over all update points that name an original",
    "points": "pooled over all interference points",
    "questions": "pooled over all questions",
    "evidence points": "pooled over all resolved evidence points of all questions",
}


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
    """A number with its parts, worst first. ``cell`` is the aggregate's."""

    key: str
    metric_id: str
    how: str
    cell: Mapping[str, Any]
    numerator: Fraction
    denominator: int
    units: tuple[Unit, ...]
    without: Mapping[str, int] = field(default_factory=dict)


def metric_of(name: str) -> Number:
    """A number by what a person types: its key, its last part, its dimension or its metric id.

    Raises:
        UnknownName: with the nearest.
    """
    wanted = name.strip().lower().replace("-", "_").replace(" ", "_")
    for number in NUMBERS:
        if wanted in (number.key, number.name) or wanted == number.dimension:
            return number
    short = {words: number for number in NUMBERS for words in _short_names(number)}
    if wanted in short:
        return short[wanted]
    raise UnknownName("metric", name, [*(number.key for number in NUMBERS), *short])


def _short_names(number: Number) -> list[str]:
    extra = {
        "memory_recall.avg_recall": ["recall"],
        "memory_recall.avg_update_recall": ["update_recall"],
        "memory_correctness.avg_correctness": ["correctness", "support"],
        "update_handling.score": ["update", "updates"],
        "interference_rejection.score": ["interference"],
        "question_answering.correct_ratio": ["qa", "correct"],
        "question_answering.hallucination_ratio": ["hallucination"],
        "question_answering.omission_ratio": ["omission"],
        "evidence_coverage.hit_rate": ["evidence"],
    }
    return extra.get(number.key, [])


def explain(
    number: Number,
    aggregate: Mapping[str, Any],
    sessions: Iterable[Line],
    questions: Iterable[Line],
) -> Explanation:
    """Trace a number to its records."""
    lines = sessions if number in SESSION_NUMBERS else questions
    units: list[Unit] = []
    without: dict[str, int] = {}
    total, numerator = 0, Fraction(0)
    for line in lines:
        unit = _unit(number, line)
        if unit.numerator is None:
            reason = unit.reason or "no denominator"
            without[reason] = without.get(reason, 0) + 1
            continue
        total += unit.denominator
        numerator += unit.numerator
        units.append(unit)
    cell = aggregate["dimensions"][number.dimension][number.name]
    units.sort(key=lambda unit: (_share(unit), unit.sample_id, unit.where), reverse=False)
    if number.better == "low":
        units.reverse()
    return Explanation(
        key=number.key,
        metric_id=cell["metric_id"],
        how=HOW[number.unit],
        cell=cell,
        numerator=numerator,
        denominator=total,
        units=tuple(units),
        without=without,
    )


def _share(unit: Unit) -> Fraction:
    return (unit.numerator or Fraction(0)) / (unit.denominator or 1)


def _unit(number: Number, line: Line) -> Unit:
    graded = line["eval"]
    status = Status(graded.get("status") or line["status"])
    base: dict[str, Any] = {
        "sample_id": line["sample_id"],
        "where": str(line.get("question_id") or line["session_id"]),
        "status": status.value,
        "after_failure": bool(line.get("after_failure")),
    }
    if not (status.has_result or status.is_failure):
        return Unit(**base, numerator=None, denominator=0, reason=status.value)
    (_, value, reason) = next(iter(values((number,), graded)))
    if value is None:
        return Unit(**base, numerator=None, denominator=0, reason=reason)
    shown = tuple(_words(number, line, graded))
    return Unit(
        **base, numerator=Fraction(value[0]), denominator=value[1], reason=None, shown=shown
    )


def _words(number: Number, line: Line, graded: Line) -> Iterator[str]:
    failure = line.get("failure")
    if failure:
        yield f"failed: {failure['kind']}: {failure['message'].splitlines()[0]}"
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
    yield f"answered: {line.get('answer')}"
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


def question_story(line: Line, gold: Mapping[str, Any] | None = None) -> list[str]:
    """One question from retrieval to verdict, in lines of text."""
    graded = line["eval"]
    told = [f"{line['sample_id']}/{line['question_id']}: {line.get('question')}"]
    told.append(f"status {line['status']}, after session {line['session_id']}")
    if line.get("failure"):
        told.append(f"failed: {line['failure']['kind']}: {line['failure']['message']}")
    items = line.get("retrieved") or []
    top_k = int(line.get("top_k") or len(items))
    told.append(f"retrieved {len(items)} memories, the first {top_k} are scored")
    for rank, item in enumerate(items[:top_k], start=1):
        used = " <- answered from here" if line.get("answer_from") == rank - 1 else ""
        told.append(f"  {rank}. [{item['memory_id']}] {_cut(item['text'])}{used}")
    told.append(f"answered: {line.get('answer')}")
    if gold:
        told += [f"{name}: {value}" for name, value in gold.items()]
    for name in ("answer", "gold_found", "evidence", "retrieval"):
        told.append(f"{name}: {_block_words(graded.get(name) or {})}")
    told.append(f"judge: {graded['judge']}")
    return told


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
        ranks = (str(rank) if rank else "not retrieved" for rank in block["first"])
        told.append(f"first found at rank {', '.join(ranks)}")
    return ", ".join(told)
