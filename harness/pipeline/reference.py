"""Rows that need gold, so they are made on the host, without a box or an adapter.

``Oracle`` reads the gold evidence and answers from it: the ceiling of the answerer. The constant
floor gives every question the same answer: what can be had without any memory. Both write question
records like any row; a session means nothing to them, so its unit is ``unsupported``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness.adapter.records import Capabilities, RetrievalRecord, RetrievedItem, to_wire
from harness.adapter.render import turn_text
from harness.adapter.text import tokens
from harness.outcomes import ModelFailure, Status
from harness.pipeline import events
from harness.pipeline.answer import MAX_TOKENS, NOT_MENTIONED, Answer, QuestionView
from harness.pipeline.blind import Blinder
from harness.pipeline.life import Terms, Unit, answered, failure_of
from harness.pipeline.plan import QuestionStep, SessionStep, steps_of
from harness.pipeline.runner import OpenAttempt, started
from harness.records import Failure, QARecord, SessionRecord
from harness.runs import Attempt
from harness.samples import AnswerKind, Evidence, EvidenceKind, EvidenceState, Question, Sample

#: Digits that int() reads: str.isdigit() is true of a superscript two, which it does not.
_INDEX = re.compile(r"[0-9]{1,9}")
HOST_SIDE = Failure(kind="UNSUPPORTED", message="host-side reference row")

#: What host-side rows can do, as a box would say it.
CAPABILITIES = Capabilities(
    snapshot="none",
    delta_source="none",
    update_semantics="none",
    images="caption",
    speakers="native",
    time="native",
    provenance=True,
    full_context=True,
)


class HostRow(ABC):
    """Does samples like a box runner, from the sample itself."""

    def __init__(self, terms: Terms, max_sessions: int | None) -> None:
        self._terms = terms
        self._max_sessions = max_sessions

    @abstractmethod
    def find(self, sample: Sample, place: int, question: Question) -> RetrievalRecord:
        """What stands for the retrieved memories."""

    @abstractmethod
    def reply(self, view: QuestionView, found: RetrievalRecord) -> Answer | str:
        """The answer."""

    def run(self, sample: Sample, place: int, next_attempt: OpenAttempt) -> Attempt:
        """Account for all units of a sample."""
        steps = steps_of(sample, self._max_sessions)
        with next_attempt() as attempt:
            self._terms.tell(started(self._terms.row, sample, attempt, steps))
            for step in steps:
                if isinstance(step, SessionStep):
                    self._session(sample, step, attempt)
                else:
                    self._question(sample, place, step, attempt)
            attempt.about(hello={"capabilities": to_wire(CAPABILITIES)}, ended="finished")
        return attempt

    def _session(self, sample: Sample, step: SessionStep, attempt: Attempt) -> None:
        attempt.session(
            SessionRecord(
                sample_id=sample.id,
                session_id=step.session.id,
                position=step.position,
                status=Status.LEFT_OUT if step.cut else Status.UNSUPPORTED,
                failure=None if step.cut else HOST_SIDE,
                attempt=attempt.number,
            )
        )

    def _question(self, sample: Sample, place: int, step: QuestionStep, attempt: Attempt) -> None:
        unit = Unit()
        asked: dict[str, Any] = {"status": Status.LEFT_OUT}
        if not step.cut:
            asked = self._asked(sample, place, step, unit, attempt)
        attempt.question(
            QARecord(
                sample_id=sample.id,
                checkpoint_id=step.checkpoint.id,
                session_id=step.session.id,
                question_id=step.question.id,
                position=step.position,
                attempt=attempt.number,
                **unit.measured(),
                **asked,
            )
        )
        self._terms.tell(
            events.QuestionDone(
                self._terms.row,
                sample.id,
                step.question.id,
                step.position,
                asked["status"],
                unit.ops,
                unit.ms,
            )
        )

    def _asked(
        self, sample: Sample, place: int, step: QuestionStep, unit: Unit, attempt: Attempt
    ) -> dict[str, Any]:
        blinder = Blinder(sample, place, "caption")
        query = blinder.query(step.question, step.session)
        view = QuestionView(query.text, query.time, step.question.choices)
        found = self.find(sample, place, step.question)
        asked: dict[str, Any] = {
            "question": step.question.text,
            "top_k": self._terms.top_k,
            "retrieved": tuple(to_wire(item) for item in found.items),
        }
        try:
            answer = answered(self.reply, view, found, unit)
        except ModelFailure as error:
            return {**asked, "status": Status.FAILED_ANSWER, "failure": failure_of(error, attempt)}
        return {
            **asked,
            "status": Status.OK,
            "answer": answer.text,
            "answer_from": answer.item_rank,
        }


class Oracle(HostRow):
    """The gold evidence as context, whole, for the same answerer as every row."""

    def find(self, sample: Sample, place: int, question: Question) -> RetrievalRecord:
        """The texts that a question's resolved evidence names, the newest first.

        Evidence for a changed fact names the old value and the new one. An oracle knows which is
        which: of two that fit a question alike the answerer takes the first, so that is the new.
        """
        items = [
            item
            for evidence in question.evidence
            if evidence.state is EvidenceState.RESOLVED
            for item in _evidence_items(sample, place, evidence)
        ]
        unique = {(item.memory_id, item.text): item for item in items}
        when = {session.id: session.position for session in sample.sessions}
        newest_first = sorted(unique.values(), key=lambda item: _moment(item, when), reverse=True)
        return RetrievalRecord(tuple(newest_first))

    def reply(self, view: QuestionView, found: RetrievalRecord) -> Answer | str:
        """What the run's answerer says."""
        return self._terms.answer(view, found)


