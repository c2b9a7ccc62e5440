"""The real MemEngine in its real image: `make test-systems`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.adapter.records import NormalizedTurn, Query
from harness.catalog import Baseline, Catalog
from harness.config import EvalConfig
from harness.conformance import Outcome, check_baseline
from harness.sandbox.base import BoxRequest, Launcher
from harness.sandbox.client import MemoryClient
from harness.sandbox.factory import make_launcher
from harness.settings import Settings

pytestmark = [pytest.mark.systems, pytest.mark.docker, pytest.mark.timeout(1800)]

ENGINES = ("FUMemory", "STMemory", "LTMemory")
SAID = (
    "I adopted a grey kitten last week.",
    "My brother repairs bicycles in Ghent.",
    "The invoice for the roof is due in May.",
    "She plays the cello on Sundays.",
)


def launcher_for(baseline: Baseline) -> Launcher:
    config = EvalConfig(Path(), baseline.name, Path(), sandbox="container")
    launcher = make_launcher(baseline, config, Settings.load())
    launcher.prepare()
    return launcher


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Callable[..., MemoryClient]]:
    boxes = []

    def start(engine: str, **options: object) -> MemoryClient:
        row = Catalog().get(f"MemEngine-{engine}").with_options(options)
        box = launcher_for(row).start(BoxRequest("s0001", 0, row.options, tmp_path))
        boxes.append(box)
        client = MemoryClient(box)
        client.reset()
        client.ingest_turns(
            [NormalizedTurn("s0001", "S01", i, "user", text) for i, text in enumerate(SAID)]
        )
        client.end_session("S01")
        return client

    yield start
    for box in boxes:
        box.close()


def test_lt_memory_finds_by_meaning(memory: Callable[..., MemoryClient]) -> None:
    """No word is shared with the memory that is meant: the embedding does it, offline."""
    client = memory("LTMemory")
    for question, turn_id in (
        ("Which pet does the user own?", "S01:0"),
        ("Which musical instrument is mentioned?", "S01:3"),
    ):
        items = client.retrieve(Query(question), 4).items
        assert items[0].sources == (turn_id,)
        scores = [item.score or 0.0 for item in items]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert -1.0 <= scores[-1] < scores[0] <= 1.0


def test_st_memory_is_a_window(memory: Callable[..., MemoryClient]) -> None:
    items = memory("STMemory").retrieve(Query("anything"), 2).items
    assert [item.sources for item in items] == [("S01:3",), ("S01:2",)]
    assert items[0].text == f"user: {SAID[3]}"


def test_fu_memory_shows_the_first_words_of_everything(
    memory: Callable[..., MemoryClient],
) -> None:
    """Parted by blanks: `[Memory` and `Start]\\n[0]` are two words, `week.\\n[1]` is one."""
    client = memory("FUMemory", truncation_words=12, with_date=False, with_speaker=False)
    shown = " ".join(item.text for item in client.retrieve(Query("anything"), 1).items)
    assert shown == f"{SAID[0]} My brother repairs"
    assert [record.text for record in client.snapshot_memories()] == list(SAID)


@pytest.mark.parametrize("engine", ENGINES)
def test_it_keeps_what_every_adapter_promises(engine: str, tmp_path: Path) -> None:
    """The parts that say most, with few boxes: a whole `memrig check` takes minutes."""
    report = check_baseline(
        Catalog().get(f"MemEngine-{engine}"),
        launcher_for,
        tmp_path,
        only=["start", "determinism", "reset-order", "reset-forgets", "delta", "unicode"],
    )
    assert {r.id: r.reason for r in report.results if r.outcome is Outcome.FAIL} == {}
