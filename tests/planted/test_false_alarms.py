"""A/A: rows that are equal but for the draw are called different as often as chance allows.

400 comparisons of two Lossy rows with equal doses and different draws, each over its own 11
conversations, so that the comparisons are independent. At p < .05 the exact sign-flip test calls at
most 5 % of them different; being exact it is a little below (equal outcomes count as extreme). The
bounds are those of a binomial with 400 trials: they hold with probability .998 or more each for a
rate of .04 to .05. Two rows whose doses do differ must be told apart: a test that never calls
anything different would pass the first half.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from harness.adapter.records import RetrievalRecord
from harness.aggregate import Accumulator, build
from harness.aggregate.compare import Compared, compare
from harness.drawn import DrawnDataset, Shape
from harness.judging import load_preset
from harness.pipeline.answer import QuestionView
from harness.pipeline.plan import count
from planted import rig

COMPARISONS, CONVERSATIONS = 400, 11
NUMBERS = ("memory_recall.avg_recall", "question_answering.correct_ratio")
DOSES = {"drop": 0.3, "corrupt": 0.2, "stale": 0.0, "hearsay": 0.0}
SHAPE = Shape(
    conversations=COMPARISONS * CONVERSATIONS,
    sessions=1,
    facts=9,
    updates=0,
    hearsay=0,
    refusals=0,
    asked=6,
)

pytestmark = pytest.mark.slow


def first_memory(question: QuestionView, found: RetrievalRecord) -> str:
    """Answers with the first memory, word for word: what is tested here is the comparison."""
    return found.items[0].text if found.items else "not mentioned"


def compared(row_a: rig.Row, row_b: rig.Row, number: int, folder: Path) -> list[list[Compared]]:
    """``number`` comparisons of two rows, each over the next conversations of the data."""
    samples = enumerate(DrawnDataset(SHAPE, seed=7))
    preset = load_preset("keyed")
    made = []
    for _ in range(number):
        group = [next(samples) for _ in range(CONVERSATIONS)]
        pair: list[dict[str, Any]] = []
        for row in (row_a, row_b):
            sums = Accumulator(preset.id, 5, (5,))
            for place, sample in group:
                records = rig.stage_one(row, sample, place, folder, first_memory)
                rig.add(sums, sample, records, preset)
            plan = count((sample for _, sample in group), None).as_json()
            pair.append(build(sums, plan, preset, {"row": "Lossy", "dataset": "drawn"}))
        made.append(compare(pair[0], pair[1], NUMBERS))
    return made


def called(results: list[list[Compared]], place: int) -> int:
    """How many comparisons have p < .05 for one number, before any correction."""
    paired = [result[place].paired for result in results]
    return sum(1 for p in paired if p is not None and p.p < 0.05)


def test_equal_rows_are_called_different_as_often_as_chance_allows(tmp_path: Path) -> None:
    results = compared(rig.Row(DOSES, draw=1), rig.Row(DOSES, draw=2), COMPARISONS, tmp_path)
    assert len(results) == 400
    least, most = binom.ppf(0.002, 400, 0.04), binom.ppf(0.998, 400, 0.05)
    for place in range(len(NUMBERS)):
        assert least <= called(results, place) <= most
    # After Holm's correction, a false alarm in either number is as rare as one without it.
    assert sum(any(entry.different for entry in result) for result in results) <= most


def test_equal_draws_are_the_same_row(tmp_path: Path) -> None:
    for result in compared(rig.Row(DOSES, draw=1), rig.Row(DOSES, draw=1), 5, tmp_path):
        for entry in result:
            assert entry.paired is not None
            assert entry.paired.difference == 0.0 and entry.paired.p == 1.0


def test_another_seed_of_the_box_draws_other_losses(tmp_path: Path) -> None:
    results = compared(rig.Row(DOSES, seed=1), rig.Row(DOSES, seed=2), 3, tmp_path)
    assert any(r[0].paired is not None and r[0].paired.difference != 0 for r in results)


def test_different_doses_are_told_apart(tmp_path: Path) -> None:
    worse = {**DOSES, "drop": 0.75}
    results = compared(rig.Row(DOSES, draw=1), rig.Row(worse, draw=2), 20, tmp_path)
    for place in range(len(NUMBERS)):
        assert called(results, place) >= 18
    winners = {entry.winner for result in results for entry in result}
    assert winners <= {"a", None} and "a" in winners
