"""The dispatcher: the same for boxes and for adapters in this process."""

from __future__ import annotations

import ast
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.adapter import records
from harness.adapter.contract import AdapterError, MemoryAdapter, Setup
from harness.adapter.dispatch import CallFailed, Dispatcher, describe
from harness.adapter.fingerprint import folder_sha256
from harness.adapter.meter import Meter, folder_bytes
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.outcomes import AdapterFailure, SandboxFailure
from harness.sandbox.base import BoxRequest
from harness.sandbox.client import MemoryClient
from harness.sandbox.process import LocalLauncher

ADAPTER_HALF = Path(__file__).resolve().parents[2] / "harness" / "adapter"


class ListAdapter(MemoryAdapter):
    """Keeps turns in a list; returns what a test puts into ``answer``."""

    answer: Any = None
    fail_at: str | None = None

    def reset(self) -> None:
        self.turns: list[NormalizedTurn] = []

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        if turn.text == self.fail_at:
            self.fail_at = None
            raise AdapterError("LLM_UNAVAILABLE", "no model", retry_safe=True)
        self.turns.append(turn)

    def end_session(self, session_id: str) -> None:
        Path(self.setup.state_dir, session_id).write_bytes(b"x" * 10_000)

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        return [MemorySnapshotRecord(turn.turn_id, turn.text) for turn in self.turns]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        if self.answer is not None:
            return self.answer  # type: ignore[no-any-return]
        return RetrievalRecord(tuple(RetrievedItem(t.turn_id, t.text) for t in self.turns[:top_k]))

    def get_capabilities(self) -> dict[str, Any]:
        return {}


def turns(*texts: str) -> list[NormalizedTurn]:
    return [NormalizedTurn("s0001", "S01", i, "user", text) for i, text in enumerate(texts)]


def made() -> tuple[ListAdapter, Dispatcher]:
    adapter = ListAdapter(Setup())
    dispatcher = Dispatcher(adapter)
    dispatcher.call("reset", {})
    return adapter, dispatcher


def failed(dispatcher: Dispatcher, method: str, params: dict[str, Any]) -> str:
    with pytest.raises(CallFailed) as caught:
        dispatcher.call(method, params)
    assert caught.value.failure.kind == "BASELINE_ERROR"
    return caught.value.failure.message


@pytest.fixture
def client(tmp_path: Path) -> MemoryClient:
    box = LocalLauncher(ListAdapter).start(BoxRequest("s0001", 0, {"a": [1]}, tmp_path))
    client = MemoryClient(box)
    client.reset()
    return client


def test_the_seven_methods_in_this_process(client: MemoryClient) -> None:
    assert client.ingest_turns(turns("one", "two")) == 2
    client.end_session("S01")
    assert client.last.meta["state_bytes"] >= 10_000
    assert client.last.meta["ms"] > 0
    assert client.last.meta["rss"] > 0
    assert [d.op for d in client.export_memory_delta("S01")] == ["add", "add"]
    assert client.export_memory_delta("S01") == []
    client.reset()
    assert client.ingest_turns(turns("one", "two")) == 2
    assert len(client.export_memory_delta("S01")) == 2, "a reset starts the difference anew"
    assert [m.text for m in client.snapshot_memories()] == ["one", "two"]
    assert [i.text for i in client.retrieve(Query("x"), 1).items] == ["one"]
    assert client.get_capabilities() == records.Capabilities()
    assert client.box.hello["capabilities"]["snapshot"] == "full"
    usage = client.box.close()
    assert usage == client.box.close()
    assert usage.state_bytes is not None
    with pytest.raises(SandboxFailure, match="closed"):
        client.reset()


def test_options_of_the_caller_are_not_shared_with_the_adapter(tmp_path: Path) -> None:
    options: dict[str, Any] = {"a": []}

    class Greedy(ListAdapter):
        def reset(self) -> None:
            super().reset()
            self.setup.options["a"].append(1)

    client = MemoryClient(LocalLauncher(Greedy).start(BoxRequest("s1", 0, options, tmp_path)))
    client.reset()
    client.box.close()
    assert options == {"a": []}


def test_a_batch_that_failed_goes_on_where_it_stopped() -> None:
    adapter, dispatcher = made()
    adapter.fail_at = "two"
    batch = {"turns": records.to_wire(turns("one", "two", "three"))}
    with pytest.raises(CallFailed) as caught:
        dispatcher.call("ingest_turns", batch)
    assert caught.value.failure.retry_safe
    assert dispatcher.call("ingest_turns", batch).value == {"accepted": 3}
    assert [turn.text for turn in adapter.turns] == ["one", "two", "three"]


def test_another_batch_after_a_failed_one_is_taken_whole() -> None:
    adapter, dispatcher = made()
    adapter.fail_at = "two"
    with pytest.raises(CallFailed):
        dispatcher.call("ingest_turns", {"turns": records.to_wire(turns("one", "two"))})
    other = [NormalizedTurn("s0001", "S02", 0, "user", "other")]
    dispatcher.call("ingest_turns", {"turns": records.to_wire(other)})
    assert [turn.text for turn in adapter.turns] == ["one", "other"]
    adapter.fail_at = "two"
    with pytest.raises(CallFailed):
        dispatcher.call("ingest_turns", {"turns": records.to_wire(turns("one", "two"))})
    dispatcher.call("reset", {})
    dispatcher.call("ingest_turns", {"turns": records.to_wire(turns("one", "two"))})
    assert [turn.text for turn in adapter.turns] == ["one", "two"]


