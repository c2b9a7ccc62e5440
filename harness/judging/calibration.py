"""How far a judge is to be trusted: its verdicts on items whose right verdict is known.

The shipped items (``datasets/calibration``) are our own, each a question, its gold with keys, an
answer, and the label that a careful reader gives it. Of each kind of answer half are English, half
Chinese. Any preset can be measured: an item is handed to ``Judge.question`` as a question record,
which is how the judge meets the answers of a run, so nothing here knows what kind of judge it is.

>>> found = calibrate(load_preset("keyed"), shipped_items())        # doctest: +SKIP
>>> found.overall.false_correct.hits, found.overall.false_correct.n  # doctest: +SKIP

Definitions, with "accepted" = judged Correct:

- acceptance of a kind: accepted / items of the kind; the kinds are right or wrong as a whole.
- false Correct: accepted / items whose label is not Correct; missed Correct: not accepted / items
  whose label is Correct.
- accuracy and Cohen's kappa: label against verdict over the three classes, where the judge gives
  verdicts; a judge that only finds or does not find has neither. An item on which the judge failed
  is not accepted and, in the three classes, stands as a fourth verdict that is never right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

from harness.judging.base import DETERMINISTIC, JSONObject, Preset, Scope
from harness.judging.items import CORRECT, KINDS, Item, ItemSet, shipped_items
from harness.outcomes import Status
from harness.records import QARecord
from harness.samples import (
    Checkpoint,
    Evidence,
    EvidenceKind,
    GoldPoint,
    PointKind,
    Question,
    Sample,
)

#: The verdict of an item on which the judge failed.
FAILED = "failed"


@dataclass(frozen=True)
class Rate:
    """``hits`` of ``n``."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.n if self.n else None

    def to_json(self) -> JSONObject:
        """Counts and share."""
        return {"hits": self.hits, "n": self.n, "value": self.value}


@dataclass(frozen=True)
class Graded:
    """What a judge made of an item; ``verdict`` is absent where it gives none."""

    item: Item
    accepted: bool
    verdict: str | None


@dataclass(frozen=True)
class Scores:
    """The numbers of some items, as the module's docstring defines them."""

    n: int
    failed: int
    acceptance: Mapping[str, Rate]
    false_correct: Rate
    missed_correct: Rate
    accuracy: Rate | None
    kappa: float | None

    def to_json(self) -> JSONObject:
        """Plain JSON."""
        return {
            "n": self.n,
            "failed": self.failed,
            "acceptance": {kind: rate.to_json() for kind, rate in self.acceptance.items()},
            "false_correct": self.false_correct.to_json(),
            "missed_correct": self.missed_correct.to_json(),
            "accuracy": self.accuracy.to_json() if self.accuracy else None,
            "kappa": self.kappa,
        }


@dataclass(frozen=True)
class Calibration:
    """A preset measured on a set of items."""

    preset: Preset
    items: ItemSet
    graded: tuple[Graded, ...]
    overall: Scores
    languages: Mapping[str, Scores]

    def to_json(self) -> JSONObject:
        """Everything, with the verdict on each item."""
        return {
            "judge": self.preset.id,
            "judge_title": self.preset.title,
            "items": self.items.id,
            "overall": self.overall.to_json(),
            "languages": {name: scores.to_json() for name, scores in self.languages.items()},
            "verdicts": [
                {
                    "id": entry.item.id,
                    "kind": entry.item.kind,
                    "label": entry.item.label,
                    "accepted": entry.accepted,
                    "verdict": entry.verdict,
                }
                for entry in self.graded
            ],
        }

    def error(self) -> JSONObject:
        """The few numbers that every table made with this judge prints."""
        return {
            "judge": self.preset.name,
            "items": self.items.id,
            "n": self.overall.n,
            "false_correct": self.overall.false_correct.to_json(),
            "missed_correct": self.overall.missed_correct.to_json(),
            "deterministic": self.preset.kind in DETERMINISTIC,
        }


# -- measuring ------------------------------------------------------------------------------


