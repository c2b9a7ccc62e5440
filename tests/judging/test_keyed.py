"""The keyed judge on hand-made records, each verdict worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging import Scope, judge_question, judge_session, load_preset, preset_for
from harness.judging.keyed import NO_DELTA, NO_KEYS, NO_SNAPSHOT, PART_SNAPSHOT
from harness.outcomes import DataError, Status
from harness.records import Failure, QARecord, SessionRecord
from harness.samples import (
    AnswerKind,
    Checkpoint,
    Evidence,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    Key,
    PointKeys,
    PointKind,
    Question,
    QuestionKeys,
    Sample,
    Session,
    Turn,
)

KEYED = load_preset("keyed")
TOP_5 = Scope()


def keys(*texts: str) -> tuple[Key, ...]:
    return tuple(Key((text,)) for text in texts)


def point(
    name: str,
    session: str,
    kind: PointKind,
    must: tuple[str, ...],
    gone: tuple[str, ...] = (),
    originals: tuple[str, ...] = (),
) -> GoldPoint:
    return GoldPoint(
        name,
        session,
        name,
        kind,
        originals=originals or (("before",) if gone else ()),
        keys=PointKeys(keys(*must), keys(*gone)),
    )


SAMPLE = Sample(
    id="s",
    dataset="hand",
    sessions=tuple(Session(f"S{i}", i, (Turn(0, "user", "hi"),)) for i in range(3)),
    points=(
        point("city", "S0", PointKind.NEW, ("Boston",)),
        point("pet", "S0", PointKind.NEW, ("cat", "Mimi")),
        point("rumour", "S0", PointKind.INTERFERENCE, ("lottery",)),
        point("moved", "S1", PointKind.UPDATE, ("Seattle",), gone=("Boston",)),
        point("job", "S1", PointKind.UPDATE, ("baker",), gone=("waiter",)),
        point("bare", "S1", PointKind.UPDATE, ("vegan",)),
    ),
    checkpoints=(),
)


def items(*texts: str, op: str = "add") -> tuple[dict[str, Any], ...]:
    return tuple({"op": op, "memory_id": f"m{i}", "text": t} for i, t in enumerate(texts))


def store(*texts: str, status: str = "active") -> list[dict[str, Any]]:
    return [{"memory_id": f"m{i}", "text": t, "status": status} for i, t in enumerate(texts)]


def session(place: int, **fields: Any) -> SessionRecord:
    return SessionRecord("s", f"S{place}", place, fields.pop("status", Status.OK), **fields)


def judged(place: int, delta: Any, snapshot: Any, scope: Scope = TOP_5, **fields: Any) -> Any:
    return judge_session(SAMPLE, session(place, delta=delta, **fields), snapshot, KEYED, scope)


def test_recall_wants_all_keys_of_a_point_in_one_item() -> None:
    whole = judged(0, items("lives in Boston", "has a cat named Mimi"), [])
    assert whole["recall"] == {"total": 2, "covered": 2}
    spread = judged(0, items("lives in Boston", "has a cat", "it is called Mimi"), [])
    assert spread["recall"] == {"total": 2, "covered": 1}


def test_interference_is_in_no_recall_and_deletes_cover_nothing() -> None:
    assert judged(0, items("won the lottery"), [])["recall"] == {"total": 2, "covered": 0}
    assert judged(0, items("lives in Boston", op="delete"), [])["recall"]["covered"] == 0
    assert judged(0, items("lives in Boston", op="update"), [])["recall"]["covered"] == 1


def test_update_recall_counts_all_updates_also_those_without_an_original() -> None:
    graded = judged(1, items("moved to Seattle", "is vegan"), [])
    assert graded["recall"] == {"total": 3, "covered": 2}
    assert graded["update_recall"] == {"total": 3, "covered": 2}
    assert judged(0, items("x"), [])["update_recall"] == {"na": "no gold points of this kind"}


def test_a_session_without_gold_points_has_no_recall() -> None:
    graded = judged(2, items("lives in Boston"), [])
    assert "na" in graded["recall"] and "na" in graded["update_recall"]
    # ... but its items are graded against what was said before.
    assert graded["correctness"] == {"total": 1, "supported": 1, "hallucinated": None}


def test_support_looks_back_and_never_ahead() -> None:
    assert judged(0, items("moved to Seattle"), [])["correctness"]["supported"] == 0
    assert judged(1, items("lived in Boston"), [])["correctness"]["supported"] == 1


def test_an_item_with_a_rumour_leaves_the_denominator_of_correctness() -> None:
    graded = judged(0, items("lives in Boston", "won the lottery", "likes tea"), [])
    assert graded["correctness"] == {"total": 2, "supported": 1, "hallucinated": None}
    only = judged(0, items("won the lottery in Boston"), [])
    assert only["correctness"] == {"na": "no items were added or updated"}
    assert judged(0, (), [])["correctness"] == {"na": "no items were added or updated"}


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        (("lives in Seattle",), "updated"),
        (("lives in Seattle", "lives in Boston"), "both"),
        (("moved from Boston to Seattle",), "both"),
        (("lives in Boston",), "outdated"),
        (("likes tea",), "lost"),
        ((), "lost"),
    ],
)
def test_update_verdicts(texts: tuple[str, ...], verdict: str) -> None:
    graded = judged(1, (), store(*texts, "is a baker"))
    assert graded["update"]["total"] == 2  # "bare" names no original: not in update handling
    found = {p["id"]: p["is"] for p in graded["points"] if p["check"] == "update"}
    assert found == {"moved": verdict, "job": "updated"}
    expected = {"updated": 1, "both": 0, "outdated": 0, "lost": 0, "failed": 0}
    expected[verdict] += 1
    assert graded["update"] == {"total": 2, **expected}


def test_what_is_not_active_is_not_believed() -> None:
    old = store("lives in Boston", "won the lottery", status="superseded")
    new = {"memory_id": "n", "text": "lives in Seattle", "status": "active"}
    graded = judged(1, (), [*old, new])
    assert graded["update"]["updated"] == 1
    assert judged(0, (), old)["interference"] == {"total": 1, "rejected": 1}
    superseded_new = store("lives in Seattle", status="invalidated")
    assert judged(1, (), superseded_new)["update"]["updated"] == 0


def test_embedded_history_counts_for_the_new_value_only() -> None:
    item = {
        "memory_id": "m",
        "text": "lives in Seattle (before: Boston; lottery)",
        "status": "active",
        "embeds_history": True,
    }
    assert judged(1, (), [item])["update"]["updated"] == 1
    assert judged(0, (), [item])["interference"]["rejected"] == 1


def test_interference_is_rejected_unless_it_is_in_the_store() -> None:
    assert judged(0, (), store("won the lottery"))["interference"] == {"total": 1, "rejected": 0}
    assert judged(0, (), store("lives in Boston"))["interference"] == {"total": 1, "rejected": 1}
    assert judged(1, (), [])["interference"] == {"na": "no interference points"}


def test_what_a_system_cannot_report_is_not_zero() -> None:
    graded = judged(0, None, None, Scope(snapshot="none", delta=False))
    for name in ("recall", "update_recall", "correctness"):
        assert graded[name] == {"na": NO_DELTA}
    for name in ("update", "interference"):
        assert graded[name] == {"na": NO_SNAPSHOT}
    part = judged(1, (), store("lives in Seattle"), Scope(snapshot="top-k"))
    assert part["update"] == part["interference"] == {"na": PART_SNAPSHOT}


FAILED: dict[str, Any] = {
    "status": Status.FAILED_INGEST,
    "failure": Failure("STORE_FAILED", "no"),
}


def test_a_failed_session_keeps_its_denominators_and_finds_nothing() -> None:
    graded = judged(0, None, None, **FAILED)
    assert graded["recall"] == {"total": 2, "covered": 0}
    assert graded["correctness"] == {"total": 1, "supported": 0, "failed": True}
    assert graded["interference"] == {"total": 1, "rejected": 0}
    later = judged(1, None, None, **FAILED)
    assert later["update"] == {
        "total": 2,
        "updated": 0,
        "both": 0,
        "outdated": 0,
        "lost": 0,
        "failed": 2,
    }
    nothing_to_store = judged(2, None, None, **FAILED)
    assert "na" in nothing_to_store["correctness"] and "na" in nothing_to_store["recall"]


def test_a_failed_session_of_a_system_without_the_capability_is_still_not_available() -> None:
    graded = judged(0, None, None, Scope(snapshot="none", delta=False), **FAILED)
    assert graded["recall"] == {"na": NO_DELTA}
    assert graded["interference"] == {"na": NO_SNAPSHOT}


# -- questions --------------------------------------------------------------------------------


def question(
    answers: tuple[tuple[str, ...], ...] = (),
    forbidden: tuple[str, ...] = (),
    kind: AnswerKind = AnswerKind.TEXT,
    evidence: tuple[Evidence, ...] = (),
) -> Question:
    made = QuestionKeys(tuple(keys(*a) for a in answers), keys(*forbidden)) if answers else None
    return Question("q", 0, "?", kind, ("x",), keys=made, evidence=evidence)


def asked(q: Question, answer: str | None, scope: Scope = TOP_5, **fields: Any) -> Any:
    record = QARecord(
        "s",
        "cp",
        "S1",
        "q",
        0,
        fields.pop("status", Status.OK),
        question="?",
        answer=answer,
        retrieved=fields.pop("retrieved", ()),
        top_k=5,
    )
    return judge_question(SAMPLE, q, record, KEYED, scope)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("She lives in Seattle", "Correct"),
        ("Emerald City, Washington", "Correct"),
        ("Emerald City", "Omission"),
        ("Seattle, before that Boston", "Hallucination"),
        ("Boston", "Hallucination"),
        ("not mentioned", "Omission"),
        ("Portland", "Omission"),
        ("", "Omission"),
    ],
)
def test_verdicts(answer: str, verdict: str) -> None:
    q = question((("Seattle",), ("Emerald City", "Washington")), forbidden=("Boston",))
    assert asked(q, answer)["answer"]["verdict"] == verdict


@pytest.mark.parametrize("with_keys", [True, False])
def test_refusal_is_right_where_it_was_not_mentioned(with_keys: bool) -> None:
    answers = (("not mentioned",),) if with_keys else ()
    q = question(answers, kind=AnswerKind.REFUSAL)
    assert asked(q, "not mentioned")["answer"]["verdict"] == "Correct"
    assert asked(q, "Not mentioned.")["answer"]["verdict"] == "Correct"
    assert asked(q, "未提及")["answer"]["verdict"] == "Correct"
    assert asked(q, "Seattle")["answer"]["verdict"] == "Omission"
    banned = question((("not mentioned",),), ("Seattle",), AnswerKind.REFUSAL)
    assert asked(banned, "Seattle")["answer"]["verdict"] == "Hallucination"


def test_a_question_without_keys_has_no_verdict() -> None:
    assert asked(question(), "Seattle")["answer"] == {"na": NO_KEYS}


def test_a_failed_question_is_planned_and_without_verdict() -> None:
    q = question((("Seattle",),), evidence=(Evidence(EvidenceKind.POINT, "moved"),))
    graded = asked(
        q, None, status=Status.FAILED_ANSWER, retrieved=({"memory_id": "1", "text": "Seattle"},)
    )
    assert graded["answer"] == {"total": 1, "verdict": None}
    assert (graded["evidence"]["total"], graded["evidence"]["covered"]) == (1, 0)


EVIDENCE = (
    Evidence(EvidenceKind.POINT, "moved"),
    Evidence(EvidenceKind.POINT, "pet"),
    Evidence(EvidenceKind.POINT, "job", EvidenceState.FUTURE),
    Evidence(EvidenceKind.POINT, "none", EvidenceState.UNRESOLVED),
    Evidence(EvidenceKind.TURN, "S1:0"),
)


def found(*texts: str) -> tuple[dict[str, Any], ...]:
    return tuple({"memory_id": f"m{i}", "text": t, "status": "active"} for i, t in enumerate(texts))


def test_evidence_counts_resolved_points_in_the_top_k_only() -> None:
    q = question((("x",),), evidence=EVIDENCE)
    graded = asked(q, "x", retrieved=found("moved to Seattle", "a", "b", "c", "d", "cat Mimi"))
    assert (graded["evidence"]["total"], graded["evidence"]["covered"]) == (2, 1)
    all_of_it = asked(
        q, "x", Scope(full_context=True), retrieved=found("Seattle", "a", "b", "c", "d", "cat Mimi")
    )
    assert all_of_it["evidence"]["covered"] == 2
    deeper = asked(
        q, "x", Scope(top_k=6), retrieved=found("Seattle", "a", "b", "c", "d", "cat Mimi")
    )
    assert deeper["evidence"]["covered"] == 2


def test_a_superseded_item_is_evidence_for_the_past() -> None:
    q = question((("x",),), evidence=(Evidence(EvidenceKind.POINT, "city"),))
    old = ({"memory_id": "m", "text": "lived in Boston", "status": "superseded"},)
    assert asked(q, "x", retrieved=old)["evidence"]["covered"] == 1


def test_no_cited_point_is_no_evidence_coverage() -> None:
    q = question((("x",),), evidence=EVIDENCE[2:])
    assert "na" in asked(q, "x")["evidence"]


# -- data without keys -------------------------------------------------------------------------


def bare(name: str, kind: PointKind, **more: Any) -> GoldPoint:
    return GoldPoint(name, "S0", name, kind, keys=None, **more)


REFUSED = Question("r", 1, "?", AnswerKind.REFUSAL, ("not mentioned",), keys=None)
CITES = Question(
    "q", 0, "?", AnswerKind.TEXT, ("x",), evidence=(Evidence(EvidenceKind.POINT, "city"),)
)
BARE = Sample(
    "s",
    "hand",
    SAMPLE.sessions,
    (
        bare("city", PointKind.NEW),
        bare("moved", PointKind.UPDATE, originals=("city",)),
        bare("rumour", PointKind.INTERFERENCE),
    ),
    (Checkpoint("cp", "S0", (CITES, REFUSED)),),
)
ON_SESSIONS = ("recall", "update_recall", "correctness", "update", "interference")


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED_INGEST])
def test_without_keys_every_number_is_not_available_and_none_is_zero(status: Status) -> None:
    record = session(0, delta=items("Boston", "a cat"), status=status)
    graded = judge_session(BARE, record, store("Boston"), KEYED, TOP_5)
    assert [graded[name] for name in ON_SESSIONS] == [{"na": NO_KEYS}] * len(ON_SESSIONS)
    for q in BARE.checkpoints[0].questions:
        asked_for = QARecord("s", "cp", "S0", q.id, 0, Status.OK, answer="not mentioned")
        verdict = judge_question(BARE, q, asked_for, KEYED, TOP_5)
        # Right refusals beside unkeyed questions would be all of "QA correct".
        assert verdict["answer"] == {"na": NO_KEYS}
    asked_for = QARecord("s", "cp", "S0", "q", 0, Status.OK, answer="x", retrieved=found("Boston"))
    assert judge_question(BARE, CITES, asked_for, KEYED, TOP_5)["evidence"] == {"na": NO_KEYS}


def test_a_session_without_points_of_its_own_still_has_unsupported_items_in_keyed_data() -> None:
    assert judged(2, items("nonsense"), [])["correctness"]["total"] == 1


# -- which judge ------------------------------------------------------------------------------


class One:
    """A data set of one sample; only what ``preset_for`` reads."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def __iter__(self) -> Any:
        return iter((self._sample,))


