"""Sessions and turns. Empty turns keep their index; unknown roles are refused by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.loaders.fields import (
    extras,
    json_type,
    read_key_id,
    read_label,
    read_list,
    read_object,
    read_soft_id,
    read_text,
)
from harness.loaders.findings import At, Findings
from harness.loaders.images import ImageReader
from harness.loaders.times import Time, read_time
from harness.samples import Session, Turn

ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "gpt": "assistant",
    "agent": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_SESSION_FIELDS = frozenset({"_v2_session_id", "session_id", "dialogue", "memory_points"})
_SESSION_DATES = ("date", "session_date", "date_time", "timestamp", "start_time")
_TURN_IDS = ("turn_id", "dia_id")


@dataclass
class Clock:
    """Notices when times go back within one sample; the order of the file stays.

    Only times of one notation are compared with each other.
    """

    findings: Findings
    warned: bool = False

    def __post_init__(self) -> None:
        self._last: dict[str, Time] = {}

    def see(self, at: At, time: Time) -> None:
        """Take the next time in file order; one warning a sample."""
        last = self._last.get(time.notation)
        if last is not None and time.is_before(last) and not self.warned:
            self.warned = True
            message = f"{time.raw!r} is before {last.raw!r}: times go back; file order is kept"
            self.findings.warn("times go back", at, message)
        if time.iso is not None:
            self._last[time.notation] = time


@dataclass
class SessionReader:
    """Reads the sessions of one sample."""

    findings: Findings
    images: ImageReader

    def __post_init__(self) -> None:
        self._clock = Clock(self.findings)

    def read(self, at: At, value: Any) -> list[tuple[Session, At]]:
        """All sessions with an id, in file order, each with its place (for its gold points)."""
        if not isinstance(value, list) or not value:
            reason = (
                "there are no sessions" if not value else f"{json_type(value)}, expected a list"
            )
            self.findings.refuse(at, reason)
            return []
        made: list[tuple[Session, At]] = []
        first: dict[str, int] = {}
        for position, raw in enumerate(value):
            place = at.child(position)
            self.findings.counts["sessions"] += 1
            entry = read_object(self.findings, place, raw)
            if entry is None:
                continue
            session = self._session(place, entry, position)
            if session.id and session.id in first:
                message = f"session id {session.id!r} stands at positions {first[session.id]}"
                self.findings.refuse(place, f"{message} and {position}")
            elif session.id:
                first[session.id] = position
                made.append((session, place))
        return made

    def _session(self, at: At, entry: dict[str, Any], position: int) -> Session:
        key = "_v2_session_id" if "_v2_session_id" in entry else "session_id"
        session_id = read_key_id(
            self.findings, at, entry.get(key), f"_v2_session_id of the session at {position}"
        )
        own = self._own_date(at, entry)
        turns = tuple(self._turns(at.child("dialogue"), entry))
        dated = next((turn.time for turn in turns if turn.time is not None), None)
        return Session(
            id=session_id,
            position=position,
            turns=turns,
            date=dated or own,
            labels=extras(entry, _SESSION_FIELDS),
        )

    def _own_date(self, at: At, entry: dict[str, Any]) -> str | None:
        for key in _SESSION_DATES:
            time = self._time(at.child(key), entry.get(key))
            if time is not None and time.iso is not None:
                return time.iso
        return None

    def _turns(self, at: At, entry: dict[str, Any]) -> list[Turn]:
        raw = entry.get("dialogue")
        if raw is None:
            self.findings.warn(
                "no dialogue", at, "missing; the session has no turns and still ends"
            )
        made = []
        for index, value in enumerate(read_list(self.findings, at, raw)):
            self.findings.counts["turns"] += 1
            place = at.child(index)
            if not isinstance(value, dict):
                message = f"position {index} is {json_type(value)}, expected an object"
                self.findings.refuse(place, message)
                continue
            made.append(self._turn(place, value, index))
        return made

    def _turn(self, at: At, entry: dict[str, Any], index: int) -> Turn:
        role = self._role(at.child("role"), entry.get("role"))
        text = self._content(at.child("content"), entry.get("content")) or ""
        time = self._time(at.child("timestamp"), entry.get("timestamp"))
        turn = Turn(
            index=index,
            role=role,
            text=text,
            name=read_label(self.findings, at.child("name"), entry.get("name")),
            timestamp=time.raw if time else None,
            time=time.iso if time else None,
            images=self.images.read(
                at.child("attachments"), entry.get("attachments"), "attachments"
            ),
            source_ids=self._source_ids(at, entry),
        )
        if turn.is_empty:
            self.findings.leave_out("turn", at, "empty content; it keeps its index, is not sent")
        return turn

    def _time(self, at: At, value: Any) -> Time | None:
        time = read_time(value)
        if time is None:
            return None
        if time.iso is None:
            self.findings.warn("time not read", at, f"{time.raw!r} is no time that can be read")
        self._clock.see(at, time)
        return time

    def _role(self, at: At, value: Any) -> str:
        if value is None or value == "":
            self.findings.refuse(at, "the role is missing")
            return "user"
        role = ROLES.get(value.strip().casefold()) if isinstance(value, str) else None
        if role is None:
            shown = repr(value) if isinstance(value, str) else json_type(value)
            self.findings.refuse(at, f"unknown role {shown}")
            return "user"
        if value != role:
            self.findings.warn("role spelling", at, f"{value!r} is read as {role}")
        return role

    def _content(self, at: At, value: Any) -> str | None:
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            self.findings.warn("content is blocks", at, "one block, read as a list of one")
            value = [value]
        if not isinstance(value, list):
            return read_text(self.findings, at, value)
        self.findings.warn("content is blocks", at, "a list of blocks; their texts are joined")
        parts = [self._block(at.child(position), block) for position, block in enumerate(value)]
        return "\n".join(part for part in parts if part)

    def _block(self, at: At, block: Any) -> str | None:
        if isinstance(block, str):
            return read_text(self.findings, at, block)
        if not isinstance(block, dict):
            self.findings.leave_out("content block", at, f"{json_type(block)}, expected a block")
            return None
        if block.get("type") in ("text", "input_text", "output_text") or "text" in block:
            return read_text(self.findings, at.child("text"), block.get("text"))
        kind = block.get("type")
        if isinstance(kind, str) and "image" in kind:
            self.images.leave_out(at, "attachments", f"a content block of type {kind!r}")
        else:
            self.findings.leave_out("content block", at, f"a block of type {kind!r}")
        return None

    def _source_ids(self, at: At, entry: dict[str, Any]) -> tuple[str, ...]:
        found = []
        for key in _TURN_IDS:
            text = read_soft_id(self.findings, at.child(key), entry.get(key), key)
            if text is not None and text not in found:
                found.append(text)
        return tuple(found)
