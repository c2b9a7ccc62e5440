"""The seven methods, typed, over any box. Nothing else knows their names on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from harness.adapter import records as wire
from harness.outcomes import SandboxFailure
from harness.sandbox.base import Box, Reply
from harness.sandbox.meta import checked

Record = TypeVar("Record")


class MemoryClient:
    """Talks to one box. ``last`` is the reply of the last call, with the box's measurements.

    Every method raises ``AdapterFailure`` or ``SandboxFailure`` (see :class:`Box`), the latter also
    for measurements that cannot be (PROTOCOL).
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.last = Reply(None)

    def _call(self, method: str, params: dict[str, Any]) -> Any:
        reply = self.box.call(method, params)
        self.last = Reply(reply.value, checked(reply.meta, method))
        return self.last.value

    def reset(self) -> None:
        """Forget everything."""
        self._call("reset", {})

    def ingest_turns(self, turns: Sequence[wire.NormalizedTurn]) -> int:
        """Send a session's turns in one frame; returns how many the box acknowledged."""
        value = self._call("ingest_turns", {"turns": wire.to_wire(turns)})
        accepted = value.get("accepted") if isinstance(value, dict) else None
        if accepted != len(turns):
            raise SandboxFailure(
                "PROTOCOL",
                f"sent {len(turns)} turns, acknowledged {accepted!r}",
                call="ingest_turns",
            )
        return len(turns)

    def end_session(self, session_id: str) -> None:
        """Returns when all that was ingested is searchable."""
        self._call("end_session", {"session_id": session_id})

    def export_memory_delta(self, session_id: str) -> list[wire.MemoryDeltaRecord]:
        """What this session changed."""
        value = self._call("export_memory_delta", {"session_id": session_id})
        return _list_of(wire.MemoryDeltaRecord, value, "export_memory_delta")

    def snapshot_memories(self) -> list[wire.MemorySnapshotRecord]:
        """Everything stored."""
        value = self._call("snapshot_memories", {})
        return _list_of(wire.MemorySnapshotRecord, value, "snapshot_memories")

    def retrieve(self, query: wire.Query, top_k: int) -> wire.RetrievalRecord:
        """At most ``top_k`` memories, best first."""
        value = self._call("retrieve", {"query": wire.to_wire(query), "top_k": top_k})
        return _one(wire.RetrievalRecord, value, "retrieve")

    def get_capabilities(self) -> wire.Capabilities:
        """What the system can do."""
        value = self._call("get_capabilities", {})
        try:
            return wire.capabilities_from(value)
        except ValueError as error:
            raise SandboxFailure("PROTOCOL", str(error), call="get_capabilities") from None


def _one(cls: type[Record], value: Any, call: str) -> Record:
    try:
        return wire.from_wire(cls, value)
    except ValueError as error:
        raise SandboxFailure("PROTOCOL", str(error), call=call) from None


def _list_of(cls: type[Record], value: Any, call: str) -> list[Record]:
    if not isinstance(value, list):
        raise SandboxFailure("PROTOCOL", f"expected a list, got {type(value).__name__}", call=call)
    return [_one(cls, entry, call) for entry in value]
