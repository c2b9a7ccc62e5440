"""Every planned unit ends in exactly one status, whatever fails, and as the failure table says."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty import (
    Cue,
    FaultyLauncher,
    adapter_failure,
    never,
    sandbox_failure,
    small_sample,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_memory import SlowMemory

from harness import run_eval
from harness.adapter.contract import ERROR_KINDS
from harness.config import EvalConfig
from harness.outcomes import MAX_RESTARTS, POLICIES, ModelFailure, Status
from harness.pipeline import events
from harness.pipeline.plan import steps_of
from harness.records import QARecord, SessionRecord
from harness.runs import Run, diff
from harness.samples import Sample
from harness.sandbox.base import Usage
from harness.sandbox.meta import usage_of
from harness.sandbox.process import LocalLauncher

BOX_GONE = [kind for kind, policy in POLICIES.items() if policy.restart and policy.status is None]
WRITES = ("ingest_turns", "end_session")


@pytest.fixture
def evaluate(tmp_path: Path) -> Callable[..., tuple[Run, FaultyLauncher, list[events.Event]]]:
    """Run samples with a cue; the run, its launcher, what was told."""

    def run(
        cue: Cue, samples: list[Sample] | None = None, name: str = "run", **more: Any
    ) -> tuple[Run, FaultyLauncher, list[events.Event]]:
        launcher = FaultyLauncher(cue)
        told: list[events.Event] = []
        given_launcher = more.pop("launcher", launcher)
        answer_fn = more.pop("answer_fn", None)
        run_eval(
            EvalConfig(tmp_path, "Faulty", tmp_path / name, **more),
            load_domain_bundle=lambda _: samples or [small_sample()],
            launcher=given_launcher,
            answer_fn=answer_fn,
            on_event=told.append,
        )
        return Run.open(tmp_path / name), launcher, told

    return run


def at(wanted: str, nth: int, failure: Callable[[], Exception], lives: int = 99) -> Cue:
    """Fail at the ``nth`` call of a method, in the first ``lives`` boxes of a sample."""
    seen: Counter[tuple[str, int]] = Counter()

    def cue(sample: str, life: int, method: str, calls: int) -> None:
        if method == wanted:
            seen[sample, life] += 1
            if seen[sample, life] == nth and life <= lives:
                raise failure()

    return cue


def statuses(run: Run) -> tuple[list[Status], list[Status]]:
    return [r.status for r in run.sessions()], [r.status for r in run.questions()]


def test_without_failures_all_is_ok(evaluate: Any) -> None:
    run, launcher, _ = evaluate(never)
    assert statuses(run) == ([Status.OK] * 3, [Status.OK] * 6)
    assert [method for _, method in launcher.calls[:8]] == [
        "reset",
        "ingest_turns",
        "end_session",
        "export_memory_delta",
        "snapshot_memories",
        "retrieve",
        "retrieve",
        "ingest_turns",
    ]
    first = next(iter(run.sessions()))
    assert (first.turns_sent, first.turns_empty) == (2, 1)
    assert first.snapshot is not None and first.snapshot.items is not None
    assert first.delta is not None and first.delta[0]["sources"] == ["A:0"]
    assert {"ingest", "end_session", "delta", "snapshot"} == set(first.timings_ms)
    question = next(iter(run.questions()))
    assert question.retrieved is not None and question.retrieved[0]["sources"] == ["A:0"]
    assert question.answer is not None and "10" in question.answer
    assert launcher.open == 0


@pytest.mark.parametrize("kind", ERROR_KINDS)
@pytest.mark.parametrize("method", ["ingest_turns", "end_session", "export_memory_delta"])
def test_a_failed_session_and_what_comes_after(evaluate: Any, kind: str, method: str) -> None:
    run, launcher, told = evaluate(at(method, 2, lambda: adapter_failure(kind, method)))
    expected = POLICIES[kind].status or Status.FAILED_INGEST
    assert statuses(run) == ([Status.OK, expected, Status.OK], [Status.OK] * 6)
    records = list(run.sessions())
    assert records[1].failure is not None and records[1].failure.kind == kind
    assert records[1].failure.call == method
    incomplete = expected.is_failure or method in WRITES
    assert [r.after_failure for r in records] == [False, False, incomplete]
    assert [q.after_failure for q in run.questions()] == [False] * 2 + [incomplete] * 4
    assert launcher.lives["s0001"] == 1
    assert not any(isinstance(event, events.CallRetried) for event in told)


@pytest.mark.parametrize("kind", ERROR_KINDS)
@pytest.mark.parametrize("method", ["ingest_turns", "end_session", "retrieve"])
def test_tried_once_more_exactly_when_it_is_safe(evaluate: Any, kind: str, method: str) -> None:
    safe = at(method, 1, lambda: adapter_failure(kind, method, retry_safe=True))
    run, _, told = evaluate(safe)
    retried = [event for event in told if isinstance(event, events.CallRetried)]
    if POLICIES[kind].retry_if_safe:
        assert statuses(run) == ([Status.OK] * 3, [Status.OK] * 6)
        assert [(event.call, event.kind) for event in retried] == [(method, kind)]
    else:
        assert not retried
        assert Status.UNSUPPORTED in statuses(run)[method == "retrieve"]


def test_a_call_is_not_tried_three_times(evaluate: Any) -> None:
    seen = Counter[str]()

    def cue(sample: str, life: int, method: str, calls: int) -> None:
        seen[method] += 1
        if method == "end_session":
            raise adapter_failure("STORE_FAILED", method, retry_safe=True)

    run, _, _ = evaluate(cue)
    assert seen["end_session"] == 2 * 3
    assert statuses(run)[0] == [Status.FAILED_INGEST] * 3


@pytest.mark.parametrize("kind", BOX_GONE)
@pytest.mark.parametrize(("method", "nth"), [("ingest_turns", 2), ("retrieve", 3)])
def test_a_dead_box_is_followed_by_a_fresh_one(
    evaluate: Any, kind: str, method: str, nth: int
) -> None:
    cue = at(method, nth, lambda: sandbox_failure(kind, method), lives=MAX_RESTARTS)
    run, launcher, told = evaluate(cue)
    assert statuses(run) == ([Status.OK] * 3, [Status.OK] * 6)
    assert launcher.lives["s0001"] == MAX_RESTARTS + 1
    assert {r.attempt for r in run.sessions()} == {MAX_RESTARTS + 1}
    failed = [event for event in told if isinstance(event, events.BoxFailed)]
    assert [event.restarts_left for event in failed] == [2, 1]
    folder = next((run.path / "attempts").iterdir())
    assert sorted(entry.name for entry in folder.iterdir()) == ["1", "2", "3"]
    assert launcher.open == 0


def test_a_box_that_always_dies_fails_what_is_open(evaluate: Any) -> None:
    cue = at("end_session", 2, lambda: sandbox_failure("OUT_OF_MEMORY", "end_session"))
    run, launcher, told = evaluate(cue)
    assert launcher.lives["s0001"] == MAX_RESTARTS + 1
    assert statuses(run) == (
        [Status.OK, Status.FAILED_INGEST, Status.FAILED_INGEST],
        [Status.OK] * 2 + [Status.FAILED_RETRIEVE] * 4,
    )
    records = [*run.sessions(), *run.questions()]
    open_units = [r for r in records if r.status is not Status.OK]
    assert {r.failure.kind for r in open_units if r.failure} == {"OUT_OF_MEMORY"}
    assert [r.after_failure for r in run.sessions()] == [False, False, True]
    assert all(r.after_failure for r in list(run.questions())[2:])
    last = [event for event in told if isinstance(event, events.BoxFailed)][-1]
    assert last.restarts_left == 0


@pytest.mark.parametrize("kind", ["START_FAILED", "START_TIMEOUT", "OUT_OF_MEMORY", "PROTOCOL"])
def test_a_box_that_never_starts_fails_everything_as_set_up(evaluate: Any, kind: str) -> None:
    run, launcher, _ = evaluate(at("start", 1, lambda: sandbox_failure(kind, "initialize")))
    assert launcher.lives["s0001"] == MAX_RESTARTS + 1
    assert statuses(run) == ([Status.FAILED_SETUP] * 3, [Status.FAILED_SETUP] * 6)
    assert not any(r.after_failure for r in [*run.sessions(), *run.questions()])


def test_a_reset_that_fails_is_a_failed_set_up(evaluate: Any) -> None:
    run, launcher, _ = evaluate(at("reset", 1, lambda: adapter_failure("STORE_FAILED", "reset")))
    assert launcher.lives["s0001"] == 1
    assert set(statuses(run)[0] + statuses(run)[1]) == {Status.FAILED_SETUP}


@pytest.mark.parametrize("kind", ["UNSUPPORTED", "UNAVAILABLE"])
def test_what_a_system_cannot_is_no_failure(evaluate: Any, kind: str) -> None:
    run, _, _ = evaluate(at("reset", 1, lambda: adapter_failure(kind, "reset")))
    assert set(statuses(run)[0] + statuses(run)[1]) == {Status.UNSUPPORTED}


def test_a_system_that_says_it_is_not_available(evaluate: Any) -> None:
    class Absent(SlowMemory):
        def get_capabilities(self) -> dict[str, Any]:
            return {"available": False, "unavailable_reason": "needs a cloud"}

    run, _, _ = evaluate(never, launcher=LocalLauncher(Absent))
    records = [*run.sessions(), *run.questions()]
    assert {r.status for r in records} == {Status.UNSUPPORTED}
    assert {r.failure.message for r in records if r.failure} == {"needs a cloud"}


def test_a_message_too_large_fails_its_unit_and_not_the_box(evaluate: Any) -> None:
    cue = at("ingest_turns", 1, lambda: sandbox_failure("MESSAGE_TOO_LARGE", "ingest_turns"))
    run, launcher, _ = evaluate(cue)
    assert launcher.lives["s0001"] == 1
    assert statuses(run)[0] == [Status.FAILED_INGEST, Status.OK, Status.OK]


def test_a_failed_retrieve_does_not_taint_what_follows(evaluate: Any) -> None:
    run, _, _ = evaluate(at("retrieve", 1, lambda: adapter_failure("EMBEDDING_FAILED", "retrieve")))
    assert statuses(run)[1] == [Status.FAILED_RETRIEVE] + [Status.OK] * 5
    assert not any(r.after_failure for r in run.questions())
    assert next(iter(run.questions())).answer is None


def _raises(question: object, found: object) -> str:
    raise KeyError("boom")


def _out_of_budget(question: object, found: object) -> str:
    raise ModelFailure("BUDGET_EXHAUSTED", "no money")


@pytest.mark.parametrize(
    ("answer_fn", "status", "kind"),
    [
        (_raises, Status.FAILED_ANSWER, "ANSWER_ERROR"),
        (lambda question, found: None, Status.FAILED_ANSWER, "ANSWER_ERROR"),
        (lambda question, found: " ", Status.FAILED_ANSWER, "EMPTY_RESPONSE"),
        (_out_of_budget, Status.BUDGET_EXHAUSTED, "BUDGET_EXHAUSTED"),
    ],
)
def test_an_answerer_that_fails(evaluate: Any, answer_fn: Any, status: Status, kind: str) -> None:
    run, _, _ = evaluate(never, answer_fn=answer_fn)
    records = list(run.questions())
    assert {r.status for r in records} == {status}
    assert {r.failure.kind for r in records if r.failure} == {kind}
    assert all(r.retrieved and r.answer is None for r in records)
    if answer_fn is _raises:
        assert records[0].failure is not None and records[0].failure.log is not None
        assert "KeyError" in (run.path / records[0].failure.log).read_text()


def test_an_injected_answerer_stands_in_the_title(evaluate: Any) -> None:
    run, _, _ = evaluate(never, answer_fn=lambda question, found: f"{question.text} 10")
    assert "lambda" in run.manifest.pipeline["answerer"]["id"]
    assert next(iter(run.questions())).answer == "What number is box A? 10"


@pytest.mark.parametrize(
    ("method", "meta", "reason"),
    [
        ("end_session", {"oom_kills": 1}, "oom_kill_in_child"),
        ("end_session", {"pending_calls": 2}, "pending_calls"),
        ("end_session", {"degraded": ["client_timeout"]}, "client_timeout"),
        ("retrieve", {"oom_kills": 1}, "oom_kill_in_child"),
    ],
)
def test_degraded_by_what_the_box_measured(
    evaluate: Any, method: str, meta: dict[str, Any], reason: str
) -> None:
    seen = Counter[str]()

    def cue(sample: str, life: int, called: str, calls: int) -> dict[str, Any] | None:
        seen[called] += 1
        return meta if called == method and seen[called] == 1 else None

    run, _, _ = evaluate(cue)
    units: list[SessionRecord | QARecord] = list(
        run.questions() if method == "retrieve" else run.sessions()
    )
    assert units[0].status is Status.DEGRADED and units[0].degraded == (reason,)
    assert all(unit.status is Status.OK for unit in units[1:])


@pytest.mark.parametrize("method", ["reset", "end_session", "retrieve"])
@pytest.mark.parametrize(
    "forged",
    [
        {"ms": "abc"},
        {"ms": None},
        {"ms": -1.0},
        {"ms": float("nan")},
        {"ms": 10**400},
        {"oom_kills": "many"},
        {"oom_kills": True},
        {"rss": 1.5},
        {"pending_calls": 2**63},
        {"degraded": 5},
        {"degraded": [5]},
        {"retries": "abc"},
    ],
)
def test_forged_measurements_are_the_box_s_failure(
    evaluate: Any, method: str, forged: dict[str, Any]
) -> None:
    """They end the box, as any breach of the protocol does; the host goes on."""

    def cue(sample: str, life: int, called: str, calls: int) -> dict[str, Any] | None:
        return forged if called == method and life == 1 else None

    run, launcher, told = evaluate(cue)
    sessions, questions = statuses(run)
    assert set(sessions + questions) == {Status.OK}
    assert launcher.open == 0 and sum(launcher.lives.values()) == 2
    failed = [event for event in told if isinstance(event, events.BoxFailed)]
    assert [event.kind for event in failed] == ["PROTOCOL"]
    assert next(iter(forged)) in failed[0].message


@pytest.mark.parametrize("said", [5, {"cpu_s": "x", "state_bytes": [], "oom_kills": -1}])
def test_a_forged_goodbye_leaves_the_usage_unknown(said: Any) -> None:
    assert usage_of({"usage": said}) == Usage()
    honest = {"cpu_s": 0.5, "state_bytes": 3, "peak_memory_bytes": 9, "oom_kills": 0}
    assert usage_of({"usage": honest}) == Usage(0.5, 9, 3, 0)


def test_degraded_lanes_and_contract_breaches(evaluate: Any) -> None:
    class Odd(SlowMemory):
        def get_capabilities(self) -> dict[str, Any]:
            return {"degraded_lanes": ["graph"]}

        def retrieve(self, query: Any, top_k: int) -> Any:
            return super().retrieve(query, 99)

    run, _, _ = evaluate(never, launcher=LocalLauncher(Odd), max_k=1, top_k=1)
    assert {r.degraded for r in run.sessions()} == {("lane:graph",)}
    assert next(iter(run.questions())).degraded == ("retrieved_more_than_asked", "lane:graph")
    assert all(len(r.retrieved or ()) == 1 for r in run.questions())


def test_two_memories_of_one_id_are_a_failure_of_the_system(evaluate: Any) -> None:
    class Twice(SlowMemory):
        def snapshot_memories(self) -> Any:
            return [dataclasses.replace(item, memory_id="same") for item in self._items]

        def export_memory_delta(self, session_id: str) -> Any:
            return []

    run, _, _ = evaluate(never, launcher=LocalLauncher(Twice))
    record = next(iter(run.sessions()))
    assert record.status is Status.FAILED_INGEST and record.snapshot is None
    assert record.failure is not None and "share the id 'same'" in record.failure.message


def test_what_a_system_cannot_report_is_not_asked_for(evaluate: Any) -> None:
    class Closed(SlowMemory):
        def get_capabilities(self) -> dict[str, Any]:
            return {"snapshot": "none", "delta_source": "none"}

        def snapshot_memories(self) -> Any:
            raise AssertionError("asked")

    run, _, _ = evaluate(never, launcher=LocalLauncher(Closed))
    assert statuses(run)[0] == [Status.OK] * 3
    assert all(r.delta is None and r.snapshot is None for r in run.sessions())


def test_cut_sessions_and_their_questions_are_left_out_and_counted(evaluate: Any) -> None:
    run, _, _ = evaluate(never, max_sessions=2)
    assert statuses(run) == (
        [Status.OK, Status.OK, Status.LEFT_OUT],
        [Status.OK] * 4 + [Status.LEFT_OUT] * 2,
    )
    plan = run.manifest.plan
    assert (plan["sessions"], plan["left_out_sessions"]) == (3, 1)
    assert (plan["questions"], plan["left_out_questions"]) == (6, 2)


# The same as a property: random failures at random calls.

adapter_kinds = st.sampled_from(ERROR_KINDS)
box_kinds = st.sampled_from([kind for kind in POLICIES if POLICIES[kind].restart])


@st.composite
def cues(draw: st.DrawFn) -> dict[tuple[str, int], Callable[[str], Exception]]:
    """(sample, number of the call in a box's life) -> failure. The same in every life."""
    made: dict[tuple[str, int], Callable[[str], Exception]] = {}
    for _ in range(draw(st.integers(0, 5))):
        place = (draw(st.sampled_from(["s0001", "s0002", "s0003"])), draw(st.integers(0, 30)))
        if draw(st.booleans()):
            kind, safe = draw(adapter_kinds), draw(st.booleans())
            made[place] = lambda call, k=kind, s=safe: adapter_failure(k, call, retry_safe=s)
        else:
            kind = draw(box_kinds)
            made[place] = lambda call, k=kind: sandbox_failure(k, call)
    return made


def cue_from(script: dict[tuple[str, int], Callable[[str], Exception]]) -> Cue:
    def cue(sample: str, life: int, method: str, calls: int) -> None:
        made = script.get((sample, calls))
        if made is not None:
            error = made(method)
            if method == "start" and not hasattr(error, "box_exit"):
                return  # a box does not raise an adapter's error before it is there
            raise error

    return cue


class Killed(BaseException):
    """The end of the world, in one thread."""


def killing(cue: Cue, after: int) -> Cue:
    seen = Counter[str]()

    def wrapped(sample: str, life: int, method: str, calls: int) -> dict[str, Any] | None:
        seen["all"] += 1
        if seen["all"] == after:
            raise Killed
        return cue(sample, life, method, calls)

    return wrapped


@settings(max_examples=25, deadline=None)
@given(script=cues(), jobs=st.integers(1, 3), stops=st.lists(st.integers(1, 40), max_size=3))
def test_every_planned_unit_ends_in_exactly_one_status(
    script: dict[tuple[str, int], Callable[[str], Exception]], jobs: int, stops: list[int]
) -> None:
    samples = [small_sample(name, sessions=2, questions=1) for name in ("x", "y", "z")]
    folder = Path(tempfile.mkdtemp())

    def evaluate(name: str, cue: Cue) -> FaultyLauncher:
        launcher = FaultyLauncher(cue)
        config = EvalConfig(folder, "Faulty", folder / name, jobs=jobs)
        run_eval(config, load_domain_bundle=lambda _: samples, launcher=launcher)
        return launcher

    try:
        launcher = evaluate("whole", cue_from(script))
        for stop in stops:
            try:
                evaluate("stopped", killing(cue_from(script), stop))
            except Killed:
                continue
        evaluate("stopped", cue_from(script))
        whole, stopped = Run.open(folder / "whole"), Run.open(folder / "stopped")
        _accounted(whole, samples)
        assert launcher.open == 0
        assert max(launcher.lives.values()) <= MAX_RESTARTS + 1
        found = diff(whole, stopped)
        assert found.equal, found
    finally:
        shutil.rmtree(folder)


def _accounted(run: Run, samples: list[Sample]) -> None:
    for sample in samples:
        planned = [(type(s).__name__[0], s.position) for s in steps_of(sample, None)]
        recorded = [("S", r.position) for r in run.sessions() if r.sample_id == sample.id]
        recorded += [("Q", r.position) for r in run.questions() if r.sample_id == sample.id]
        assert sorted(planned) == sorted(recorded)
    for record in [*run.sessions(), *run.questions()]:
        assert (record.failure is None) == (record.status in (Status.OK, Status.DEGRADED))
        if record.failure is not None:
            own = {Status.FAILED_INGEST, Status.FAILED_RETRIEVE, Status.FAILED_SETUP}
            forced = POLICIES[record.failure.kind].status
            assert record.status is forced or (forced is None and record.status in own)
