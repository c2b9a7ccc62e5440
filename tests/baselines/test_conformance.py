"""The suite passes what is right and catches every broken promise, each by its own check."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad.systems import BROKEN
from baseline_boxes import example, in_a_process, in_this_process

from harness.conformance import CHECKS, Outcome, Report, check_baseline

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
