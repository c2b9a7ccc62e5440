"""One box's life: a sample's units one after the other, each ending in one record."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar

from harness.adapter.records import (
    Capabilities,
    Query,
    RetrievalRecord,
    to_wire,
)
from harness.outcomes import (
    AdapterFailure,
    MemrigError,
    ModelFailure,
    SandboxFailure,
    Status,
    policy_of,
)
from harness.pipeline import events
from harness.pipeline.answer import Answer, AnswerFn, QuestionView
from harness.pipeline.blind import Blinder
from harness.pipeline.plan import QuestionStep, SessionStep, Step
from harness.records import Failure, JSONObject, QARecord, SessionRecord, SnapshotRecord
from harness.runs.snapshots import Chain
from harness.samples import Sample
from harness.sandbox.client import MemoryClient

Value = TypeVar("Value")

#: A record holds this much of an error's message; the whole stands in the log it names.
MESSAGE_LIMIT = 2000

_BoxError = AdapterFailure | SandboxFailure


class Sink(Protocol):
    """Where records go. :class:`harness.runs.Attempt` is one."""

    number: int

    def session(self, record: SessionRecord) -> None:
        """Take a session's record."""

    def question(self, record: QARecord) -> None:
        """Take a question's record."""

    def note(self, text: str) -> str:
        """Keep a long text; returns where, as :meth:`relative` would."""

    def relative(self, path: Path) -> str:
        """A path as records name it."""


@dataclass(frozen=True)
class Terms:
    """What is the same for all samples of a run."""

    row: str
    answer: AnswerFn
    top_k: int
    max_k: int
    tell: events.Listener


@dataclass
class Unit:
    """What is measured while one unit is done."""

    started: float = field(default_factory=perf_counter)
    timings: dict[str, float] = field(default_factory=dict)
    box_ms: dict[str, float] = field(default_factory=dict)
    box: JSONObject = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    ops: int = 0

    @property
    def ms(self) -> float:
        """Milliseconds since it began."""
        return (perf_counter() - self.started) * 1000

    def measured(self) -> dict[str, Any]:
        """The fields of a record that only this can fill."""
        return {
            "timings_ms": {name: round(ms, 3) for name, ms in self.timings.items()},
            "box_ms": {name: round(ms, 3) for name, ms in self.box_ms.items()},
            "box": self.box,
            "degraded": tuple(dict.fromkeys(self.degraded)),
        }


