"""Which judge a data set will get, why, and what of the table it cannot fill: known before a run.

What a *system* cannot do is not known here; it says so when it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.aggregate.dimensions import DIMENSIONS
from harness.judging import Preset, preset_for
from harness.judging.base import NEEDS_MODEL
from harness.judging.sources import SourceMap
from harness.samples import AnswerKind, Dataset, EvidenceKind, GoldPoint, PointKind, Question

#: Where it is told what keys are and how to write them.
KEYS_DOCUMENT = "datasets/sample/README.md"

#: The kind of judge that has no verdicts.
_WITHOUT_KEYS = "gold_found"

_LESS = "only gold_found (is the gold answer in the answer, word for word?), a lower bound"
_BY_SOURCE = "recall@k by source ids"


@dataclass(frozen=True)
class Forecast:
    """``na`` is dimension -> reason; empty where the data have gold for all six.

    ``by_source``: questions cite places in the conversation, so recall@k needs neither keys nor a
    model, for systems that say where their memories come from.
    """

    preset: Preset
    why: str
    na: Mapping[str, str]
    by_source: bool = False

    @property
    def gives(self) -> str:
        """What there will be where no dimension can be judged."""
        return _LESS + (f", and {_BY_SOURCE}" if self.by_source else "")

    @property
    def line(self) -> str:
        """One line for whoever is about to run something on these data."""
        judge = f"judge: {self.preset.name}, because {self.why}"
        if not self.na:
            return judge
        if set(self.na) == set(DIMENSIONS):
            return f"{judge}: {self.gives}; all six dimensions will be N/A (need keys or a model)"
        return f"{judge}; will be N/A: {', '.join(words(name) for name in self.na)}"


@dataclass
class _Gold:
    """What of a data set's gold carries keys. ``kinds`` counts the points that do."""

    points: int = 0
    keyed_points: int = 0
    questions: int = 0
    keyed_questions: int = 0
    refusals: int = 0
    kinds: Counter[PointKind] = field(default_factory=Counter)
    cites_points: bool = False
    cites_sources: bool = False

    def point(self, point: GoldPoint) -> None:
        self.points += 1
        if point.keys is None or not point.keys.must:
            return
        self.keyed_points += 1
        if point.kind is not PointKind.UPDATE or point.in_update_handling:
            self.kinds[point.kind] += 1
        if point.kind is PointKind.UPDATE:
            self.kinds[PointKind.NEW] += 1  # a changed fact is one that should be stored, too

    def question(self, question: Question) -> None:
        self.questions += 1
        self.keyed_questions += question.keys is not None
        self.refusals += question.keys is None and question.answer_kind is AnswerKind.REFUSAL
        self.cites_points |= any(e.kind is EvidenceKind.POINT for e in question.evidence)

    @property
    def why(self) -> str:
        said = (
            f"{self.keyed_points} of {self.points} gold points and {self.keyed_questions} of "
            f"{self.questions} questions carry keys"
        )
        none_needed = f" ({self.refusals} more need none: a refusal is right)"
        return said + (none_needed if self.refusals else "")

    def missing(self) -> dict[str, str]:
        """The dimensions that have nothing to be counted in."""
        there = {
            "memory_recall": (self.kinds[PointKind.NEW], "no gold points to store"),
            "memory_correctness": (self.kinds[PointKind.NEW], "no gold points to store"),
            "update_handling": (self.kinds[PointKind.UPDATE], "no update names what it replaces"),
            "interference_rejection": (
                self.kinds[PointKind.INTERFERENCE],
                "no interference points",
            ),
            "question_answering": (self.keyed_questions, "no questions with keys"),
            "evidence_coverage": (self.cites_points, "no question cites a gold point"),
        }
        return {name: reason for name, (found, reason) in there.items() if not found}


def forecast(dataset: Dataset) -> Forecast:
    """Read the data once and say what a run over them can give.

    Raises:
        DataError: a key with nothing to look for in it.
    """
    preset, gold = preset_for(dataset), _Gold()
    for sample in dataset:
        places = SourceMap(sample)
        for point in sample.points:
            gold.point(point)
        for checkpoint in sample.checkpoints:
            for question in checkpoint.questions:
                gold.question(question)
                gold.cites_sources = gold.cites_sources or bool(places.units(question))
    if preset.kind == _WITHOUT_KEYS:
        na = dict.fromkeys(DIMENSIONS, NEEDS_MODEL)
        return Forecast(preset, gold.why, na, gold.cites_sources)
    return Forecast(preset, gold.why, gold.missing(), gold.cites_sources)


def words(dimension: str) -> str:
    """``update_handling`` -> ``update handling``."""
    return dimension.replace("_", " ")
