"""Normalised data: what every loader returns and everything else reads.

Sample -> sessions -> turns; gold points; checkpoints -> questions. Frozen, plain, and complete:
what a data set says beyond these fields stands in ``labels``. A data set is a stream of samples
(:class:`Dataset`), never a list of them: 500 samples of 50 sessions must not be in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class PointKind(StrEnum):
    """What a gold point asks of a memory system."""

    NEW = "new"
    UPDATE = "update"
    INTERFERENCE = "interference"


class AnswerKind(StrEnum):
    """How a question's gold answer is to be read."""

    TEXT = "text"
    VARIANTS = "variants"  # any one of ``texts`` counts
    RUBRIC = "rubric"  # a description of a good answer, not an answer
    REFUSAL = "refusal"  # the right answer is that it was not mentioned
    CHOICE = "choice"  # ``texts[0]`` is the right one of ``choices``


class EvidenceKind(StrEnum):
    """What an evidence id names."""

    POINT = "point"
    TURN = "turn"
    SESSION = "session"
    IMAGE = "image"
    TEXT = "text"  # a quotation that matched no id


class EvidenceState(StrEnum):
    """Whether a system can have the evidence when the question is asked."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"  # names nothing that exists
    FUTURE = "future"  # of a session after the checkpoint's trigger


@dataclass(frozen=True)
class Key:
    """A string that decides: any one of ``variants`` must be found, at token borders.

    ``not_before`` and ``not_after`` are texts that, standing directly before or after a match,
    make it not count ("not" before "allergic").
    """

    variants: tuple[str, ...]
    not_before: tuple[str, ...] = ()
    not_after: tuple[str, ...] = ()


@dataclass(frozen=True)
class PointKeys:
    """Keys of a gold point: all of ``must`` state it; for an update, ``gone`` is the old value.

    For an interference point ``must`` is what may not be in the store.
    """

    must: tuple[Key, ...]
    gone: tuple[Key, ...] = ()


@dataclass(frozen=True)
class QuestionKeys:
    """Answer keys: correct = all keys of one alternative and none of ``forbidden``."""

    alternatives: tuple[tuple[Key, ...], ...]
    forbidden: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Image:
    """An image of a turn or question. ``path`` is there when the file exists and is an image.

    ``shown_id`` is the id if the data set shows ids to the reader, else absent.
    """

    caption: str | None = None
    image_id: str | None = None
    shown_id: str | None = None
    path: Path | None = None
    media_type: str | None = None
    type: str = "image"


@dataclass(frozen=True)
class Turn:
    """``index`` counts from 0 within the session and includes empty turns, which are not sent.

    ``timestamp`` is the raw text, ``time`` the same as ISO 8601 or absent; ``source_ids`` are the
    data set's own ids of this turn (evidence cites them).
    """

    index: int
    role: str
    text: str
    name: str | None = None
    timestamp: str | None = None
    time: str | None = None
    images: tuple[Image, ...] = ()
    source_ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to send: no text and no image."""
        return not self.text.strip() and not self.images


@dataclass(frozen=True)
class Session:
    """``date`` is the ISO 8601 time of its first dated turn, or the session's own date."""

    id: str
    position: int
    turns: tuple[Turn, ...]
    date: str | None = None
    labels: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldPoint:
    """One fact that a system should hold (or, for interference, should not) after a session.

    ``originals`` are the texts that an update replaces; ``source_ids`` the turns it was drawn from.
    ``citable`` is false for a made-up id. ``in_update_handling`` is false for an update that names
    no original: it counts in recall and not in update handling.
    """

    id: str
    session_id: str
    text: str
    kind: PointKind
    originals: tuple[str, ...] = ()
    importance: float | None = None
    keys: PointKeys | None = None
    source_ids: tuple[str, ...] = ()
    citable: bool = True
    labels: dict[str, Any] = field(default_factory=dict)

    @property
    def in_update_handling(self) -> bool:
        """An update with something to compare with."""
        return self.kind is PointKind.UPDATE and bool(self.originals)


@dataclass(frozen=True)
class Evidence:
    """One piece of gold evidence of a question."""

    kind: EvidenceKind
    id: str
    state: EvidenceState = EvidenceState.RESOLVED


@dataclass(frozen=True)
class Question:
    """``position`` counts from 0 within the checkpoint; records are keyed by it, never by text."""

    id: str
    position: int
    text: str
    answer_kind: AnswerKind
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    keys: QuestionKeys | None = None
    images: tuple[Image, ...] = ()
    type_id: str | None = None
    type_name: str | None = None
    date: str | None = None
    labels: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """Questions asked once, right after ``trigger_session`` ends, all before it in memory."""

    id: str
    trigger_session: str
    questions: tuple[Question, ...]
    covered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One conversation history with its gold."""

    id: str
    dataset: str
    sessions: tuple[Session, ...]
    points: tuple[GoldPoint, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    uuid: str | None = None
    labels: dict[str, Any] = field(default_factory=dict)

    def points_of(self, session_id: str) -> tuple[GoldPoint, ...]:
        """The gold points of one session, in file order."""
        return tuple(point for point in self.points if point.session_id == session_id)

    def checkpoints_after(self, session_id: str) -> tuple[Checkpoint, ...]:
        """The checkpoints that this session's end triggers, in file order."""
        return tuple(cp for cp in self.checkpoints if cp.trigger_session == session_id)


@dataclass(frozen=True)
class LeftOut:
    """Something that was loaded and is in no denominator, with the reason."""

    what: str  # "gold point", "evidence", "checkpoint", "turn", "attachment", "session"
    where: str
    reason: str


@dataclass(frozen=True)
class Balance:
    """The counts of a load, and all that it warned about or left out.

    A loader proves that every count equals what is in a denominator plus what is left out.
    ``attachments`` are those of turns; those of questions are counted apart.
    """

    samples: int = 0
    sessions: int = 0
    turns: int = 0
    attachments: int = 0
    question_attachments: int = 0
    gold_points: int = 0
    checkpoints: int = 0
    questions: int = 0
    warnings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Dataset(Protocol):
    """A validated data set: its balance is known, its samples are read one at a time.

    ``sha256`` is the hash of the bytes of its files (for several: of their names and hashes),
    ``content_sha256`` that of the parsed, normalised samples.
    """

    @property
    def name(self) -> str:
        """A short name for tables; never sent to a box."""

    @property
    def format(self) -> str:
        """The id of the format: ``domain_a_v2``, ``worldmemarena``, ..."""

    @property
    def balance(self) -> Balance:
        """Counts, warnings and what was left out."""

    @property
    def sha256(self) -> str:
        """Hash of the bytes."""

    @property
    def content_sha256(self) -> str:
        """Hash of the parsed content."""

    @property
    def sample_ids(self) -> tuple[str, ...]:
        """The ids in file order."""

    def sample(self, sample_id: str) -> Sample:
        """Read one sample from disk."""

    def __iter__(self) -> Iterator[Sample]:
        """All samples in file order, one in memory at a time."""
