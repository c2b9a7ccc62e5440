"""The adapter contract: seven methods between memrig and a memory system.

Order within a sample: ``reset`` once; then for each session its turns (``ingest_turn``),
``end_session``, ``export_memory_delta``, ``snapshot_memories``; at a checkpoint ``retrieve``, which
comes last because in several systems it changes the state.

A failed write raises :class:`AdapterError`. It is never turned into "nothing to remember".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from .records import (
    MemoryDeltaRecord,
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
)

#: Every kind of failure that an adapter may report.
ERROR_KINDS = (
    "LLM_UNAVAILABLE",
    "LLM_ERROR",
    "EMPTY_RESPONSE",
    "JSON_PARSE_FAILED",
    "EMBEDDING_FAILED",
    "RECONCILE_FAILED",
    "RECONCILE_EXCEPTION",
    "STORE_FAILED",
    "UNAVAILABLE",
    "UNSUPPORTED",
    "BASELINE_ERROR",
)


class AdapterError(Exception):
    """A memory system failed, in a way that its adapter can name.

    Args:
        kind: one of :data:`ERROR_KINDS`.
        message: what happened, for a person.
        retry_safe: nothing was stored, so the same call may be tried once more.
        cause: the kind behind the kind (``RECONCILE_FAILED`` because of ``LLM_UNAVAILABLE``).
    """

    def __init__(
        self, kind: str, message: str, *, retry_safe: bool = False, cause: str | None = None
    ) -> None:
        if kind not in ERROR_KINDS:
            raise ValueError(f"unknown error kind {kind!r}; one of {', '.join(ERROR_KINDS)}")
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_safe = retry_safe
        self.cause = cause


@dataclass(frozen=True)
class Setup:
    """What a box knows when it builds its adapter.

    ``seed`` is this sample's own; ``options`` come from ``baseline.yaml`` and the command line;
    ``state_dir`` is the only folder that outlives a call; ``model_url`` and ``model_token`` are the
    loopback address and key of the box's model relay (absent where the baseline needs no model).
    ``model_url`` ends in ``/v1`` and is what ``OPENAI_BASE_URL`` holds.
    """

    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    state_dir: str = "/state"
    model_url: str | None = None
    model_token: str | None = None

    def route_url(self, route: str) -> str:
        """Where a vendor's SDK finds its own cloud in this box: the base URL of a declared route.

        Raises:
            ValueError: the box has no model relay.
        """
        if self.model_url is None:
            raise ValueError(f"no route {route!r}: this box was started without routes")
        return f"{self.model_url[: -len('/v1')]}/r/{route}"


class MemoryAdapter(ABC):
    """One memory system behind seven methods. A baseline's ``adapter.py`` subclasses this."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._before: dict[str, MemorySnapshotRecord] = {}

    @abstractmethod
    def reset(self) -> None:
        """Forget everything: a new engine object and a fresh state folder."""

    @abstractmethod
    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Take one turn. A system that works in rounds or sessions may buffer until the end."""

    @abstractmethod
    def end_session(self, session_id: str) -> None:
        """Finish a session; returns when all that was ingested is searchable."""

    @abstractmethod
    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Return everything stored, in an order that does not change between equal runs."""

    def export_memory_delta(self, session_id: str) -> list[MemoryDeltaRecord]:
        """Return what this session changed.

        The default is the difference between this snapshot and the one at the last call. Systems
        that report their own operations override it.
        """
        after = {record.memory_id: record for record in self.snapshot_memories()}
        delta = snapshot_difference(self._before, after, session_id)
        self._before = after
        return delta

    @abstractmethod
    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """Return at most ``top_k`` memories for the query, best first."""

    @abstractmethod
    def get_capabilities(self) -> dict[str, Any]:
        """Return the fields of ``records.Capabilities`` that differ from their defaults.

        Works without a key and without a model.
        """

    def forget_difference(self) -> None:
        """Start the snapshot difference anew; the box calls this after every ``reset``."""
        self._before = {}


def snapshot_difference(
    before: dict[str, MemorySnapshotRecord],
    after: dict[str, MemorySnapshotRecord],
    session_id: str,
) -> list[MemoryDeltaRecord]:
    """Compare two snapshots (memory id -> record): adds and updates in store order, then deletes.

    A memory that is no longer active counts as deleted, one whose text changed as updated.
    """
    delta = []
    for memory_id, record in after.items():
        old = before.get(memory_id)
        was_active = old is not None and old.status == "active"
        if record.status != "active":
            if was_active and old is not None:
                delta.append(_change("delete", record, session_id, "", old.text))
        elif not was_active or old is None:
            delta.append(_change("add", record, session_id, record.text, None))
        elif old.text != record.text:
            delta.append(_change("update", record, session_id, record.text, old.text))
    for memory_id, old in before.items():
        if memory_id not in after and old.status == "active":
            delta.append(_change("delete", old, session_id, "", old.text))
    return delta


def _change(
    op: str, record: MemorySnapshotRecord, session_id: str, text: str, previous: str | None
) -> MemoryDeltaRecord:
    return MemoryDeltaRecord(
        op=op,
        memory_id=record.memory_id,
        text=text,
        previous_text=previous,
        session_id=session_id,
        sources=record.sources,
        kind=record.kind,
    )
