"""A memory that hears facts in fixed sentence forms and loses some of them in known doses."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from harness.adapter.contract import AdapterError, MemoryAdapter, Setup
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)

#: What is heard, in the order in which the forms are tried: (kind, pattern with what and value).
FORMS = (
    ("new", re.compile(r"Please remember: my (?P<what>[^.:]+?) is (?P<value>\d+)\.")),
    ("change", re.compile(r"My (?P<what>[^.:]+?) has changed: it is (?P<value>\d+) now\.")),
    ("hearsay", re.compile(r"A stranger said that their (?P<what>[^.:]+?) is (?P<value>\d+)\.")),
    ("new", re.compile(r"请记住：我的(?P<what>[^，。：]+?)是(?P<value>\d+)。")),
    ("change", re.compile(r"我的(?P<what>[^，。：]+?)变了：现在是(?P<value>\d+)。")),
    ("hearsay", re.compile(r"有个陌生人说他的(?P<what>[^，。：]+?)是(?P<value>\d+)。")),
)
ASKED = (
    re.compile(r"What is my (?P<what>[^?]+)\?"),
    re.compile(r"Do you remember my (?P<what>[^?]+)\?"),
    re.compile(r"我的(?P<what>[^？]+?)是多少？"),
    re.compile(r"你记得我的(?P<what>[^？]+?)吗？"),
)
DOSES = ("drop", "corrupt", "stale", "hearsay")


class Memory:
    """One stored fact. ``owner`` is "user" or "stranger"."""

    def __init__(self, memory_id: str, owner: str, what: str, value: int, source: str) -> None:
        self.memory_id = memory_id
        self.owner = owner
        self.what = what
        self.value = value
        self.source = source

    @property
    def text(self) -> str:
        """The fact as a sentence, in the language that it was heard in."""
        if self.what.isascii():
            owner = "The user's" if self.owner == "user" else "A stranger's"
            return f"{owner} {self.what} is {self.value}."
        owner = "用户的" if self.owner == "user" else "陌生人的"
        return f"{owner}{self.what}是{self.value}。"

    def replace(self, value: int, source: str) -> None:
        """Take the new value, keeping the id."""
        self.value, self.source = value, source


class LossyAdapter(MemoryAdapter):
    """Four doses, four independent draws a sentence."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._dose = {}
        for name in DOSES:
            dose = float(setup.options.get(name, 0.0))
            if not 0.0 <= dose <= 1.0:
                raise AdapterError("BASELINE_ERROR", f"{name}={dose} is not between 0 and 1")
            self._dose[name] = dose
        self._draw = str(setup.options.get("draw", 0))
        self._memories: list[Memory] = []
        self._made = 0

    def reset(self) -> None:
        self._memories = []
        self._made = 0

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        for kind, form in FORMS:
            for heard in form.finditer(turn.text):
                self._hear(kind, heard["what"], int(heard["value"]), turn)

    def _hear(self, kind: str, what: str, value: int, turn: NormalizedTurn) -> None:
        fact = f"{turn.sample_id}|{turn.session_id}|{kind}|{what}|{value}"
        if kind == "hearsay":
            if self._hit("hearsay", fact):
                self._store("stranger", what, value, turn.turn_id)
            return
        if self._hit("drop", fact):
            return
        if self._hit("corrupt", fact):
            value += 1
        old = self._newest(what) if kind == "change" else None
        if old is not None and not self._hit("stale", fact):
            old.replace(value, turn.turn_id)
        else:
            self._store("user", what, value, turn.turn_id)

    def _hit(self, dose: str, fact: str) -> bool:
        """Whether this dose takes this fact; independent for every dose, fact, seed and draw."""
        seed = f"{self.setup.seed}|{self._draw}|{dose}|{fact}".encode()
        number = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big")
        return number / 2**64 < self._dose[dose]

    def _store(self, owner: str, what: str, value: int, source: str) -> None:
        self._made += 1
        self._memories.append(Memory(f"m{self._made}", owner, what, value, source))

    def _about(self, what: str) -> list[Memory]:
        return [m for m in self._memories if m.owner == "user" and m.what == what]

    def _newest(self, what: str) -> Memory | None:
        about = self._about(what)
        return about[-1] if about else None

    def end_session(self, session_id: str) -> None:
        pass

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        return [
            MemorySnapshotRecord(memory_id=m.memory_id, text=m.text, sources=(m.source,))
            for m in self._memories
        ]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        for form in ASKED:
            asked = form.search(query.text)
            if asked:
                newest_first = self._about(asked["what"])[::-1][:top_k]
                return RetrievalRecord(
                    tuple(
                        RetrievedItem(memory_id=m.memory_id, text=m.text, sources=(m.source,))
                        for m in newest_first
                    )
                )
        return RetrievalRecord()

    def get_capabilities(self) -> dict[str, Any]:
        return {
            "update_semantics": "update",
            "speakers": "none",
            "time": "none",
            "provenance": True,
            "notes": ["retrieve returns only what is stored about the thing that is asked for"],
        }