def with_questions(*questions: Question, points: tuple[GoldPoint, ...] = ()) -> Any:
    checkpoint = Checkpoint("cp", "S0", questions)
    return One(Sample("s", "d", SAMPLE.sessions, points, (checkpoint,)))


def test_keyed_needs_keys_everywhere() -> None:
    good = question((("x",),))
    refusal = question(kind=AnswerKind.REFUSAL)
    bare_point = GoldPoint("p", "S0", "t", PointKind.NEW)
    no_old = GoldPoint(
        "p", "S0", "t", PointKind.UPDATE, originals=("o",), keys=PointKeys(keys("x"))
    )
    assert preset_for(with_questions(good, refusal)).name == "keyed"
    assert preset_for(with_questions(good, points=SAMPLE.points)).name == "keyed"
    assert preset_for(with_questions(good, question())).name == "gold_found"
    assert preset_for(with_questions(good, points=(bare_point,))).name == "gold_found"
    assert preset_for(with_questions(good, points=(no_old,))).name == "gold_found"
    assert preset_for(with_questions(refusal)).name == "gold_found"
    assert preset_for(with_questions()).name == "gold_found"


def test_a_key_with_nothing_in_it_is_refused_with_its_place() -> None:
    empty = GoldPoint("p7", "S0", "t", PointKind.NEW, keys=PointKeys(keys("***")))
    with pytest.raises(DataError, match=r"gold point 'p7'.*nothing to look for"):
        preset_for(with_questions(question((("x",),)), points=(empty,)))
    with pytest.raises(DataError, match=r"question 'q'"):
        preset_for(with_questions(question((("x",),), forbidden=("...",))))
