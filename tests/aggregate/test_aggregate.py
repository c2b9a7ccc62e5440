"""From graded lines to cells: hand-computed vectors, conservation, order, shards."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.aggregate import Accumulator, aggregate, build, depths_of
from harness.judging import load_preset
from harness.outcomes import RunError, Status

KEYED = load_preset("keyed")
GOLD_FOUND = load_preset("gold_found")

NA = {"na": "no gold points of this kind"}


def session(sample: str, position: int, status: str = "ok", **more: Any) -> dict[str, Any]:
    """A judged session line; ``more`` replaces blocks of its eval object and fields of the line."""
    graded: dict[str, Any] = {
        "judge": KEYED.id,
        "gold": {"new": 2, "update": 0, "interference": 0},
        "recall": NA,
        "update_recall": NA,
        "correctness": {"na": "no items were added or updated"},
        "update": {"na": "no updates that name an original"},
        "interference": {"na": "no interference points"},
    }
    line: dict[str, Any] = {
        "sample_id": sample,
        "session_id": f"S{position}",
        "position": position,
        "status": status,
        "after_failure": False,
        "degraded": [],
        "schema_version": 1,
    }
    for name, value in more.items():
        (graded if name in graded else line)[name] = value
    return {**line, "eval": graded}


def asked(sample: str, position: int, verdict: str | None, status: str = "ok", **more: Any) -> Any:
    graded: dict[str, Any] = {
        "judge": KEYED.id,
        "answer": {"total": 1, "verdict": verdict},
        "gold_found": {"na": "the keyed judge gives verdicts instead"},
        "evidence": {"na": "no question cites a gold point with keys"},
        "retrieval": {"na": "no question cites turns, sessions or images"},
    }
    line: dict[str, Any] = {
        "sample_id": sample,
        "question_id": f"q{position}",
        "session_id": "S0",
        "position": position,
        "status": status,
        "after_failure": False,
        "degraded": [],
        "schema_version": 1,
    }
    for name, value in more.items():
        (graded if name in graded else line)[name] = value
    return {**line, "eval": graded}


def total(sessions: list[Any], questions: list[Any], **heading: Any) -> dict[str, Any]:
    plan = {"sessions": len(sessions), "questions": len(questions)}
    return aggregate(sessions, questions, plan, KEYED, {"dataset": "hand", **heading})


def share(covered: int, of: int) -> dict[str, int]:
    return {"total": of, "covered": covered}


def test_recall_is_the_mean_of_sessions_that_have_a_denominator() -> None:
    found = total(
        [
            session("a", 0, recall=share(1, 4), update_recall=share(1, 1)),
            session("a", 1, recall=share(2, 2)),
            session("b", 0),  # no gold points: in no mean
            session("b", 1, recall=share(0, 1), update_recall=share(0, 1)),
        ],
        [],
    )
    cell = found["dimensions"]["memory_recall"]["avg_recall"]
    assert cell["value"] == pytest.approx((0.25 + 1 + 0) / 3)  # pooled it would be 3/7
    assert (cell["n"], cell["N"], cell["unit"]) == (3, 3, "sessions")
    assert found["dimensions"]["memory_recall"]["avg_update_recall"]["value"] == 0.5


def test_correctness_is_a_mean_of_sessions_and_its_hallucination_is_not_available() -> None:
    blocks = [
        {"total": 4, "supported": 1, "hallucinated": None},
        {"total": 1, "supported": 1, "hallucinated": None},
    ]
    found = total([session("a", i, correctness=b) for i, b in enumerate(blocks)], [])
    cells = found["dimensions"]["memory_correctness"]
    assert cells["avg_correctness"]["value"] == pytest.approx(0.625)
    assert cells["avg_hallucination"]["value"] is None
    assert cells["avg_hallucination"]["na"] == "needs a judge model"


def updates(updated: int, both: int, outdated: int, lost: int, failed: int = 0) -> dict[str, int]:
    return {
        "total": updated + both + outdated + lost + failed,
        "updated": updated,
        "both": both,
        "outdated": outdated,
        "lost": lost,
        "failed": failed,
    }


def test_updates_and_interference_are_pooled() -> None:
    found = total(
        [
            session("a", 0, update=updates(3, 1, 0, 0), interference={"total": 3, "rejected": 3}),
            session("b", 0, update=updates(0, 0, 1, 1), interference={"total": 1, "rejected": 0}),
        ],
        [],
    )
    update = found["dimensions"]["update_handling"]
    assert update["score"]["value"] == pytest.approx(3.5 / 6)  # a mean of sessions would be .4375
    assert update["outdated_ratio"]["value"] == pytest.approx(2 / 6)
    assert (update["score"]["n"], update["score"]["unit"]) == (6, "updates")
    assert found["dimensions"]["interference_rejection"]["score"]["value"] == 0.75


def test_questions_and_evidence_are_pooled() -> None:
    found = total(
        [],
        [
            asked("a", 0, "Correct", evidence=share(1, 2)),
            asked("a", 1, "Hallucination", evidence=share(0, 4)),
            asked("b", 0, "Omission"),
            asked("b", 1, "Correct"),
        ],
    )
    qa = found["dimensions"]["question_answering"]
    names = ("correct_ratio", "hallucination_ratio", "omission_ratio", "failed_ratio")
    assert [qa[name]["value"] for name in names] == [0.5, 0.25, 0.25, 0.0]
    evidence = found["dimensions"]["evidence_coverage"]["hit_rate"]
    assert evidence["value"] == pytest.approx(1 / 6)
    assert evidence["metric_id"] == f"keyed_evidence@5/{KEYED.id}"


def test_evidence_of_a_row_that_is_read_whole_has_no_depth_in_its_name() -> None:
    found = aggregate(
        [],
        [asked("a", 0, "Correct", evidence=share(1, 2))],
        {"sessions": 0, "questions": 1},
        KEYED,
        {"full_context": True},
    )
    evidence = found["dimensions"]["evidence_coverage"]["hit_rate"]
    assert evidence["metric_id"] == f"keyed_evidence@all/{KEYED.id}"


def test_a_failure_is_wrong_in_strict_and_out_of_valid() -> None:
    found = total(
        [
            session("a", 0, recall=share(2, 2)),
            session("a", 1, "failed_ingest", recall=share(0, 2)),
            session("a", 2, recall=share(1, 2), after_failure=True),
        ],
        [
            asked("a", 0, "Correct"),
            asked("a", 1, None, "failed_answer"),
            asked("a", 2, "Correct", after_failure=True),
        ],
    )
    recall = found["dimensions"]["memory_recall"]["avg_recall"]
    assert recall["value"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert (recall["valid"], recall["n"], recall["N"]) == (1.0, 1, 3)
    qa = found["dimensions"]["question_answering"]
    assert qa["correct_ratio"]["value"] == pytest.approx(2 / 3)
    assert qa["correct_ratio"]["valid"] == 1.0
    assert qa["failed_ratio"]["value"] == pytest.approx(1 / 3)
    assert (
        sum(qa[f"{n}_ratio"]["value"] for n in ("correct", "hallucination", "omission", "failed"))
        == 1
    )
    assert found["after_failure"] == {"sessions": 1, "questions": 1}
    assert found["statuses"]["sessions"] == {"failed_ingest": 1, "ok": 2}


def test_all_failed_is_zero_of_many_and_no_valid_score() -> None:
    found = total([session("a", 0, "failed_setup", recall=share(0, 2))], [])
    cell = found["dimensions"]["memory_recall"]["avg_recall"]
    assert (cell["value"], cell["valid"], cell["n"], cell["N"]) == (0.0, None, 0, 1)


def test_a_judge_that_failed_makes_its_unit_a_failure() -> None:
    line = asked("a", 1, None)
    line["eval"]["status"] = "failed_judge"
    found = total([], [asked("a", 0, "Correct"), line])
    assert found["statuses"]["questions"] == {"failed_judge": 1, "ok": 1}
    assert found["dimensions"]["question_answering"]["correct_ratio"]["value"] == 0.5


def test_unsupported_and_left_out_units_are_in_no_denominator() -> None:
    found = total(
        [session("a", 0, recall=share(2, 2)), session("a", 1, "left_out", recall=share(0, 2))],
        [asked("a", 0, None, "unsupported", failure={"message": "no retrieve\nmore"})],
    )
    assert found["dimensions"]["memory_recall"]["avg_recall"]["N"] == 1
    qa = found["dimensions"]["question_answering"]["correct_ratio"]
    assert qa["value"] is None and qa["na"] == "unsupported: no retrieve"
    assert found["gold_points"]["new_left_out"] == 2


def test_degraded_units_count_and_are_told() -> None:
    found = total([session("a", 0, "degraded", recall=share(1, 1), degraded=["pending_calls"])], [])
    assert found["dimensions"]["memory_recall"]["avg_recall"]["n"] == 1
    assert found["degraded"] == {"sessions": 1, "questions": 0, "reasons": {"pending_calls": 1}}


def test_no_denominator_has_the_most_frequent_reason() -> None:
    lines = [session("a", i, recall={"na": reason}) for i, reason in enumerate("xyy")]
    assert total(lines, [])["dimensions"]["memory_recall"]["avg_recall"]["na"] == "y"
    nothing = total([], [])["dimensions"]["memory_recall"]["avg_recall"]
    assert nothing["na"] == "nothing was planned"


def test_conservation_is_proved() -> None:
    lines = [session("a", 0, recall=share(1, 1))]
    with pytest.raises(RunError, match=r"2 sessions were planned and 1 have a record \(ok 1\)"):
        aggregate(lines, [], {"sessions": 2, "questions": 0}, KEYED)
    with pytest.raises(RunError, match="3 questions were planned and 0 have a record"):
        aggregate(lines, [], {"sessions": 1, "questions": 3}, KEYED)
    with pytest.raises(RunError, match="two records for one of the sessions: sample a, position 0"):
        aggregate(lines * 2, [], {"sessions": 2, "questions": 0}, KEYED)


def test_lines_must_be_graded_by_this_judge() -> None:
    line = session("a", 0)
    del line["eval"]
    with pytest.raises(RunError, match="not judged yet"):
        total([line], [])
    with pytest.raises(RunError, match=r"was judged by 'keyed-.*', not by 'gold_found-"):
        aggregate([session("a", 0)], [], {"sessions": 1, "questions": 0}, GOLD_FOUND)


def test_retrieval_is_a_mean_over_questions_at_every_depth() -> None:
    questions = [
        asked("a", 0, "Correct", retrieval={"total": 2, "first": [1, 7]}),
        asked("b", 0, "Correct", retrieval={"total": 1, "first": [2]}),
        asked("b", 1, None, "failed_retrieve", retrieval={"total": 1, "first": [None]}),
    ]
    found = total([], questions, top_k=5, max_k=10)["retrieval"]
    assert sorted(found) == ["ndcg@1", "ndcg@10", "ndcg@5", "recall@1", "recall@10", "recall@5"]
    assert found["recall@5"]["value"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert found["recall@10"]["value"] == pytest.approx(2 / 3)
    assert (found["recall@5"]["n"], found["recall@5"]["valid"]) == (2, 0.75)
    assert found["recall@1"]["value"] == pytest.approx(0.5 / 3)


def test_depths() -> None:
    assert depths_of(5, 10) == (1, 5, 10)
    assert depths_of(3, 3) == (1, 3)
    assert depths_of(20, 20) == (1, 5, 10, 20)


def test_measurements() -> None:
    lines = [
        session(
            "a",
            position,
            timings_ms={"ingest": 10.0 * (position + 1)},
            snapshot={"count": 3 + position},
            box={"state_bytes": 2048},
        )
        for position in range(3)
    ]
    item = {"memory_id": "m", "text": "three small words"}
    found = total(lines, [asked("a", 0, "Correct", retrieved=[item] * 7)])["measurements"]
    assert found["latency_ms"]["host.ingest"] == {"n": 3, "p50": 20.0, "p95": 29.0, "mean": 20.0}
    assert found["context_tokens"]["p50"] == 15  # of the first five items only
    whole = total([], [asked("a", 0, "Correct", retrieved=[item] * 7)], full_context=True)
    assert whole["measurements"]["context_tokens"]["p50"] == 21
    assert whole["measurements"]["context_tokens"]["metric_id"].endswith("@all")
    assert [entry["items_mean"] for entry in found["memory_size"]] == [3, 4, 5]
    assert found["memory_size"][0]["state_bytes_mean"] == 2048


def test_the_aggregate_is_json() -> None:
    found = total([session("a", 0, recall=share(1, 3))], [asked("a", 0, "Correct")])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


# -- properties ------------------------------------------------------------------------------

STATUSES = st.sampled_from([status.value for status in Status])


@st.composite
def a_share(draw: st.DrawFn, name: str) -> dict[str, int]:
    of = draw(st.integers(1, 7))
    return {"total": of, name: draw(st.integers(0, of))}


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    sessions, questions = [], []
    for sample in draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4)):
        for position in range(draw(st.integers(0, 4))):
            blocks: dict[str, Any] = {
                "recall": draw(a_share("covered")),
                "correctness": {**draw(a_share("supported")), "hallucinated": None},
                "interference": draw(a_share("rejected")),
                "update": updates(*(draw(st.integers(0, 2)) for _ in range(3)), 1),
                "after_failure": draw(st.booleans()),
                "timings_ms": {"ingest": draw(st.floats(0, 9))},
            }
            sessions.append(session(sample, position, draw(STATUSES), **blocks))
        for position in range(draw(st.integers(0, 4))):
            first = draw(st.lists(st.none() | st.integers(1, 10), min_size=1, max_size=4))
            verdict = draw(st.sampled_from(["Correct", "Hallucination", "Omission"]))
            more = {"retrieval": {"total": len(first), "first": first}}
            questions.append(asked(sample, position, verdict, draw(STATUSES), **more))
    return sessions, questions


def summed(sessions: list[Any], questions: list[Any]) -> Accumulator:
    sums = Accumulator(KEYED.id, 5, (1, 5))
    for line in sessions:
        sums.add_session(line)
    for line in questions:
        sums.add_question(line)
    return sums


def built(sums: Accumulator, run: tuple[list[Any], list[Any]]) -> str:
    plan = {"sessions": len(run[0]), "questions": len(run[1])}
    return json.dumps(build(sums, plan, KEYED, {"dataset": "d"}), sort_keys=True)


@settings(max_examples=60, deadline=None)
@given(runs(), st.integers(0, 1000))
def test_the_order_of_lines_does_not_matter(run: tuple[list[Any], list[Any]], seed: int) -> None:
    shuffled = [list(lines) for lines in run]
    for lines in shuffled:
        random.Random(seed).shuffle(lines)
    assert built(summed(*run), run) == built(summed(*shuffled), run)


@settings(max_examples=60, deadline=None)
@given(runs(), st.integers(1, 3))
def test_merged_shards_are_the_whole(run: tuple[list[Any], list[Any]], shards: int) -> None:
    parts = [
        summed(
            [line for line in run[0] if ord(line["sample_id"]) % shards == shard],
            [line for line in run[1] if ord(line["sample_id"]) % shards == shard],
        )
        for shard in range(shards)
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    assert built(merged, run) == built(summed(*run), run)


@settings(max_examples=60, deadline=None)
@given(runs())
def test_planned_is_the_sum_of_statuses_and_cells_are_bounded(
    run: tuple[list[Any], list[Any]],
) -> None:
    found = json.loads(built(summed(*run), run))
    assert sum(found["statuses"]["sessions"].values()) == len(run[0])
    assert sum(found["statuses"]["questions"].values()) == len(run[1])
    for numbers in (*found["dimensions"].values(), found["retrieval"]):
        for cell in numbers.values():
            assert (cell["value"] is None) == (cell["na"] is not None)
            assert 0 <= cell["n"] <= cell["N"]
            if cell["value"] is not None:
                assert 0.0 <= cell["value"] <= 1.0
    if run[1]:
        with pytest.raises(RunError):
            build(
                summed(run[0], run[1][1:]),
                {"sessions": len(run[0]), "questions": len(run[1])},
                KEYED,
                {},
            )


def test_shards_that_overlap_or_differ_are_refused() -> None:
    one = summed([session("a", 0)], [])
    with pytest.raises(RunError, match="in two shards"):
        one.merge(summed([session("a", 0)], []))
    with pytest.raises(RunError, match="shards differ"):
        one.merge(Accumulator(GOLD_FOUND.id, 5, (1, 5)))
