"""Remembers nothing: the floor that every memory system has to clear."""

from __future__ import annotations

from typing import Any

from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import MemorySnapshotRecord, NormalizedTurn, Query, RetrievalRecord


class NoMemoryAdapter(MemoryAdapter):
    """Takes every turn, keeps none, returns none."""

    def reset(self) -> None:
        """There is nothing to forget."""

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Hear the turn and let it go."""

    def end_session(self, session_id: str) -> None:
        """There is nothing to finish."""

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """The store is always empty."""
        return []

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """No memory, no items."""
        return RetrievalRecord()

    def get_capabilities(self) -> dict[str, Any]:
        """A full snapshot of nothing; no time, speaker or image is kept."""
        return {"update_semantics": "none", "speakers": "none", "time": "none"}