class ConstantFloor(HostRow):
    """Always the same answer."""

    def __init__(self, terms: Terms, max_sessions: int | None, constant: str) -> None:
        super().__init__(terms, max_sessions)
        self._constant = constant

    def find(self, sample: Sample, place: int, question: Question) -> RetrievalRecord:
        """Nothing."""
        return RetrievalRecord()

    def reply(self, view: QuestionView, found: RetrievalRecord) -> Answer | str:
        """The constant."""
        return self._constant


def _moment(item: RetrievedItem, when: dict[str, int]) -> tuple[int, int]:
    """Session and turn of an item's last source; before everything where it names none."""
    moments = [(-1, -1)]
    for source in item.sources:
        session, colon, index = source.rpartition(":")
        if colon and session in when and _INDEX.fullmatch(index):
            moments.append((when[session], int(index)))
        else:
            moments.append((when.get(source, -1), -1))
    return max(moments)


def _evidence_items(sample: Sample, place: int, evidence: Evidence) -> Iterator[RetrievedItem]:
    """The texts behind one piece of evidence, each with the turns or sessions it stands in."""
    if evidence.kind is EvidenceKind.POINT:
        for point in sample.points:
            if point.id == evidence.id:
                sources = _places(sample, point.source_ids) or (point.session_id,)
                yield RetrievedItem(point.id, point.text, sources=sources)
    elif evidence.kind is EvidenceKind.TEXT:
        yield RetrievedItem(evidence.id, evidence.id)
    elif evidence.kind is EvidenceKind.IMAGE:
        yield from _image_items(sample, evidence.id)
    else:
        yield from _turn_items(sample, place, evidence)


def _turn_items(sample: Sample, place: int, evidence: Evidence) -> Iterator[RetrievedItem]:
    """Turns by their own id or by their session's, written as a plain memory would."""
    blinder = Blinder(sample, place, "caption")
    by_session = evidence.kind is EvidenceKind.SESSION
    for session in sample.sessions:
        if by_session and session.id != evidence.id:
            continue
        cited = {t.index for t in session.turns if by_session or evidence.id in t.source_ids}
        if not cited:
            continue
        for turn in blinder.turns(session):
            if turn.turn_index in cited:
                name = f"{session.id}:{turn.turn_index}"
                yield RetrievedItem(name, turn_text(turn), sources=(name,))


def _image_items(sample: Sample, image_id: str) -> Iterator[RetrievedItem]:
    for session in sample.sessions:
        for turn in session.turns:
            for image in turn.images:
                if image.image_id == image_id and image.caption:
                    sources = (f"{session.id}:{turn.index}",)
                    yield RetrievedItem(image_id, image.caption, sources=sources)


def _places(sample: Sample, source_ids: Iterable[str]) -> tuple[str, ...]:
    """``SESSION:INDEX`` of the turns that carry any of these ids."""
    wanted = set(source_ids)
    return tuple(
        f"{session.id}:{turn.index}"
        for session in sample.sessions
        for turn in session.turns
        if wanted & set(turn.source_ids)
    )


#: Only this many gold answers are tried as the constant: the most frequent ones.
MAX_CANDIDATES = 200

#: Whether an answer to a question is right, by the run's judge.
Grade = Callable[[Sample, Question, str], bool]


@dataclass(frozen=True)
class Constant:
    """The best constant answer: ``right`` of ``questions``, out of ``candidates`` tried."""

    text: str
    right: int
    questions: int
    candidates: int

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, as in the manifest."""
        return asdict(self)


def best_constant(
    samples: Callable[[], Iterator[Sample]], max_sessions: int | None, grade: Grade
) -> Constant:
    """Find the one answer that is right most often, among the refusal and the gold answers.

    Reads the data twice: for the candidates (the :data:`MAX_CANDIDATES` most frequent gold answers
    within the answerer's length, rubrics apart), then to grade each on every question. Of equally
    good ones the refusal, then the most frequent, then the first. It is chosen with the gold in
    hand, so it is a floor that no honest row may be proud to reach.
    """
    counts: dict[str, int] = {}
    for question in _questions(samples(), max_sessions):
        for text in _gold_answers(question[1]):
            if 0 < len(tokens(text)) <= MAX_TOKENS:
                counts[text] = counts.get(text, 0) + 1
    ranked = sorted(counts, key=lambda text: -counts[text])
    candidates = [NOT_MENTIONED, *(t for t in ranked if t != NOT_MENTIONED)][: 1 + MAX_CANDIDATES]
    right = dict.fromkeys(candidates, 0)
    total = 0
    for sample, asked in _questions(samples(), max_sessions):
        total += 1
        for text in candidates:
            right[text] += grade(sample, asked, text)
    best = max(candidates, key=lambda text: right[text])
    return Constant(best, right[best], total, len(candidates))


def _questions(
    samples: Iterator[Sample], max_sessions: int | None
) -> Iterator[tuple[Sample, Question]]:
    for sample in samples:
        for step in steps_of(sample, max_sessions):
            if isinstance(step, QuestionStep) and not step.cut:
                yield sample, step.question


def _gold_answers(question: Question) -> tuple[str, ...]:
    if question.answer_kind is AnswerKind.RUBRIC:
        return ()
    if question.answer_kind is AnswerKind.CHOICE:
        return question.answers[:1]
    return question.answers
