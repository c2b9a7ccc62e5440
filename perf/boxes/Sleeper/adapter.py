"""A system that does nothing but wait, as one does that asks a model."""

from __future__ import annotations

import time
from typing import Any

from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import MemorySnapshotRecord, NormalizedTurn, Query, RetrievalRecord

MODEL_S = 0.2


class Sleeper(MemoryAdapter):
    """Remembers nothing, slowly."""

    def reset(self) -> None:
        """There is nothing to forget."""

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Wait for the model."""
        time.sleep(MODEL_S)

    def end_session(self, session_id: str) -> None:
        """Nothing to finish."""

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Nothing is stored."""
        return []

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """Wait for the model, find nothing."""
        time.sleep(MODEL_S)
        return RetrievalRecord(())

    def get_capabilities(self) -> dict[str, Any]:
        """Nothing to declare but what it does with updates."""
        return {"update_semantics": "append"}
