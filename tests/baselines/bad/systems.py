"""One small adapter that keeps every promise, and one for each way of breaking a promise.

They run in boxes and import what a baseline may import. ``BROKEN`` says which checks must catch
which; no other check may fail for it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import unicodedata
from typing import Any

from harness.adapter import dispatch
from harness.adapter.contract import AdapterError, MemoryAdapter, Setup
from harness.adapter.records import (
    MemoryDeltaRecord,
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.adapter.render import turn_text
from harness.adapter.serve import model_port
from harness.adapter.text import tokens

BROKEN: dict[str, frozenset[str]] = {}


def breaks(*checks: str) -> Any:
    """Enter a class into :data:`BROKEN`."""

    def enter(cls: type) -> type:
        BROKEN[cls.__name__] = frozenset(checks)
        return cls

    return enter


class Good(MemoryAdapter):
    """Keeps turns, ranks by shared words, does what it says."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.reset()

    def reset(self) -> None:
        self.stored: list[MemorySnapshotRecord] = []

    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn)

    def id_of(self, turn: NormalizedTurn) -> str:
        return turn.turn_id

    def sources_of(self, turn: NormalizedTurn) -> tuple[str, ...]:
        return (turn.turn_id,)

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        record = MemorySnapshotRecord(
            self.id_of(turn),
            self.text_of(turn),
            session_id=turn.session_id,
            sources=self.sources_of(turn),
        )
        self.stored.append(record)

    def end_session(self, session_id: str) -> None:
        pass

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        return list(self.stored)

    def score(self, query: Query, text: str) -> float:
        limit = int(self.setup.options["query_words"])
        return float(len(set(tokens(query.text)[:limit]) & set(tokens(text))))

    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        items = [
            RetrievedItem(m.memory_id, m.text, self.score(query, m.text), sources=m.sources)
            for m in self.stored
        ]
        return sorted(items, key=lambda item: -(item.score or 0.0))[:top_k]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        return RetrievalRecord(tuple(self.rank(query, top_k)))

    def get_capabilities(self) -> dict[str, Any]:
        return {"images": "caption", "scores": True, "provenance": True}


# --- start, unknown method, availability ---------------------------------------------------------


@breaks("start")
class ChangesItsMind(Good):
    asked = 0

    def get_capabilities(self) -> dict[str, Any]:
        type(self).asked += 1
        return {**super().get_capabilities(), "notes": [f"asked {self.asked} times"]}


@breaks("start")
class RunsModelOutputInSecret(Good):
    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), "runs_model_output": True}


@breaks("unknown-method")
class AnswersAnything(Good):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        real = dispatch.Dispatcher.call

        def call(dispatcher: Any, method: str, params: Any, call_id: int = 0) -> Any:
            if method == "no_such_method":
                return dispatch.Answer({}, dispatcher.meta())
            return real(dispatcher, method, params, call_id)

        dispatch.Dispatcher.call = call  # type: ignore[method-assign]


@breaks("available")
class UnavailableForNoReason(Good):
    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), "available": False}


# --- what is kept and forgotten ------------------------------------------------------------------


@breaks("empty-retrieve")
class Placeholder(Good):
    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        if not self.stored:
            return RetrievalRecord((RetrievedItem("none", "None", 0.0),))
        return super().retrieve(query, top_k)


@breaks("empty-retrieve")
class EmptyIsAnError(Good):
    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        if not self.stored:
            raise LookupError("no such group")
        return super().retrieve(query, top_k)


@breaks("empty-retrieve", "provenance", "delta", "completeness")
class WelcomesItself(Good):
    """A store that is never empty; the delta of the first session then names a welcome."""

    def reset(self) -> None:
        super().reset()
        self.stored.append(
            MemorySnapshotRecord("hello", "Welcome to your memory.", sources=("welcome",))
        )

    def export_memory_delta(self, session_id: str) -> list[MemoryDeltaRecord]:
        return [c for c in super().export_memory_delta(session_id) if c.memory_id != "hello"]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        found = super().retrieve(query, top_k + 1).items
        return RetrievalRecord(tuple(i for i in found if i.memory_id != "hello")[:top_k])