class Life:
    """Does a sample's steps in one box, from :attr:`done` on. Not used again after a failure.

    A box that is gone leaves :meth:`go` as ``SandboxFailure``; every other failure becomes the
    record of its unit, and the sample goes on.
    """

    def __init__(
        self,
        terms: Terms,
        sample: Sample,
        steps: Sequence[Step],
        blinder: Blinder,
        sink: Sink,
    ) -> None:
        self._terms = terms
        self._sample = sample
        self._steps = steps
        self._blinder = blinder
        self._sink = sink
        self._chain = Chain()
        self._broken = False
        self._oom_kills = 0
        self._client: MemoryClient
        self._can = Capabilities()
        self.begun = False  # set up; from here on units fail as their own calls do
        self.done = 0

    def go(self, client: MemoryClient, capabilities: Capabilities) -> None:
        """Do all steps.

        Raises:
            SandboxFailure: the box is gone; :meth:`close_out` accounts for the rest.
            SetupFailed: ``reset`` failed, so nothing was begun.
        """
        self._client, self._can = client, capabilities
        self._set_up()
        self.begun = True
        for step in self._steps[self.done :]:
            if step.cut:
                self._leave_out(step)
            elif isinstance(step, SessionStep):
                self._session(step)
            else:
                self._question(step)
            self.done += 1

    def close_out(self, error: MemrigError, *, setup: bool) -> None:
        """Give every unit that is still open the failure that ended the work.

        ``setup``: nothing was begun, so the units fail as set-up does, not as their own calls.
        """
        failure = self._failure(error)
        for step in self._steps[self.done :]:
            if step.cut:
                self._leave_out(step)
            else:
                own = Status.FAILED_INGEST
                if isinstance(step, QuestionStep):
                    own = Status.FAILED_RETRIEVE
                status = policy_of(failure.kind).status or (Status.FAILED_SETUP if setup else own)
                self._write(step, Unit(), status, failure=failure)
                self._broken = self._broken or not setup
            self.done += 1

    # Steps

    def _set_up(self) -> None:
        unit = Unit()
        try:
            self._call(unit, "reset", lambda: self._client.reset())
        except AdapterFailure as error:
            raise SetupFailed(error) from error
        self._oom_kills = int(unit.box.get("oom_kills", 0))

    def _session(self, step: SessionStep) -> None:
        unit, session = Unit(), step.session
        fed: dict[str, Any] = {"turns_empty": sum(turn.is_empty for turn in session.turns)}
        failure: Failure | None = None
        images = tuple(image for turn in session.turns for image in turn.images)
        unit.degraded += self._blinder.lacking(images)
        try:
            self._feed(unit, step, fed)
            self._look(unit, step, fed)
        except (AdapterFailure, SandboxFailure) as error:
            failure = self._survived(error)
        status = self._status(unit, failure, Status.FAILED_INGEST)
        self._write(step, unit, status, failure=failure, **fed)
        if status.is_failure or (failure and failure.call in ("ingest_turns", "end_session")):
            self._broken = True

    def _feed(self, unit: Unit, step: SessionStep, fed: dict[str, Any]) -> None:
        fed["turns_sent"] = 0
        for batch in self._blinder.batches(step.session):

            def send(batch: list[Any] = batch) -> int:
                return self._client.ingest_turns(batch)

            fed["turns_sent"] += self._call(unit, "ingest", send)
        ordinal = self._blinder.session_id(step.session)
        self._call(unit, "end_session", lambda: self._client.end_session(ordinal))
        if unit.box.get("pending_calls", 0):
            unit.degraded.append("pending_calls")

    def _look(self, unit: Unit, step: SessionStep, fed: dict[str, Any]) -> None:
        client, ordinal = self._client, self._blinder.session_id(step.session)
        if self._can.delta_source != "none":
            delta = self._call(unit, "delta", lambda: client.export_memory_delta(ordinal))
            fed["delta"] = tuple(self._shown(record) for record in delta)
        if self._can.snapshot != "none":
            snapshot = self._call(unit, "snapshot", client.snapshot_memories)
            fed["snapshot"] = self._link([self._shown(record) for record in snapshot], step)

    def _link(self, snapshot: list[JSONObject], step: SessionStep) -> SnapshotRecord:
        try:
            return self._chain.add(snapshot, whole=step.whole_snapshot)
        except ValueError as error:
            raise AdapterFailure("BASELINE_ERROR", str(error), call="snapshot_memories") from None

    def _question(self, step: QuestionStep) -> None:
        unit = Unit()
        query = self._blinder.query(step.question, step.session)
        unit.degraded += self._blinder.lacking(step.question.images)
        asked: dict[str, Any] = {"question": step.question.text, "top_k": self._terms.top_k}
        failure: Failure | None = None
        own = Status.FAILED_RETRIEVE
        try:
            found = self._retrieve(unit, query)
            asked["retrieved"] = tuple(self._shown(item) for item in found.items)
            own = Status.FAILED_ANSWER
            answer = self._answer(unit, step, query, found)
            asked.update(answer=answer.text, answer_from=answer.item_rank)
        except (AdapterFailure, SandboxFailure) as error:
            failure = self._survived(error)
        except ModelFailure as error:
            failure = self._failure(error)
        self._write(step, unit, self._status(unit, failure, own), failure=failure, **asked)

    def _retrieve(self, unit: Unit, query: Query) -> RetrievalRecord:
        most = self._terms.max_k
        found = self._call(unit, "retrieve", lambda: self._client.retrieve(query, most))
        if len(found.items) > most and not self._can.full_context:
            unit.degraded.append("retrieved_more_than_asked")
            return RetrievalRecord(found.items[:most])
        return found

    def _answer(
        self, unit: Unit, step: QuestionStep, query: Query, found: RetrievalRecord
    ) -> Answer:
        """Answer from the scored items only; a system that gives all it has is read whole."""
        if not self._can.full_context:
            found = RetrievalRecord(found.items[: self._terms.top_k])
        view = QuestionView(query.text, query.time, step.question.choices)
        return answered(self._terms.answer, view, found, unit)

    # Calls

    def _call(self, unit: Unit, name: str, call: Callable[[], Value]) -> Value:
        """Make one adapter call, once more if its failure allows; measure it on both sides."""
        began = perf_counter()
        try:
            value = self._tried(unit, call)
        finally:
            ms = (perf_counter() - began) * 1000
            unit.timings[name] = unit.timings.get(name, 0.0) + ms
            unit.ops += 1
        meta = self._client.last.meta
        unit.box_ms[name] = unit.box_ms.get(name, 0.0) + float(meta.get("ms", 0.0))
        unit.box = {**{k: v for k, v in unit.box.items() if k == "retries"}, **meta}
        kills = int(meta.get("oom_kills", 0))
        if name != "reset" and kills > self._oom_kills:
            unit.degraded.append("oom_kill_in_child")
        self._oom_kills = max(self._oom_kills, kills)
        unit.degraded += [str(reason) for reason in meta.get("degraded", ())]
        return value

    def _tried(self, unit: Unit, call: Callable[[], Value]) -> Value:
        try:
            return call()
        except AdapterFailure as error:
            if not (error.retry_safe and policy_of(error.kind).retry_if_safe):
                raise
            unit.box["retries"] = unit.box.get("retries", 0) + 1
            unit.ops += 1
            self._terms.tell(
                events.CallRetried(self._terms.row, self._sample.id, error.call or "", error.kind)
            )
        return call()

    def _survived(self, error: _BoxError) -> Failure:
        """The failure of a unit, unless the box is gone: then it goes on up."""
        if policy_of(error.kind).restart:
            raise error
        return self._failure(error)

    def _failure(self, error: MemrigError) -> Failure:
        return failure_of(error, self._sink)

    # Records

    def _shown(self, record: Any) -> JSONObject:
        return self._blinder.reveal_record(to_wire(record))

    def _status(self, unit: Unit, failure: Failure | None, own: Status) -> Status:
        if failure is not None:
            return policy_of(failure.kind).status or own
        unit.degraded += [f"lane:{lane}" for lane in self._can.degraded_lanes]
        return Status.DEGRADED if unit.degraded else Status.OK

    def _leave_out(self, step: Step) -> None:
        self._write(step, Unit(), Status.LEFT_OUT)

    def _write(self, step: Step, unit: Unit, status: Status, **fields: Any) -> None:
        common = {
            "sample_id": self._sample.id,
            "session_id": step.session.id,
            "position": step.position,
            "status": status,
            "after_failure": self._broken and status is not Status.LEFT_OUT,
            "attempt": self._sink.number,
            **unit.measured(),
            **fields,
        }
        ms, retrieve_ms = unit.ms, unit.timings.get("retrieve")
        row, sample_id = self._terms.row, self._sample.id
        if isinstance(step, SessionStep):
            self._sink.session(SessionRecord(**common))
            turns = fields.get("turns_sent", 0)
            self._terms.tell(
                events.SessionDone(
                    row, sample_id, step.session.id, step.position, status, turns, unit.ops, ms
                )
            )
        else:
            ids = {"checkpoint_id": step.checkpoint.id, "question_id": step.question.id}
            self._sink.question(QARecord(**{**common, **ids}))
            self._terms.tell(
                events.QuestionDone(
                    row,
                    sample_id,
                    step.question.id,
                    step.position,
                    status,
                    unit.ops,
                    ms,
                    retrieve_ms if status.has_result else None,
                )
            )


