"""Checkpoints and questions: when they are asked, what answers them, what is never asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.loaders.evidence import EvidenceIndex, EvidenceReader
from harness.loaders.fields import (
    extras,
    json_type,
    read_key_id,
    read_label,
    read_list,
    read_object,
    read_soft_id,
    read_text,
    read_texts,
)
from harness.loaders.findings import At, Findings
from harness.loaders.images import ImageReader
from harness.loaders.keys import read_question_keys
from harness.loaders.times import read_time
from harness.samples import AnswerKind, Checkpoint, Question

_FIELDS = frozenset(
    {
        "question",
        "answer",
        "answer_kind",
        "choices",
        "question_type",
        "question_type_abbrev",
        "evidence",
        "attachments",
        "keys",
        "question_date",
        "question_id",
    }
)
_BLANK_ANSWER = "the answer is missing: null or blank is no answer, and never the word None"


@dataclass
class CheckpointReader:
    """Reads the checkpoints of one sample. ``positions`` maps its session ids to positions.

    ``sessions_whole`` is false when a session was refused, so that a missing one is no news.
    """

    findings: Findings
    index: EvidenceIndex
    images: ImageReader
    positions: dict[str, int]
    sessions_whole: bool = True
    _question_ids: set[str] = field(default_factory=set)

    def read(self, at: At, value: Any) -> tuple[Checkpoint, ...]:
        """The checkpoints that have at least one question to ask, in file order."""
        made: list[Checkpoint] = []
        first: dict[str, int] = {}
        for position, raw in enumerate(read_list(self.findings, at, value)):
            place = at.child(position)
            self.findings.counts["checkpoints"] += 1
            entry = read_object(self.findings, place, raw)
            if entry is None:
                continue
            what = f"checkpoint_id of the checkpoint at {position}"
            checkpoint_id = read_key_id(self.findings, place, entry.get("checkpoint_id"), what)
            if checkpoint_id and checkpoint_id in first:
                message = f"checkpoint id {checkpoint_id!r} stands at positions"
                self.findings.refuse(place, f"{message} {first[checkpoint_id]} and {position}")
            first.setdefault(checkpoint_id, position)
            checkpoint = self._checkpoint(place, entry, checkpoint_id)
            if checkpoint.questions:
                made.append(checkpoint)
            else:
                reason = "no question to ask"
                self.findings.leave_out("checkpoint", place, reason, gold=True)
        if not value:
            self.findings.warn("no checkpoints", at, "the sample has no checkpoints")
        return tuple(made)

    def _checkpoint(self, at: At, entry: dict[str, Any], checkpoint_id: str) -> Checkpoint:
        covered = self._covered(at.child("covered_sessions"), entry.get("covered_sessions"))
        known = [session for session in covered if session in self.positions]
        trigger = max(known, key=self.positions.__getitem__, default="")
        place = at.child("questions")
        reader = QuestionReader(
            self.findings,
            EvidenceReader(self.findings, self.index, self.positions.get(trigger, -1)),
            self.images,
            checkpoint_id,
            self._question_ids,
        )
        questions = []
        for position, raw in enumerate(read_list(self.findings, place, entry.get("questions"))):
            self.findings.counts["questions"] += 1
            value = read_object(self.findings, place.child(position), raw)
            if value is not None:
                question = reader.read(place.child(position), value, position)
                questions += [question] if question is not None else []
        return Checkpoint(checkpoint_id, trigger, tuple(questions), covered)

    def _covered(self, at: At, value: Any) -> tuple[str, ...]:
        """The covered sessions, each once, in the sample's order. A trigger, not a filter."""
        entries = read_list(self.findings, at, value, or_one=True)
        if not entries:
            self.findings.refuse(at, "no covered session, so its questions would never be asked")
        unknown = [e for e in entries if not (isinstance(e, str) and e in self.positions)]
        for entry in unknown if self.sessions_whole else ():
            shown = repr(entry) if isinstance(entry, str) else json_type(entry)
            message = f"session {shown} is not in the sample; its questions would never be asked"
            self.findings.refuse(at, message)
        if unknown or not entries:
            return ()
        ordered = sorted(set(entries), key=self.positions.__getitem__)
        if ordered != entries:
            message = "sessions repeated or out of order; read as a set"
            self.findings.warn("covered sessions", at, message)
        return tuple(ordered)


