"""The lower bound: found only where the gold answer really stands in the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging import judge_question, judge_session, load_preset
from harness.judging.base import SESSION_BLOCKS
from harness.judging.gold_found import contains
from harness.outcomes import Status
from harness.records import QARecord, SessionRecord
from harness.samples import AnswerKind, Question, Sample, Session

GOLD_FOUND = load_preset("gold_found")
SAMPLE = Sample("s", "d", (Session("S0", 0, ()),))


def found(
    answer: str | None,
    *golds: str,
    kind: AnswerKind = AnswerKind.TEXT,
    choices: tuple[str, ...] = (),
    status: Status = Status.OK,
) -> object:
    question = Question("q", 0, "?", kind, golds, choices=choices)
    record = QARecord("s", "c", "S0", "q", 0, status, answer=answer)
    block = judge_question(SAMPLE, question, record, GOLD_FOUND)["gold_found"]
    return block.get("na", block.get("found"))


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("It was the dark mode.", "Dark mode", 1),
        ("It was the dark mode.", "a dark mode", 1),
        ("dark and mode", "dark mode", 0),
        ("It costs 1600", "1,600", 1),
        ("It costs 1,600", "600", 0),
        ("她养了三只猫", "3只猫", 1),
        ("她养了十三只猫", "3只猫", 0),
        ("on 7 May 2023", "7 May", 1),
        ("7th of May", "7 May", 0),
        ("not mentioned", "Boston", 0),
        ("", "Boston", 0),
    ],
)
def test_containment(answer: str, gold: str, expected: int) -> None:
    assert found(answer, gold) == expected


def test_the_known_false_positive_is_what_its_docstring_says() -> None:
    assert found("moved from Seattle to Boston", "Seattle") == 1


def test_any_variant_and_no_rubric() -> None:
    assert found("NYC", "New York", "NYC", kind=AnswerKind.VARIANTS) == 1
    assert (
        found("x", "describe it well", kind=AnswerKind.RUBRIC)
        == "a rubric has no answer to look for"
    )
    assert found("x", "...") == "the gold answer is empty"


def test_refusal_is_equality_with_the_answerers_text() -> None:
    assert found("not mentioned", "no information", kind=AnswerKind.REFUSAL) == 1
    assert found("It is not mentioned that she moved", "x", kind=AnswerKind.REFUSAL) == 0
    assert found("Boston", "x", kind=AnswerKind.REFUSAL) == 0


def test_a_choice_must_not_name_another_option() -> None:
    options = ("red", "blue", "dark blue")
    assert found("It is blue", "blue", kind=AnswerKind.CHOICE, choices=options) == 1
    assert found("red or blue", "blue", kind=AnswerKind.CHOICE, choices=options) == 0
    assert found("dark blue", "dark blue", kind=AnswerKind.CHOICE, choices=options) == 1
    assert found("dark blue", "blue", kind=AnswerKind.CHOICE, choices=options) == 0


def test_a_failed_question_is_not_found() -> None:
    assert found(None, "blue", status=Status.FAILED_RETRIEVE) == 0


def test_it_judges_nothing_else() -> None:
    record = SessionRecord("s", "S0", 0, Status.OK, delta=())
    graded = judge_session(SAMPLE, record, [], GOLD_FOUND)
    assert all(graded[name] == {"na": "needs a judge model"} for name in SESSION_BLOCKS)


TOKENS = st.lists(st.sampled_from("abc"), max_size=6)


@given(TOKENS, TOKENS, TOKENS)
def test_contains_is_a_run_of_tokens(before: list[str], gold: list[str], after: list[str]) -> None:
    assert contains([*before, *gold, *after], gold) == bool(gold)
    joined = "," + ",".join(before) + ","
    assert contains(before, gold) == (bool(gold) and "," + ",".join(gold) + "," in joined)