class SetupFailed(MemrigError):
    """``reset`` failed: the memory system said so and the sample could not begin."""

    def __init__(self, error: AdapterFailure) -> None:
        super().__init__(str(error))
        self.error = error


def answered(answer: AnswerFn, view: QuestionView, found: RetrievalRecord, unit: Unit) -> Answer:
    """Ask the answerer, measured. Whatever it raises or fails to give is a ``ModelFailure``."""
    began = perf_counter()
    try:
        given = answer(view, found)
    except MemrigError:
        raise
    except Exception as error:
        message = f"the answerer raised {type(error).__name__}: {error}"
        raise ModelFailure("ANSWER_ERROR", message) from error
    finally:
        unit.timings["answer"] = (perf_counter() - began) * 1000
    if isinstance(given, str):
        given = Answer(given)
    if not isinstance(given, Answer):
        kind = type(given).__name__
        raise ModelFailure("ANSWER_ERROR", f"the answerer returned {kind}, not an answer or text")
    if not given.text.strip():
        raise ModelFailure("EMPTY_RESPONSE", "the answerer gave an empty answer")
    return given


def failure_of(error: MemrigError, sink: Sink) -> Failure:
    """What a record says about an error; traces go to the attempt's notes."""
    message = getattr(error, "message", str(error))
    log = None
    if isinstance(error, AdapterFailure) and error.traceback:
        log = sink.note(f"{error}\n{error.traceback}")
    elif isinstance(error, SandboxFailure) and error.log is not None:
        log = sink.relative(error.log)
    elif isinstance(error, ModelFailure) and error.__cause__ is not None:
        log = sink.note("".join(traceback.format_exception(error.__cause__)))
    return Failure(
        kind=getattr(error, "kind", "BASELINE_ERROR"),
        message=message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + "...",
        call=getattr(error, "call", None),
        cause=getattr(error, "cause", None),
        log=log,
    )
