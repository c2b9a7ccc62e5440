"""Gold evidence of questions: what it names, whether that exists, and whether it exists yet.

Only resolved evidence stands in a denominator. Ids are matched whole. An entry that pairs an id
with a text is one piece of evidence, named by its id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.loaders.fields import is_number, json_type, number_text, read_list
from harness.loaders.findings import At, Findings
from harness.samples import (
    Evidence,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    PointKind,
    Session,
)

_ID_FIELDS = (
    ("memory_id", EvidenceKind.POINT),
    ("image_id", EvidenceKind.IMAGE),
    ("turn_id", EvidenceKind.TURN),
    ("dia_id", EvidenceKind.TURN),
    ("memory_content", EvidenceKind.TEXT),
    ("session_id", EvidenceKind.SESSION),
)
_KINDS = (EvidenceKind.POINT, EvidenceKind.IMAGE, EvidenceKind.TURN, EvidenceKind.SESSION)


@dataclass(frozen=True)
class _Named:
    """What one id names: the position of the first session that has it, and the point if one."""

    position: int
    point: GoldPoint | None = None


class EvidenceIndex:
    """Everything in one sample that evidence can name, with the first session that holds it."""

    def __init__(self, sessions: tuple[Session, ...], points: tuple[GoldPoint, ...]) -> None:
        self._named: dict[EvidenceKind, dict[str, _Named]] = {kind: {} for kind in EvidenceKind}
        positions = {session.id: session.position for session in sessions}
        for session in sessions:
            here = _Named(session.position)
            self._named[EvidenceKind.SESSION].setdefault(session.id, here)
            for turn in session.turns:
                for source_id in turn.source_ids:
                    self._named[EvidenceKind.TURN].setdefault(source_id, here)
                for image in turn.images:
                    if image.image_id is not None:
                        self._named[EvidenceKind.IMAGE].setdefault(image.image_id, here)
        for point in points:
            named = _Named(positions[point.session_id], point)
            if point.citable:
                self._named[EvidenceKind.POINT].setdefault(point.id, named)
                self._named[EvidenceKind.TEXT].setdefault(point.text, named)

    def get(self, kind: EvidenceKind, name: str) -> _Named | None:
        """What an id of this kind names (for TEXT: the point with exactly this text)."""
        return self._named[kind].get(name)

    def any_kind(self, name: str) -> EvidenceKind | None:
        """The first kind under which a bare text is an id."""
        return next((kind for kind in _KINDS if self.get(kind, name) is not None), None)


@dataclass
class EvidenceReader:
    """Reads the evidence of the questions of one checkpoint, whose trigger is at ``trigger``."""

    findings: Findings
    index: EvidenceIndex
    trigger: int

    def read(self, at: At, value: Any) -> tuple[Evidence, ...]:
        """The evidence of one question, each piece once."""
        made: dict[tuple[EvidenceKind, str], Evidence] = {}
        for position, entry in enumerate(read_list(self.findings, at, value, or_one=True)):
            place = at.child(position) if isinstance(value, list) else at
            for kind, name in self._names(place, entry):
                piece = self._resolve(place, kind, name)
                if (piece.kind, piece.id) in made:
                    message = f"{name!r} is listed twice; it counts once"
                    self.findings.warn("evidence twice", place, message)
                    continue
                made[piece.kind, piece.id] = piece
                self._report(place, piece)
        return tuple(made.values())

    def _names(self, at: At, entry: Any) -> list[tuple[EvidenceKind, str]]:
        if isinstance(entry, dict):
            return self._named_fields(at, entry)
        if isinstance(entry, str) and entry.strip():
            kind = self.index.any_kind(entry)
            read_as = "text" if kind is None else f"the id of a {kind.value}"
            self.findings.warn("evidence is text", at, f"bare text {entry!r}, read as {read_as}")
            return [(kind or EvidenceKind.TEXT, entry)]
        if is_number(entry):
            return [(EvidenceKind.TEXT, number_text(entry))]
        what = "blank text" if isinstance(entry, str) else json_type(entry)
        self.findings.leave_out("evidence", at, f"{what}, names nothing")
        return []

    def _named_fields(self, at: At, entry: dict[str, Any]) -> list[tuple[EvidenceKind, str]]:
        found: list[tuple[EvidenceKind, str]] = []
        for key, kind in _ID_FIELDS:
            value = entry.get(key)
            if value is not None and is_number(value):
                value = number_text(value)
            if isinstance(value, str) and value.strip():
                found.append((kind, value))
            elif value is not None and value != "":
                message = f"{key} is {json_type(value)}, expected text"
                self.findings.warn("evidence id", at, message)
        if not found:
            shown = json.dumps(entry, ensure_ascii=False, sort_keys=True)
            return [(EvidenceKind.TEXT, shown)]
        self._check_pair(at, dict(found))
        if {EvidenceKind.POINT, EvidenceKind.IMAGE} <= dict(found).keys():
            self.findings.warn("evidence pair", at, "names a memory and an image; both count")
            return found[:2]
        return found[:1]

    def _check_pair(self, at: At, fields: dict[EvidenceKind, str]) -> None:
        point_id, text = fields.get(EvidenceKind.POINT), fields.get(EvidenceKind.TEXT)
        if point_id is None or text is None:
            return
        named = self.index.get(EvidenceKind.POINT, point_id)
        if named is not None and named.point is not None and named.point.text != text:
            message = f"memory_content differs from the text of {point_id!r}; the id is used"
            self.findings.warn("evidence pair", at, message)

    def _resolve(self, at: At, kind: EvidenceKind, name: str) -> Evidence:
        named = self.index.get(kind, name)
        if named is None:
            return Evidence(kind, name, EvidenceState.UNRESOLVED)
        if kind is EvidenceKind.TEXT and named.point is not None:
            message = f"by its text, which is exactly that of point {named.point.id!r}"
            self.findings.warn("evidence by text", at, message)
            kind, name = EvidenceKind.POINT, named.point.id
        if named.point is not None and named.point.kind is PointKind.INTERFERENCE:
            message = f"point {named.point.id!r} is interference; kept"
            self.findings.warn("interference evidence", at, message)
        late = named.position > self.trigger
        return Evidence(kind, name, EvidenceState.FUTURE if late else EvidenceState.RESOLVED)

    def _report(self, at: At, piece: Evidence) -> None:
        named = f"{piece.kind.value} {piece.id!r}"
        if piece.state is EvidenceState.UNRESOLVED:
            self.findings.leave_out("evidence", at, f"unresolved: no {named} in the sample")
        elif piece.state is EvidenceState.FUTURE:
            reason = f"future: {named} is of a session after the questions are asked"
            self.findings.leave_out("evidence", at, reason)
