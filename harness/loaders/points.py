"""Gold points: kind, originals, importance, identity, and which of two places wins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from harness.loaders.fields import (
    extras,
    is_number,
    json_type,
    read_key_id,
    read_list,
    read_object,
    read_soft_id,
    read_text,
    read_texts,
)
from harness.loaders.findings import At, Findings
from harness.loaders.keys import read_point_keys
from harness.samples import GoldPoint, PointKind, Session

SOURCES = frozenset({"normal", "primary", "secondary", "system", "interference"})
_FIELDS = frozenset(
    {"memory_id", "memory_content", "is_update", "original_memories", "keys", "source_turns"}
)
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0", ""})


@dataclass
class PointReader:
    """Reads the gold points of one sample from its sessions and from the rows beside them."""

    findings: Findings
    sample_id: str
    sessions_whole: bool = True
    _made: dict[str, GoldPoint] = field(default_factory=dict)

    def read(
        self, sessions: list[tuple[Session, At]], own: dict[str, Any], rows: Any, rows_at: At
    ) -> tuple[GoldPoint, ...]:
        """All points that stand in a denominator, in order of their sessions.

        Args:
            sessions: the sessions and their places.
            own: for each session id the ``memory_points`` inside the session.
            rows: the list of ``{session_id, memory_points}`` beside the sessions.
            rows_at: its place.
        """
        if rows is None:
            self.findings.warn("no gold points", rows_at, "missing; the sample has no gold points")
        beside = self._beside(rows, rows_at, {session.id for session, _ in sessions})
        made: list[GoldPoint] = []
        for session, at in sessions:
            place = at.child("memory_points")
            inside = self._entries(place, own.get(session.id))
            others = beside.get(session.id, [])
            if inside and others:
                self._prefer_inside(session.id, inside, others)
                others = []
            for position, (point_at, entry) in enumerate(inside + others):
                point = self._point(point_at, entry, session.id, position)
                if point is not None:
                    made.append(point)
        return tuple(made)

    def _beside(
        self, rows: Any, at: At, known: set[str]
    ) -> dict[str, list[tuple[At, dict[str, Any]]]]:
        found: dict[str, list[tuple[At, dict[str, Any]]]] = {}
        for position, raw in enumerate(read_list(self.findings, at, rows)):
            place = at.child(position)
            row = read_object(self.findings, place, raw)
            if row is None:
                continue
            what = f"session_id of the gold points at {position}"
            session_id = read_key_id(self.findings, place, row.get("session_id"), what)
            entries = self._entries(place.child("memory_points"), row.get("memory_points"))
            if session_id and session_id not in known:
                if not self.sessions_whole:  # the reason is told already: a session was refused
                    continue
                for point_at, _ in entries:
                    reason = f"session {session_id!r} is not in the sample"
                    self.findings.leave_out("gold point", point_at, reason, gold=True)
                if not entries:
                    message = f"session {session_id!r} is not in the sample (it lists no points)"
                    self.findings.warn("unknown session", place, message)
                continue
            if session_id in found:
                message = f"session {session_id!r} stands here twice; its points are put together"
                self.findings.warn("session listed twice", place, message)
            found.setdefault(session_id, []).extend(entries)
        return found

    def _entries(self, at: At, value: Any) -> list[tuple[At, dict[str, Any]]]:
        made = []
        for position, raw in enumerate(read_list(self.findings, at, value)):
            self.findings.counts["gold_points"] += 1
            entry = read_object(self.findings, at.child(position), raw)
            if entry is not None:
                made.append((at.child(position), entry))
        return made

    def _prefer_inside(
        self,
        session_id: str,
        inside: list[tuple[At, dict[str, Any]]],
        others: list[tuple[At, dict[str, Any]]],
    ) -> None:
        mine, theirs = ([_identity(entry) for _, entry in side] for side in (inside, others))
        differ = [name for name, text in theirs if (name, text) not in mine]
        differ += [name for name, text in mine if (name, text) not in theirs]
        if differ:
            named = ", ".join(dict.fromkeys(differ))
            reason = f"session {session_id!r} has points of its own, which win; differing: {named}"
        else:
            reason = f"an identical repeat of the point inside session {session_id!r}"
        for at, _ in others:
            self.findings.leave_out("gold point", at, reason)

    def _point(
        self, at: At, entry: dict[str, Any], session_id: str, position: int
    ) -> GoldPoint | None:
        text = read_text(self.findings, at.child("memory_content"), entry.get("memory_content"))
        kind = self._kind(at, entry)
        originals = read_texts(
            self.findings,
            at.child("original_memories"),
            entry.get("original_memories"),
            or_one=True,
        )
        made = GoldPoint(
            id="",
            session_id=session_id,
            text=text or "",
            kind=kind,
            originals=originals,
            importance=self._importance(at.child("importance"), entry.get("importance")),
            keys=read_point_keys(self.findings, at.child("keys"), entry.get("keys"), kind),
            source_ids=read_texts(
                self.findings, at.child("source_turns"), entry.get("source_turns"), or_one=True
            ),
            labels=extras(entry, _FIELDS),
        )
        if text is None or not text.strip():
            reason = "memory_content is missing" if text is None else "memory_content is blank"
            self.findings.leave_out("gold point", at, reason, gold=True)
            return None
        return self._identified(at, entry, made, position)

    def _identified(
        self, at: At, entry: dict[str, Any], made: GoldPoint, position: int
    ) -> GoldPoint | None:
        raw = entry.get("memory_id")
        if isinstance(raw, (bool, list, dict)):
            self.findings.refuse(at, f"memory_id is {json_type(raw)}, expected text")
            return None
        point_id = read_soft_id(self.findings, at, raw, "memory_id")
        if point_id is None:
            point_id = f"{self.sample_id}/{made.session_id}/{position}"
            message = f"memory_id is missing; called {point_id!r}, evidence cannot cite it"
            self.findings.warn("point without id", at, message)
            point = self._made[point_id] = _with_id(made, point_id, citable=False)
            self._check_update(at, point)
            return point
        first = self._made.get(point_id)
        if first is None:
            point = _with_id(made, point_id, citable=True)
            self._made[point_id] = point
            self._check_update(at, point)
            return point
        if first.text != made.text:
            message = (
                f"memory_id {point_id!r} has two texts, in session {first.session_id!r} "
                f"({first.text!r}) and in session {made.session_id!r} ({made.text!r})"
            )
            self.findings.refuse(at, message)
            return None
        reason = f"an identical repeat of {point_id!r} of session {first.session_id!r}"
        self.findings.leave_out("gold point", at, reason)
        return None

    def _check_update(self, at: At, point: GoldPoint) -> None:
        if point.kind is PointKind.UPDATE and not point.originals:
            reason = "an update without original_memories: nothing to compare with; recall only"
            self.findings.leave_out("update handling", at, reason)

    def _kind(self, at: At, entry: dict[str, Any]) -> PointKind:
        update = self._is_update(at.child("is_update"), entry.get("is_update"))
        raw = entry.get("memory_source")
        source = raw.strip().casefold() if isinstance(raw, str) else ""
        if raw is not None and source not in SOURCES and raw != "":
            shown = repr(raw) if isinstance(raw, str) else json_type(raw)
            message = f"unknown memory_source {shown}; a normal point"
            self.findings.warn("unknown memory_source", at, message)
        if source == "interference":
            if update:
                message = "interference and update at once; interference wins"
                self.findings.warn("interference update", at, message)
            return PointKind.INTERFERENCE
        return PointKind.UPDATE if update else PointKind.NEW

    def _is_update(self, at: At, value: Any) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        if is_number(value) and value in (0, 1):
            return bool(value)
        if isinstance(value, str):
            word = value.strip().casefold()
            if word in _TRUE or word in _FALSE:
                return word in _TRUE
        shown = repr(value) if isinstance(value, (str, int, float)) else json_type(value)
        self.findings.refuse(at, f"{shown} is neither true nor false")
        return False

    def _importance(self, at: At, value: Any) -> float | None:
        number = _number(value)
        if number is not None and 0 <= number <= 1:
            return number
        if value is not None and value != "":
            shown = repr(value) if isinstance(value, (str, int, float)) else json_type(value)
            message = f"{shown[:40]} is no number from 0 to 1; the point has no importance"
            self.findings.warn("importance", at, message)
        return None


def count_points(rows: Any) -> int:
    """How many points a list of ``{session_id, memory_points}`` holds, well-formed or not."""
    if not isinstance(rows, list):
        return 0
    lists = (row.get("memory_points") for row in rows if isinstance(row, dict))
    return sum(len(points) for points in lists if isinstance(points, list))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _identity(entry: dict[str, Any]) -> tuple[str, str]:
    return str(entry.get("memory_id")), str(entry.get("memory_content"))


def _with_id(point: GoldPoint, point_id: str, *, citable: bool) -> GoldPoint:
    return replace(point, id=point_id, citable=citable)