@dataclass
class QuestionReader:
    """Reads the questions of one checkpoint."""

    findings: Findings
    evidence: EvidenceReader
    images: ImageReader
    checkpoint_id: str
    taken: set[str]

    def read(self, at: At, entry: dict[str, Any], position: int) -> Question | None:
        """One question, or ``None`` if it cannot be asked (listed as left out)."""
        text = read_text(self.findings, at.child("question"), entry.get("question"))
        kind, answers = self._answer(at, entry)
        type_name = read_label(self.findings, at.child("question_type"), entry.get("question_type"))
        abbreviation = read_label(
            self.findings, at.child("question_type_abbrev"), entry.get("question_type_abbrev")
        )
        made = Question(
            id=self._id(at, entry, position),
            position=position,
            text=text or "",
            answer_kind=kind,
            answers=answers,
            choices=self._choices(at, entry, kind, answers),
            evidence=self.evidence.read(at.child("evidence"), entry.get("evidence")),
            keys=read_question_keys(self.findings, at.child("keys"), entry.get("keys")),
            images=self.images.read(
                at.child("attachments"), entry.get("attachments"), "question_attachments"
            ),
            type_id=abbreviation or type_name,
            type_name=type_name or abbreviation,
            date=self._date(at.child("question_date"), entry.get("question_date")),
            labels=extras(entry, _FIELDS),
        )
        if text is None or not text.strip():
            missing = "missing" if entry.get("question") is None else "blank"
            reason = f"the question is {missing}, so it cannot be asked"
            self.findings.leave_out("question", at, reason, gold=True)
            for n in range(len(made.images)):
                place = at.child("attachments", n)
                self.findings.leave_out("question attachment", place, "its question is left out")
            return None
        return made

    def _id(self, at: At, entry: dict[str, Any], position: int) -> str:
        given = read_soft_id(self.findings, at, entry.get("question_id"), "question_id")
        made = f"{self.checkpoint_id}:{position}"
        question_id = given or made
        if question_id in self.taken:
            message = f"question_id {question_id!r} is taken; called {made!r}"
            self.findings.warn("question id twice", at, message)
            question_id = made
        self.taken.add(question_id)
        return question_id

    def _answer(self, at: At, entry: dict[str, Any]) -> tuple[AnswerKind, tuple[str, ...]]:
        kind = self._kind(at, entry)
        place, raw = at.child("answer"), entry.get("answer")
        if isinstance(raw, list):
            answers = read_texts(self.findings, place, raw)
            if kind is None:
                message = "a list, kept as answers of which any one counts"
                self.findings.warn("answer is a list", place, message)
                kind = AnswerKind.VARIANTS
            elif kind is not AnswerKind.VARIANTS and len(raw) != 1:
                self.findings.refuse(place, f"a list, but answer_kind is {kind.value}")
        else:
            answers = self._single_answer(place, raw)
        if not answers and not (isinstance(raw, dict)):
            self.findings.refuse(place, _BLANK_ANSWER)
        return kind or AnswerKind.TEXT, answers

    def _single_answer(self, at: At, raw: Any) -> tuple[str, ...]:
        """A whole number is a usual way to write an answer; a boolean may stand for many words."""
        if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            return (str(raw),)
        text = read_text(self.findings, at, raw)
        return (text,) if text is not None and text.strip() else ()

    def _kind(self, at: At, entry: dict[str, Any]) -> AnswerKind | None:
        """The kind from explicit fields only; ``None`` if there is none of them."""
        given = entry.get("answer_kind")
        if given is not None:
            try:
                return AnswerKind(given)
            except ValueError:
                known = ", ".join(kind.value for kind in AnswerKind)
                message = f"unknown answer_kind {given!r}; known are {known}"
                self.findings.refuse(at.child("answer_kind"), message)
                return AnswerKind.TEXT
        if entry.get("choices") is not None:
            return AnswerKind.CHOICE
        if isinstance(entry.get("adversarial_answer"), str):
            return AnswerKind.REFUSAL
        if isinstance(entry.get("evaluation_criteria"), str):
            return AnswerKind.RUBRIC
        return None

    def _choices(
        self, at: At, entry: dict[str, Any], kind: AnswerKind, answers: tuple[str, ...]
    ) -> tuple[str, ...]:
        place, raw = at.child("choices"), entry.get("choices")
        if kind is not AnswerKind.CHOICE:
            if raw is not None:
                self.findings.refuse(place, f"choices, but answer_kind is {kind.value}")
            return ()
        choices = read_texts(self.findings, place, raw)
        if answers and answers[0] not in choices:
            self.findings.refuse(place, f"the answer {answers[0]!r} is none of the choices")
        if len(set(choices)) != len(choices):
            self.findings.refuse(place, "a choice stands twice")
        return choices

    def _date(self, at: At, value: Any) -> str | None:
        time = read_time(value)
        if time is not None and time.iso is None:
            self.findings.warn("time not read", at, f"{time.raw!r} is no time that can be read")
        return time.iso if time else None
