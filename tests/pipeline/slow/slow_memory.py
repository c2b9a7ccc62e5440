"""A plain memory that takes its time, for runs that are stopped half-way."""

from __future__ import annotations

import os
import time

from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import MemorySnapshotRecord, RetrievalRecord, RetrievedItem
from harness.adapter.text import tokens


class SlowMemory(MemoryAdapter):
    """Stores every turn; retrieves by shared tokens. ``SLOW_MS`` is what each call takes."""

    def __init__(self, setup):
        super().__init__(setup)
        self._wait = float(os.environ.get("SLOW_MS", "0")) / 1000
        self.reset()

    def reset(self):
        self._items = []

    def ingest_turn(self, turn):
        text = f"{turn.timestamp or ''} {turn.name or turn.role}: {turn.text}"
        self._items.append(
            MemorySnapshotRecord(
                f"m{len(self._items)}", text, session_id=turn.session_id, sources=(turn.turn_id,)
            )
        )

    def end_session(self, session_id):
        time.sleep(self._wait)

    def snapshot_memories(self):
        return list(self._items)

    def retrieve(self, query, top_k):
        time.sleep(self._wait)
        wanted = set(tokens(query.text))
        ranked = sorted(self._items, key=lambda item: -len(wanted & set(tokens(item.text))))
        return RetrievalRecord(
            tuple(RetrievedItem(i.memory_id, i.text, sources=i.sources) for i in ranked[:top_k])
        )

    def get_capabilities(self):
        return {"provenance": True}