ASK = {"query": {"text": "x"}, "top_k": 1}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([], "retrieve returned list, not a RetrievalRecord"),
        (RetrievalRecord(({"text": "x"},)), "returned dict, not RetrievedItem"),  # type: ignore[arg-type]
        (RetrievalRecord((RetrievedItem(1, "x"),)), "RetrievedItem.memory_id"),  # type: ignore[arg-type]
        (RetrievalRecord((RetrievedItem("m", "x", score=math.nan),)), "RetrievedItem.score"),
        (RetrievalRecord((RetrievedItem("m", "x", score=math.inf),)), "RetrievedItem.score"),
        (RetrievalRecord((RetrievedItem("m", "x", score=np.float32(1)),)), "RetrievedItem.score"),  # type: ignore[arg-type]
        (RetrievalRecord((RetrievedItem("m", "x", sources="S01:1"),)), "RetrievedItem.sources"),  # type: ignore[arg-type]
        (RetrievalRecord((RetrievedItem("m", "x", sources=(1,)),)), "RetrievedItem.sources"),  # type: ignore[arg-type]
        (RetrievalRecord((RetrievedItem("m", "\ud800"),)), "RetrievedItem.text"),
        (RetrievalRecord((RetrievedItem("m", None),)), "RetrievedItem.text"),  # type: ignore[arg-type]
    ],
)
def test_what_an_adapter_may_not_return(answer: Any, says: str) -> None:
    adapter, dispatcher = made()
    adapter.answer = answer
    assert says in failed(dispatcher, "retrieve", ASK)


def test_numpy_texts_and_doubles_become_plain() -> None:
    adapter, dispatcher = made()
    item = RetrievedItem(np.str_("m"), np.str_("x"), score=np.float64(0.5))
    adapter.answer = RetrievalRecord((item,))
    value = dispatcher.call("retrieve", ASK).value["items"][0]
    assert type(value["text"]) is str
    assert type(value["score"]) is float
    adapter.answer = RetrievalRecord((RetrievedItem("m", "x", score=3),))
    assert dispatcher.call("retrieve", ASK).value["items"][0]["score"] == 3


def test_an_unknown_method_is_a_typed_error(client: MemoryClient) -> None:
    with pytest.raises(AdapterFailure) as caught:
        client.box.call("forget_everything", {})
    assert caught.value.kind == "UNSUPPORTED"
    assert "forget_everything" in caught.value.message
    client.box.close()


def test_an_unknown_capability_is_named() -> None:
    class Boasting(ListAdapter):
        def get_capabilities(self) -> dict[str, Any]:
            return {"telepathy": True}

    assert "telepathy" in failed(Dispatcher(Boasting(Setup())), "get_capabilities", {})


def test_an_adapter_that_cannot_be_made_is_a_failed_start(tmp_path: Path) -> None:
    def factory(setup: Setup) -> MemoryAdapter:
        raise OSError("no such model")

    with pytest.raises(SandboxFailure, match="no such model") as caught:
        LocalLauncher(factory).start(BoxRequest("s0001", 0, {}, tmp_path))
    assert caught.value.kind == "START_FAILED"


def test_an_error_of_any_size_fits_on_the_wire() -> None:
    failure = describe(ValueError("x" * 10_000_000))
    assert len(failure.message) < 100_000
    assert "characters cut" in failure.message
    assert failure.traceback is not None
    assert len(failure.traceback) < 100_000


@pytest.mark.parametrize("path", sorted(ADAPTER_HALF.glob("*.py")), ids=lambda path: path.name)
def test_the_half_in_the_box_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    assert "from __future__ import annotations" in path.read_text() or path.name == "__init__.py"


def test_the_meter_follows_what_is_on_disk(tmp_path: Path) -> None:
    meter = Meter(tmp_path)
    assert meter.state_bytes == 0
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(os.urandom(50_000))
    (tmp_path / "link").symlink_to("/usr")
    assert 50_000 <= meter.measure_state() < 80_000
    assert folder_bytes(tmp_path / "nothing") == 0


def test_a_fingerprint_sees_names_and_contents_only(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        (folder / "adapter.py").write_text("x = 1")
        (folder / "sub" / "y").write_text("")
    (tmp_path / "b" / "__pycache__").mkdir()
    (tmp_path / "b" / "__pycache__" / "z.pyc").write_bytes(b"z")
    (tmp_path / "b" / "adapter.py").chmod(0o600)
    first = folder_sha256(tmp_path / "a")
    assert folder_sha256(tmp_path / "b") == first
    (tmp_path / "b" / "adapter.py").write_text("x = 2")
    assert folder_sha256(tmp_path / "b") != first
    (tmp_path / "a" / "sub" / "y").rename(tmp_path / "a" / "sub" / "z")
    assert folder_sha256(tmp_path / "a") != first
