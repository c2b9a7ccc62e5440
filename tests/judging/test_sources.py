"""recall@k and nDCG@k by source ids, on vectors computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.base import Scope
from harness.judging.sources import SourceMap, judge_retrieval, ndcg_at, recall_at
from harness.outcomes import Status
from harness.records import QARecord
from harness.samples import (
    AnswerKind,
    Evidence,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    Image,
    PointKind,
    Question,
    Sample,
    Session,
    Turn,
)

TOP_5 = Scope()
SAMPLE = Sample(
    "s",
    "d",
    sessions=(
        Session(
            "A",
            0,
            (
                Turn(0, "user", "x", source_ids=("D1:1",)),
                Turn(1, "user", "y", source_ids=("D1:2",), images=(Image(image_id="img7"),)),
                Turn(2, "user", "z", source_ids=("D1:2",)),
            ),
        ),
        Session("B", 1, (Turn(0, "user", "w", source_ids=("D2:1",)),)),
    ),
    points=(
        GoldPoint("p", "B", "w", PointKind.NEW, source_ids=("D2:1",)),
        GoldPoint("q", "B", "v", PointKind.NEW),
    ),
)


def first(evidence: tuple[Evidence, ...], *sources: tuple[str, ...], scope: Scope = TOP_5) -> Any:
    items = tuple(
        {"memory_id": str(i), "text": "t", "sources": list(s)} for i, s in enumerate(sources)
    )
    record = QARecord("s", "c", "B", "q", 0, Status.OK, retrieved=items, top_k=5)
    question = Question("q", 0, "?", AnswerKind.TEXT, ("x",), evidence=evidence)
    block = judge_retrieval(SourceMap(SAMPLE), question, record, scope)
    return block.get("first", block.get("na"))


def turn(name: str) -> Evidence:
    return Evidence(EvidenceKind.TURN, name)


def test_units_and_ranks() -> None:
    assert first((turn("D1:1"),), ("B:0",), ("A:0",)) == [2]
    assert first((turn("D1:2"),), ("A:2",)) == [1]  # two turns share the id; either will do
    assert first((turn("D1:1"), turn("D2:1")), ("A:1",), ("B:0",)) == [None, 2]
    assert first((Evidence(EvidenceKind.SESSION, "A"),), ("B:0",), ("A:1",)) == [2]
    assert first((Evidence(EvidenceKind.IMAGE, "img7"),), ("A:0",), ("A:1",)) == [2]
    assert first((Evidence(EvidenceKind.POINT, "p"),), ("B:0",)) == [1]
    assert first((turn("D1:1"),), ("A",)) == [1]  # a whole session holds its turns
    assert first((turn("D1:1"), turn("D1:1")), ("A:0",)) == [1]  # the same id twice is one unit
    assert first((turn("D1:1"),), ("?S07:1",), ("A:9",)) == [None]  # sources that do not exist


def test_no_units_no_sources_no_ranking() -> None:
    assert "no question cites" in first((Evidence(EvidenceKind.POINT, "q"),), ("B:0",))
    future = (Evidence(EvidenceKind.TURN, "D2:1", EvidenceState.FUTURE),)
    assert "no question cites" in first(future, ("B:0",))
    assert "does not say where" in first((turn("D1:1"),), (), ())
    assert "no ranking" in first((turn("D1:1"),), ("A:0",), scope=Scope(full_context=True))
    assert first((turn("D1:1"),), scope=Scope(provenance=True)) == [
        None
    ]  # nothing retrieved: a miss


def test_hand_computed_vectors() -> None:
    assert recall_at([1, 3, None], 5) == pytest.approx(2 / 3)
    assert recall_at([1, 3, None], 2) == pytest.approx(1 / 3)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at([1, 3, None], 5) == pytest.approx((1 + 1 / math.log2(4)) / ideal)
    assert ndcg_at([1, 2], 5) == 1.0
    assert ndcg_at([2], 5) == pytest.approx(1 / math.log2(3))
    assert ndcg_at([None], 5) == 0.0
    # The ideal is over the gold count, as far as k reaches.
    assert ndcg_at([1, 2, 3, 4, 5, None], 5) == 1.0
    # One item that brings two units is capped at what a perfect list has.
    assert ndcg_at([1, 1], 5) == 1.0


@given(st.lists(st.none() | st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 10))
def test_between_zero_and_one_and_better_when_earlier(first: list[int | None], k: int) -> None:
    score = ndcg_at(first, k)
    assert 0.0 <= score <= 1.0 and 0.0 <= recall_at(first, k) <= 1.0
    earlier = [1 if rank is not None else None for rank in first]
    assert ndcg_at(earlier, k) >= score - 1e-12
    assert (score == 0) == (recall_at(first, k) == 0)


@pytest.mark.parametrize("index", ["²", "①", "١", "9" * 5000, "-1", ""])
def test_a_source_that_ends_in_no_plain_number_names_nothing(index: str) -> None:
    assert SourceMap(SAMPLE).covered(f"A:{index}") == frozenset()
