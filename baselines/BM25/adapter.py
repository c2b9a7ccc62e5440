"""Lexical search over the turns with bm25s: the yardstick for every system that embeds."""

from __future__ import annotations

from typing import Any

import bm25s
import numpy as np

from harness.adapter.contract import MemoryAdapter, Setup
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.adapter.render import round_starts, turn_text
from harness.adapter.text import tokens


class BM25Adapter(MemoryAdapter):
    """One memory a turn (or a round of turns); nothing is ever updated or dropped.

    The vocabulary and the token ids grow turn by turn; the index (document frequencies and scores)
    is made anew once a session, when it ends.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        options = setup.options
        self._k1 = float(options["k1"])
        self._b = float(options["b"])
        self._method = str(options["method"])
        self._unit = str(options["unit"])
        self._date = bool(options["with_date"])
        self._speaker = bool(options["with_speaker"])
        self._captions = bool(options["with_captions"])
        self.reset()

    def reset(self) -> None:
        """Forget everything: turns, vocabulary and index."""
        self._open: list[NormalizedTurn] = []
        self._stored: list[MemorySnapshotRecord] = []
        self._token_ids: list[list[int]] = []
        self._vocabulary: dict[str, int] = {}
        self._index: bm25s.BM25 | None = None

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Keep the turn until its session ends."""
        self._open.append(turn)

    def end_session(self, session_id: str) -> None:
        """Store the session's turns or rounds and make the index anew."""
        starts = round_starts(self._open) if self._unit == "round" else list(range(len(self._open)))
        for start, end in zip(starts, [*starts[1:], len(self._open)]):  # noqa: B905 (Python 3.9)
            self._store(self._open[start:end])
        self._open = []
        self._index = self._make_index()

    def _store(self, turns: list[NormalizedTurn]) -> None:
        text = "\n".join(
            turn_text(turn, date=self._date, speaker=self._speaker, captions=self._captions)
            for turn in turns
        )
        self._stored.append(
            MemorySnapshotRecord(
                memory_id=turns[0].turn_id,
                text=text,
                session_id=turns[0].session_id,
                sources=tuple(turn.turn_id for turn in turns),
            )
        )
        vocabulary = self._vocabulary
        self._token_ids.append(
            [vocabulary.setdefault(token, len(vocabulary)) for token in tokens(text)]
        )

    def _make_index(self) -> bm25s.BM25 | None:
        if not self._vocabulary:
            return None  # bm25s cannot index texts without a single token
        index = bm25s.BM25(k1=self._k1, b=self._b, method=self._method, backend="numpy")
        index.index(
            (self._token_ids, self._vocabulary), create_empty_token=False, show_progress=False
        )
        return index

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Every memory, in the order it was stored."""
        return list(self._stored)

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """The ``top_k`` best by BM25; equal scores in the order of storage.

        Memories that share no word with the query come last, with score 0, as in bm25s itself.
        """
        scores = self._scores(tokens(query.text))
        best = np.argsort(-scores, kind="stable")[:top_k]
        return RetrievalRecord(
            tuple(
                RetrievedItem(
                    memory_id=self._stored[i].memory_id,
                    text=self._stored[i].text,
                    score=float(scores[i]),
                    sources=self._stored[i].sources,
                )
                for i in best.tolist()
            )
        )

    def _scores(self, words: list[str]) -> Any:
        known = [self._vocabulary[word] for word in words if word in self._vocabulary]
        if self._index is None or not known:
            return np.zeros(len(self._stored), dtype=np.float32)
        return self._index.get_scores_from_ids(known)

    def get_capabilities(self) -> dict[str, Any]:
        """What is kept depends on the options."""
        return {
            "update_semantics": "append",
            "images": "caption" if self._captions else "none",
            "speakers": "text_only" if self._speaker else "none",
            "time": "text_only" if self._date else "none",
            "scores": True,
            "provenance": True,
            "unit": self._unit,
        }