def calibrate(preset: Preset, items: ItemSet, *, workers: int = 1) -> Calibration:
    """Let a judge grade every item and count.

    Args:
        preset: any judge.
        items: what it is measured on.
        workers: judgements at a time, for a judge that waits for a model.
    """
    with ThreadPoolExecutor(max(1, workers)) as pool:
        graded = tuple(pool.map(lambda item: grade(preset, item), items.items))
    languages = sorted({item.language for item in items.items})
    return Calibration(
        preset=preset,
        items=items,
        graded=graded,
        overall=scores(graded),
        languages={
            name: scores([entry for entry in graded if entry.item.language == name])
            for name in languages
        },
    )


def grade(preset: Preset, item: Item) -> Graded:
    """One item through the judge's own door for questions."""
    sample, question, record = _case(item)
    found = preset.judge.question(sample, question, record, Scope())
    if found.get("status") == Status.FAILED_JUDGE:
        return Graded(item, accepted=False, verdict=FAILED)
    if "na" not in found["answer"]:
        verdict = str(found["answer"]["verdict"])
        return Graded(item, accepted=verdict == CORRECT, verdict=verdict)
    if "na" not in found["gold_found"]:
        return Graded(item, accepted=bool(found["gold_found"]["found"]), verdict=None)
    return Graded(item, accepted=False, verdict=FAILED)


def _case(item: Item) -> tuple[Sample, Question, QARecord]:
    """An item as what a judge reads: a sample with its gold points, a question, a record."""
    names = [f"{item.id}-p{n}" for n in range(1, len(item.points) + 1)]
    question = Question(
        id=item.id,
        position=0,
        text=item.question,
        answer_kind=item.answer_kind,
        answers=(item.gold,),
        evidence=tuple(Evidence(EvidenceKind.POINT, name) for name in names),
        keys=item.keys,
    )
    points = tuple(
        GoldPoint(name, "S00", text, PointKind.NEW)
        for name, text in zip(names, item.points, strict=True)
    )
    record = QARecord(
        sample_id=item.id,
        checkpoint_id="QA00",
        session_id="S00",
        question_id=item.id,
        position=0,
        status=Status.OK,
        question=item.question,
        retrieved=(),
        answer=item.answer,
    )
    asked = Checkpoint("QA00", "S00", (question,))
    return Sample(item.id, "calibration", (), points, (asked,)), question, record


def scores(graded: Sequence[Graded]) -> Scores:
    """The numbers of some graded items (definitions in the module's docstring)."""
    wrong = [entry for entry in graded if entry.item.label != CORRECT]
    right = [entry for entry in graded if entry.item.label == CORRECT]
    by_class = all(entry.verdict is not None for entry in graded)
    pairs = [(entry.item.label, str(entry.verdict)) for entry in graded]
    return Scores(
        n=len(graded),
        failed=sum(entry.verdict == FAILED for entry in graded),
        acceptance={
            kind: _accepted([entry for entry in graded if entry.item.kind == kind])
            for kind in KINDS
            if any(entry.item.kind == kind for entry in graded)
        },
        false_correct=_accepted(wrong),
        missed_correct=Rate(sum(not entry.accepted for entry in right), len(right)),
        accuracy=Rate(sum(a == b for a, b in pairs), len(pairs)) if by_class else None,
        kappa=kappa(pairs) if by_class else None,
    )


def _accepted(graded: Sequence[Graded]) -> Rate:
    return Rate(sum(entry.accepted for entry in graded), len(graded))


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa: (observed - expected) / (1 - expected) agreement.

    None of nothing, and where both sides say one and the same word throughout (0 / 0).
    """
    n = len(pairs)
    if not n:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(first[name] * second[name] for name in first) / n**2
    observed = sum(a == b for a, b in pairs) / n
    return None if expected == 1 else (observed - expected) / (1 - expected)


# -- for tables -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Instrument:
    """A preset that is equal to another of the same id."""

    id: str
    preset: Preset = field(compare=False)


@lru_cache(maxsize=32)
def _measured(instrument: _Instrument) -> Calibration:
    return calibrate(instrument.preset, shipped_items())


def error_of(preset: Preset) -> JSONObject | None:
    """:meth:`Calibration.error` of a judge that costs nothing to ask, measured once a process.

    None for a judge that is a model: asking it is the user's to decide.
    """
    if preset.kind not in DETERMINISTIC:
        return None
    return _measured(_Instrument(preset.id, preset)).error()
