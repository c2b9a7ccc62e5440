"""From a sample to what a box may see of it, and back.

A box gets opaque ordinals for ids (``s0001``, ``S03``, ``S03:7``), and of each turn and question
only the fields that a reader of the conversation has. Nothing here reads gold, evidence, answers,
categories, labels or the data set's own ids, except to map a memory's sources back.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, overload

from harness.adapter.records import Attachment, NormalizedTurn, Query
from harness.records import JSONObject
from harness.samples import Image, Question, Sample, Session

ImageMode = Literal["caption", "file", "both"]

#: A session's turns travel in one frame unless they are larger than this (bytes as written).
MAX_BATCH_BYTES = 48 * 1024 * 1024

#: The most bytes that one character may take in a frame: a control character as ``\\u001f``.
_BYTES_PER_CHARACTER = 6

#: Before a source that a system named and that the sample does not have.
UNKNOWN = "?"


def sample_ordinal(place: int) -> str:
    """The opaque id of the data set's sample number ``place``, counted from 0: ``s0001``."""
    return f"s{place + 1:04d}"


def session_ordinal(place: int) -> str:
    """The opaque id of a sample's session number ``place``, counted from 0: ``S00``."""
    return f"S{place:02d}"


class Blinder:
    """One sample, seen from a box."""

    def __init__(self, sample: Sample, place: int, images: ImageMode) -> None:
        self.sample_id = sample_ordinal(place)
        self._images = images
        self._sessions = {session_ordinal(i): s for i, s in enumerate(sample.sessions)}
        self._ordinals = {s.id: ordinal for ordinal, s in self._sessions.items()}
        self._indices = {
            ordinal: {str(turn.index) for turn in s.turns} for ordinal, s in self._sessions.items()
        }

    def session_id(self, session: Session) -> str:
        """The ordinal that stands for a session."""
        return self._ordinals[session.id]

    def turns(self, session: Session) -> Iterator[NormalizedTurn]:
        """The turns to send, in order; empty ones are left out and keep their index."""
        for turn in session.turns:
            if turn.is_empty:
                continue
            yield NormalizedTurn(
                sample_id=self.sample_id,
                session_id=self.session_id(session),
                turn_index=turn.index,
                role=turn.role,
                text=_clean(turn.text),
                name=_clean(turn.name),
                timestamp=_clean(turn.timestamp),
                time=_clean(turn.time),
                attachments=tuple(self._attachment(image) for image in turn.images),
            )

    def batches(self, session: Session) -> Iterator[list[NormalizedTurn]]:
        """The turns to send in as few frames as the limit on a frame allows; none is empty."""
        batch: list[NormalizedTurn] = []
        size = 0
        for turn in self.turns(session):
            more = _size(turn)
            if batch and size + more > MAX_BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(turn)
            size += more
        if batch:
            yield batch

    def query(self, question: Question, session: Session) -> Query:
        """A question as it is asked after ``session``: its own date, else the session's last."""
        return Query(
            text=_clean(question.text),
            time=_clean(question.date or _last_time(session)),
            attachments=tuple(self._attachment(image) for image in question.images),
        )

    def lacking(self, images: tuple[Image, ...]) -> tuple[str, ...]:
        """Why some images are not given as the run asks: each reason once, sorted."""
        reasons = set()
        for image in images:
            if self._images == "file" and image.path is None:
                reasons.add("image_without_file")
            if self._images == "caption" and not image.caption:
                reasons.add("image_without_caption")
            if self._images == "both" and image.path is None and not image.caption:
                reasons.add("image_without_file_and_caption")
        return tuple(sorted(reasons))

    def reveal(self, source: str) -> str:
        """Map a source back: ``S03`` to the session's id, ``S03:7`` to that id and the index.

        What the sample does not have is marked with ``?``, so that it cannot be taken for an id.
        """
        ordinal, colon, index = source.partition(":")
        session = self._sessions.get(ordinal)
        if session is None:
            return UNKNOWN + source
        if not colon:
            return session.id
        if index not in self._indices[ordinal]:
            return UNKNOWN + source
        return f"{session.id}:{index}"

    def reveal_record(self, record: JSONObject) -> JSONObject:
        """A wire record with the data set's ids in ``sources`` and ``session_id``."""
        shown = dict(record)
        if "sources" in shown:
            shown["sources"] = [self.reveal(source) for source in shown["sources"]]
        if shown.get("session_id") is not None:
            shown["session_id"] = self.reveal(shown["session_id"])
        return shown

    def _attachment(self, image: Image) -> Attachment:
        """One image as the run gives images. Its file's name and path stay on the host."""
        given = Attachment(image_id=_clean(image.shown_id))
        if self._images in ("caption", "both"):
            given = replace(given, caption=_clean(image.caption))
        if self._images in ("file", "both") and image.path is not None:
            data = base64.b64encode(image.path.read_bytes()).decode("ascii")
            given = replace(given, media_type=image.media_type, data=data)
        return given


def _last_time(session: Session) -> str | None:
    """ISO 8601 time of a session's last dated turn, else the session's own date."""
    dated = [turn.time for turn in session.turns if turn.time is not None]
    return dated[-1] if dated else session.date


def _size(turn: NormalizedTurn) -> int:
    """An upper bound of the bytes that a turn takes in a frame."""
    texts = [turn.text, turn.name, turn.timestamp, *(image.caption for image in turn.attachments)]
    written = sum(len(text) * _BYTES_PER_CHARACTER for text in texts if text)
    return 512 + written + sum(len(image.data or "") for image in turn.attachments)


@overload
def _clean(text: str) -> str: ...
@overload
def _clean(text: str | None) -> str | None: ...
def _clean(text: str | None) -> str | None:
    """Without NUL characters: stores written in C would cut the text there."""
    return text.replace("\0", "") if text is not None else None
