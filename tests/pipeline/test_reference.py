"""Oracle and the constant floor: made on the host, recorded like any row."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty import small_sample

from harness import run_eval
from harness.adapter.records import RetrievalRecord
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from harness.outcomes import Status
from harness.pipeline.answer import NOT_MENTIONED, QuestionView
from harness.pipeline.life import Terms
from harness.pipeline.reference import MAX_CANDIDATES, Oracle, best_constant
from harness.runs import Run
from harness.samples import (
    AnswerKind,
    Evidence,
    EvidenceKind,
    EvidenceState,
    Image,
    Question,
    Sample,
)
from harness.verification import verify


def evidence_texts(sample: Sample, *evidence: Evidence) -> list[tuple[str, tuple[str, ...]]]:
    terms = Terms("Oracle", lambda question, found: "x", 5, 5, lambda event: None)
    question = Question("q", 0, "?", AnswerKind.TEXT, ("a",), evidence=evidence)
    found = Oracle(terms, None).find(sample, 0, question)
    return [(item.text, item.sources) for item in found.items]


def test_evidence_of_every_kind() -> None:
    sample = small_sample()
    first = sample.sessions[0]
    turn = dataclasses.replace(first.turns[0], images=(Image("a red box", "I1"),))
    sample = dataclasses.replace(
        sample,
        sessions=(
            dataclasses.replace(first, turns=(turn, *first.turns[1:])),
            *sample.sessions[1:],
        ),
        points=(
            dataclasses.replace(sample.points[0], source_ids=("D0:3",)),
            *sample.points[1:],
        ),
    )
    cases = {
        Evidence(EvidenceKind.POINT, "p0"): [("Box A is number 10.", ("A:2",))],
        Evidence(EvidenceKind.POINT, "p1"): [("Box B is number 11.", ("B",))],
        Evidence(EvidenceKind.TURN, "D1:3"): [("assistant: Noted, box B.", ("B:2",))],
        Evidence(EvidenceKind.SESSION, "C"): [
            ("assistant: Noted, box C.", ("C:2",)),
            ("[2024-01-03 10:00] Ann: My box C is number 12.", ("C:0",)),
        ],
        Evidence(EvidenceKind.IMAGE, "I1"): [("a red box", ("A:0",))],
        Evidence(EvidenceKind.TEXT, "a quotation"): [("a quotation", ())],
        Evidence(EvidenceKind.POINT, "p0", EvidenceState.FUTURE): [],
        Evidence(EvidenceKind.POINT, "nobody"): [],
    }
    for evidence, expected in cases.items():
        assert evidence_texts(sample, evidence) == expected
    twice = [Evidence(EvidenceKind.POINT, "p0")] * 2
    assert len(evidence_texts(sample, *twice)) == 1
    both = [Evidence(EvidenceKind.POINT, "p0"), Evidence(EvidenceKind.POINT, "p2")]
    assert [text[:5] for text, _ in evidence_texts(sample, *both)] == ["Box C", "Box A"]


@pytest.mark.parametrize("row", ["Oracle", "ConstantFloor"])
def test_a_host_side_row_is_a_run_like_any(tmp_path: Path, row: str) -> None:
    data = DrawnDataset(Shape(conversations=3, facts=4, updates=2, refusals=1), seed=1)
    result = run_eval(
        EvalConfig(tmp_path, row, tmp_path / "run", jobs=2, max_sessions=3),
        load_domain_bundle=lambda _: data,
    )
    run = Run.open(tmp_path / "run")
    sessions = Counter(record.status for record in run.sessions())
    assert sessions == {Status.UNSUPPORTED: 9, Status.LEFT_OUT: 3}
    told = {r.failure.message for r in run.sessions() if r.failure}
    assert told == {"host-side reference row"}
    questions = Counter(record.status for record in run.questions())
    assert set(questions) == {Status.OK, Status.LEFT_OUT}
    assert result.aggregate is not None
    dimensions = result.aggregate["dimensions"]
    assert dimensions["memory_recall"]["avg_recall"]["na"]
    assert dimensions["question_answering"]["correct_ratio"]["value"] is not None
    assert result.aggregate["reference"] is True
    assert verify(tmp_path / "run", data).passed


def test_the_oracle_is_above_the_floor(tmp_path: Path) -> None:
    data = DrawnDataset(Shape(conversations=2), seed=3)
    scores = {}
    for row in ("Oracle", "ConstantFloor"):
        config = EvalConfig(tmp_path, row, tmp_path / row)
        made = run_eval(config, load_domain_bundle=lambda _: data).aggregate
        assert made is not None
        scores[row] = made["dimensions"]["question_answering"]["correct_ratio"]["value"]
    assert scores["Oracle"] == 1.0 > scores["ConstantFloor"] > 0


def sample_with(*questions: tuple[AnswerKind, tuple[str, ...]]) -> Sample:
    sample = small_sample(sessions=1, questions=0)
    asked = tuple(
        Question(f"q{n}", n, "?", kind, answers) for n, (kind, answers) in enumerate(questions)
    )
    checkpoint = dataclasses.replace(sample.checkpoints[0], questions=asked)
    return dataclasses.replace(sample, checkpoints=(checkpoint,))


def equals(sample: Sample, question: Question, answer: str) -> bool:
    if question.answer_kind is AnswerKind.REFUSAL:
        return answer == NOT_MENTIONED
    return answer in question.answers


def test_the_constant_is_the_answer_that_is_right_most_often() -> None:
    text, refusal = AnswerKind.TEXT, AnswerKind.REFUSAL
    sample = sample_with(
        (text, ("blue",)), (text, ("red",)), (text, ("blue",)), (refusal, ("no",)), (text, ("red",))
    )
    reads = 0

    def read() -> Iterator[Sample]:
        nonlocal reads
        reads += 1
        yield sample

    found = best_constant(read, None, equals)
    assert (found.text, found.right, found.questions, found.candidates) == ("blue", 2, 5, 4)
    assert reads == 2
    assert best_constant(lambda: iter([sample_with()]), None, equals).text == NOT_MENTIONED


def test_what_cannot_be_an_answer_is_no_candidate() -> None:
    sample = sample_with(
        (AnswerKind.RUBRIC, ("mentions tea",)),
        (AnswerKind.TEXT, ("word " * 41,)),
        (AnswerKind.TEXT, ("",)),
        (AnswerKind.CHOICE, ("right", "wrong")),
        *((AnswerKind.TEXT, (f"rare {n}",)) for n in range(MAX_CANDIDATES + 9)),
    )
    asked: set[str] = set()

    def grade(sample: Sample, question: Question, answer: str) -> bool:
        asked.add(answer)
        return False

    best_constant(lambda: iter([sample]), None, grade)
    assert {NOT_MENTIONED, "right"} <= asked and len(asked) == MAX_CANDIDATES + 1
    assert not asked & {"mentions tea", "word " * 41, "", "wrong"}


def test_the_floor_looks_at_nothing(tmp_path: Path) -> None:
    seen: list[tuple[QuestionView, RetrievalRecord]] = []

    def watch(question: QuestionView, found: RetrievalRecord) -> str:
        seen.append((question, found))
        return "x"

    run_eval(
        EvalConfig(tmp_path, "ConstantFloor", tmp_path / "run"),
        load_domain_bundle=lambda _: [small_sample()],
        answer_fn=watch,
    )
    assert not seen
    assert all(r.retrieved == () for r in Run.open(tmp_path / "run").questions())