@breaks("determinism", "reset-order")
class RandomIds(Good):
    def __init__(self, setup: Setup) -> None:
        self.salt = os.urandom(4).hex()
        super().__init__(setup)

    def id_of(self, turn: NormalizedTurn) -> str:
        return f"{self.salt}-{turn.turn_id}"


@breaks("reset-order")
class CountsOn(Good):
    def __init__(self, setup: Setup) -> None:
        self.counter = 0
        super().__init__(setup)

    def id_of(self, turn: NormalizedTurn) -> str:
        self.counter += 1
        return f"m{self.counter}"


@breaks("reset-order", "reset-forgets")
class KeepsAQueue(Good):
    """The kind of leak that real engines have: the last messages survive their reset."""

    def __init__(self, setup: Setup) -> None:
        self.queue: list[str] = []
        super().__init__(setup)

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        super().ingest_turn(turn)
        self.queue.append(turn.text)

    def end_session(self, session_id: str) -> None:
        text = " / ".join(self.queue[-12:])
        self.stored = [m for m in self.stored if m.memory_id != "recent"]
        self.stored.append(MemorySnapshotRecord("recent", text, sources=(session_id,)))


@breaks("delta")
class ForgetsAChange(Good):
    def export_memory_delta(self, session_id: str) -> list[MemoryDeltaRecord]:
        return super().export_memory_delta(session_id)[:-1]


@breaks("ids")
class SameIdTwice(Good):
    def id_of(self, turn: NormalizedTurn) -> str:
        return f"m{turn.turn_index // 2}-{turn.session_id}"


@breaks("ids")
class OtherIdsWhenAsked(Good):
    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        return RetrievalRecord(
            tuple(
                RetrievedItem(f"hit{i}", item.text, item.score, sources=item.sources)
                for i, item in enumerate(self.rank(query, top_k))
            )
        )


@breaks("retrieve-reads")
class RemembersQuestions(Good):
    def reset(self) -> None:
        super().reset()
        self.asked = 0

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        found = super().retrieve(query, top_k)
        if self.stored:
            self.asked += 1
            self.stored.append(MemorySnapshotRecord(f"q{self.asked}", "a question was asked"))
        return found


# --- text and the pipe ---------------------------------------------------------------------------


