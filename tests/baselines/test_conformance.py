"""The suite passes what is right and catches every broken promise, each by its own check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bad.systems import BROKEN
from baseline_boxes import example, in_a_process, in_this_process

from harness.catalog import Catalog, OptionDoc
from harness.conformance import CHECKS, Outcome, Report, check_baseline
from harness.conformance.knobs import other_values
from harness.outcomes import UnknownName, UsageError

ALL = {check.id for check in CHECKS}

#: These say nothing about an adapter in this process: they need a pipe, or take long.
NEEDS_A_PIPE = {"noise", "large-turn", "unknown-method"}

#: Classes whose fault only a box of their own shows, or would spoil this process.
IN_A_PROCESS = {name for name, checks in BROKEN.items() if checks & NEEDS_A_PIPE} | {
    "ChangesItsMind"
}


def failed(report: Report) -> set[str]:
    return {result.id for result in report.failed}


def test_a_good_adapter_passes_every_check(tmp_path: Path) -> None:
    report = check_baseline(example("Good"), in_a_process, tmp_path)
    assert failed(report) == set(), report.failed
    assert {result.id for result in report.results} == ALL
    assert {r.id for r in report.results if r.outcome is not Outcome.PASS} == set()


@pytest.mark.parametrize("name", sorted(set(BROKEN) - IN_A_PROCESS))
def test_each_broken_promise_is_caught_by_its_own_check(name: str, tmp_path: Path) -> None:
    report = check_baseline(
        example(name), in_this_process, tmp_path, only=sorted(ALL - NEEDS_A_PIPE)
    )
    assert failed(report) == BROKEN[name], report.failed
    assert all(result.reason and result.next_step for result in report.failed)


@pytest.mark.parametrize("name", sorted(IN_A_PROCESS))
def test_each_broken_promise_of_a_box_is_caught(name: str, tmp_path: Path) -> None:
    report = check_baseline(example(name), in_a_process, tmp_path)
    assert failed(report) == BROKEN[name], report.failed


def test_every_check_can_fail() -> None:
    caught = {check for checks in BROKEN.values() for check in checks}
    assert caught == ALL


def outcome(report: Report, check: str) -> tuple[Outcome, str]:
    found = next(result for result in report.results if result.id == check)
    return found.outcome, found.reason


def test_a_native_delta_is_compared_and_reported(tmp_path: Path) -> None:
    report = check_baseline(example("NativeDelta"), in_this_process, tmp_path, only=["delta"])
    got, reason = outcome(report, "delta")
    assert got is Outcome.NOT_APPLICABLE
    assert "3 of 13 changes agree" in reason


def test_a_system_without_its_key_is_no_failure(tmp_path: Path) -> None:
    report = check_baseline(example("LacksAKey"), in_a_process, tmp_path)
    assert failed(report) == set(), report.failed
    assert outcome(report, "start")[0] is Outcome.PASS
    assert outcome(report, "reset-forgets") == (
        Outcome.NOT_APPLICABLE,
        "missing_credential: SOME_API_KEY",
    )


def test_a_system_that_needs_a_model_says_so(tmp_path: Path) -> None:
    row = example("AsksAModel", needs=("chat",))
    report = check_baseline(row, in_a_process, tmp_path, only=["start", "determinism"])
    assert failed(report) == set(), report.failed
    got, reason = outcome(report, "determinism")
    assert (got, "needs a model (chat)" in reason) == (Outcome.NOT_APPLICABLE, True)


def test_a_marker_that_survives_in_a_prompt_is_found(tmp_path: Path) -> None:
    """It is in no snapshot and in no retrieval: only the model traffic gives it away."""
    row = example("AsksAModel", needs=("chat",))
    report = check_baseline(
        row,
        in_a_process,
        tmp_path,
        only=["determinism", "reset-forgets", "reset-order"],
        model_call=lambda params: {"text": "noted"},
    )
    assert failed(report) == {"reset-forgets", "reset-order"}
    assert outcome(report, "reset-forgets")[1].endswith("model traffic")


def test_a_refusal_by_name_is_a_fair_answer_to_a_long_turn(tmp_path: Path) -> None:
    report = check_baseline(example("RefusesLongText"), in_a_process, tmp_path, only=["large-turn"])
    got, reason = outcome(report, "large-turn")
    assert (got, "refused as UNSUPPORTED" in reason) == (Outcome.PASS, True)


def test_a_note_explains_why_fewer_come_back(tmp_path: Path) -> None:
    report = check_baseline(example("Thresholds"), in_this_process, tmp_path, only=["completeness"])
    assert outcome(report, "completeness") == (Outcome.PASS, "nothing without a shared word")


def test_with_reset_container_there_is_no_order_to_check(tmp_path: Path) -> None:
    row = example("CountsOn", reset="container")
    report = check_baseline(row, in_this_process, tmp_path, only=["reset-order"])
    assert outcome(report, "reset-order")[0] is Outcome.NOT_APPLICABLE


def test_a_box_that_does_not_start_fails_by_name(tmp_path: Path) -> None:
    row = example("Good", adapter="systems:NoSuchClass")
    report = check_baseline(row, in_a_process, tmp_path)
    assert failed(report) == {"start"}
    assert outcome(report, "delta") == (Outcome.NOT_APPLICABLE, "the box does not start")
    assert not check_baseline(row, in_a_process, tmp_path, only=["delta"]).passed
    assert "NoSuchClass" in outcome(report, "start")[1]


def test_only_known_checks_and_rows_with_a_box(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean knobs"):
        check_baseline(example("Good"), in_this_process, tmp_path, only=["knob"])
    with pytest.raises(UsageError, match="no box to check"):
        check_baseline(Catalog().get("Oracle"), in_this_process, tmp_path)


def test_a_knob_is_turned_to_what_is_written_or_to_what_its_type_suggests() -> None:
    assert other_values(OptionDoc(5, "", example=2), 5) == [2]
    assert other_values(OptionDoc("a", "", choices=("a", "b")), "b") == ["a"]
    assert other_values(OptionDoc(True, ""), True) == [False]
    assert other_values(OptionDoc(4, ""), 4) == [5, 16, 1, 0, 2, 8]
    assert other_values(OptionDoc(1.0, ""), 1.0) == [4.0, 0.25, 0.0, 0.5]
    assert other_values(OptionDoc("free text", ""), "free text") == []


def test_the_report_is_plain_json(tmp_path: Path) -> None:
    report = check_baseline(example("DeadKnob"), in_this_process, tmp_path, only=["knobs", "delta"])
    value = json.loads(json.dumps(report.to_json()))
    assert (value["passed"], value["counts"]) == (False, {"pass": 1, "fail": 1, "n/a": 0})
    assert "query_words" in value["results"][1]["reason"]


@pytest.mark.parametrize("name", ["NoMemory", "FullContext", "BM25", "Lossy"])
def test_the_shipped_rows_pass(name: str, tmp_path: Path) -> None:
    report = check_baseline(Catalog().get(name), in_a_process, tmp_path)
    assert failed(report) == set(), report.failed
