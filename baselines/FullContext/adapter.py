"""Keeps every turn and returns all of them for every question, in the order they were said."""

from __future__ import annotations

from typing import Any

from harness.adapter.contract import MemoryAdapter, Setup
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.adapter.render import turn_text
from harness.adapter.text import tokens


class FullContextAdapter(MemoryAdapter):
    """The whole history is the context. ``top_k`` is ignored by design (``full_context``)."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._date = bool(setup.options["with_date"])
        self._speaker = bool(setup.options["with_speaker"])
        self._captions = bool(setup.options["with_captions"])
        self._max_tokens = int(setup.options["max_tokens"])
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._stored: list[MemorySnapshotRecord] = []
        self._lengths: list[int] = []

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Keep the turn as it was said."""
        text = turn_text(turn, date=self._date, speaker=self._speaker, captions=self._captions)
        self._stored.append(
            MemorySnapshotRecord(
                memory_id=turn.turn_id,
                text=text,
                session_id=turn.session_id,
                sources=(turn.turn_id,),
            )
        )
        self._lengths.append(len(tokens(text)) if self._max_tokens else 0)

    def end_session(self, session_id: str) -> None:
        """Nothing to do: a turn is searchable as soon as it is kept."""

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Every turn, in order."""
        return list(self._stored)

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """Everything, oldest first; with ``max_tokens``, the most recent turns that fit."""
        return RetrievalRecord(
            tuple(
                RetrievedItem(memory_id=kept.memory_id, text=kept.text, sources=kept.sources)
                for kept in self._stored[self._first_that_fits() :]
            )
        )

    def _first_that_fits(self) -> int:
        if not self._max_tokens:
            return 0
        first, used = len(self._stored), 0
        while first and used + self._lengths[first - 1] <= self._max_tokens:
            first -= 1
            used += self._lengths[first]
        return first

    def get_capabilities(self) -> dict[str, Any]:
        """What is kept depends on the options."""
        notes = []
        if self._max_tokens:
            notes.append(
                f"max_tokens={self._max_tokens}: retrieve returns the most recent turns that fit; "
                "the store keeps all"
            )
        return {
            "update_semantics": "append",
            "images": "caption" if self._captions else "none",
            "speakers": "text_only" if self._speaker else "none",
            "time": "text_only" if self._date else "none",
            "provenance": True,
            "full_context": True,
            "notes": notes,
        }