@breaks("unicode")
class AsciiOnly(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return super().text_of(turn).encode("ascii", "ignore").decode("ascii")


@breaks("unicode")
class Normalises(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return unicodedata.normalize("NFKC", super().text_of(turn))


@breaks("unicode")
class JoinsLines(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return " ".join(super().text_of(turn).split())


@breaks("large-turn")
class DiesOfLongText(Good):
    def ingest_turn(self, turn: NormalizedTurn) -> None:
        if len(turn.text) > 1_000_000:
            os._exit(137)
        super().ingest_turn(turn)


@breaks("noise")
class TakesStdoutBack(Good):
    """A library that "repairs" standard output: it finds the pipe and puts it back on fd 1."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        for fd in range(3, 64):
            try:
                fifo = stat.S_ISFIFO(os.fstat(fd).st_mode)
                writable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            except OSError:
                continue
            if fifo and writable:
                os.dup2(fd, 1)


# --- claims --------------------------------------------------------------------------------------


class Claims(Good):
    """Claims ``claim`` on top of what :class:`Good` says."""

    claim: tuple[tuple[str, Any], ...] = ()

    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), **dict(self.claim)}


@breaks("images")
class DropsCaptions(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn, captions=False)


@breaks("images")
class HidesThatItReadsCaptions(Claims):
    claim = (("images", "none"),)


@breaks("images")
class SaysThatItSees(Claims):
    claim = (("images", "file"),)


@breaks("time")
class DropsDates(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn, date=False)


@breaks("time")
class HidesThatItKeepsDates(Claims):
    claim = (("time", "none"),)


@breaks("time")
class SaysThatItKnowsTime(Claims):
    claim = (("time", "native"),)

    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn, date=False)


@breaks("speakers")
class DropsNames(Good):
    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn, speaker=False)


@breaks("speakers")
class HidesThatItKeepsNames(Claims):
    claim = (("speakers", "none"),)


@breaks("speakers")
class SaysThatItKnowsSpeakers(Claims):
    claim = (("speakers", "native"),)

    def text_of(self, turn: NormalizedTurn) -> str:
        return turn_text(turn, speaker=False)


@breaks("provenance")
class InventsSources(Good):
    def sources_of(self, turn: NormalizedTurn) -> tuple[str, ...]:
        return (f"D{turn.turn_index}",)


@breaks("provenance")
class NamesNoSources(Good):
    def sources_of(self, turn: NormalizedTurn) -> tuple[str, ...]:
        return ()


@breaks("provenance")
class HidesItsSources(Claims):
    claim = (("provenance", False),)


@breaks("scores")
class GivesNoScores(Good):
    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return [
            RetrievedItem(i.memory_id, i.text, None, sources=i.sources)
            for i in super().rank(query, top_k)
        ]


@breaks("scores")
class HidesItsScores(Claims):
    claim = (("scores", False),)


@breaks("scores")
class GivesDistances(Good):
    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return [
            RetrievedItem(i.memory_id, i.text, 1.0 / (1.0 + (i.score or 0.0)), sources=i.sources)
            for i in super().rank(query, top_k)
        ]


@breaks("completeness")
class HidesAThreshold(Good):
    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return [item for item in super().rank(query, top_k) if item.score]


@breaks("completeness")
class CapsAtTwo(Good):
    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return super().rank(query, min(top_k, 2))


@breaks("completeness")
class IgnoresK(Good):
    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return super().rank(query, 1000)


@breaks("knobs")
class DeadKnob(Good):
    def score(self, query: Query, text: str) -> float:
        return float(len(set(tokens(query.text)) & set(tokens(text))))


# --- systems that are right, and of which the suite says "not applicable" ------------------------


class NativeDelta(Good):
    """Reports its own operations, which are coarser than the snapshots."""

    def export_memory_delta(self, session_id: str) -> list[MemoryDeltaRecord]:
        return super().export_memory_delta(session_id)[:1]

    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), "delta_source": "native"}


class LacksAKey(Good):
    def ingest_turn(self, turn: NormalizedTurn) -> None:
        raise AdapterError("UNAVAILABLE", "no key")

    def get_capabilities(self) -> dict[str, Any]:
        return {
            **super().get_capabilities(),
            "available": False,
            "unavailable_reason": "missing_credential: SOME_API_KEY",
        }


class AsksAModel(Good):
    """Sends what it heard to a model, and keeps the last messages over a reset."""

    def __init__(self, setup: Setup) -> None:
        self.heard: list[str] = []
        super().__init__(setup)

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        self.heard.append(turn.text)
        super().ingest_turn(turn)

    def end_session(self, session_id: str) -> None:
        model_port().call({"messages": self.heard[-20:]})

    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), "needs": ["chat"]}


class RefusesLongText(Good):
    def ingest_turn(self, turn: NormalizedTurn) -> None:
        if len(turn.text) > 1_000_000:
            raise AdapterError("UNSUPPORTED", "over my limit")
        super().ingest_turn(turn)


class Thresholds(Good):
    """Returns fewer than asked for, and says so."""

    def rank(self, query: Query, top_k: int) -> list[RetrievedItem]:
        return [item for item in super().rank(query, top_k) if item.score]

    def get_capabilities(self) -> dict[str, Any]:
        return {**super().get_capabilities(), "notes": ["nothing without a shared word"]}
