"""Which base image boxes get where the one that is set is not on the engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.catalog import Baseline
from harness.config import EvalConfig
from harness.outcomes import EngineError
from harness.sandbox import factory
from harness.sandbox.base_image import at_hand, settled
from harness.sandbox.engine import Engine
from harness.settings import DEFAULT_BASE_IMAGE, LOCAL_BASE_IMAGE, Settings


@dataclass
class Shelf:
    """An engine's images by name; ``registry`` is what can be pulled."""

    images: set[str] = field(default_factory=set)
    registry: set[str] = field(default_factory=set)
    pulled: list[str] = field(default_factory=list)
    name: str = "docker"
    closed: bool = False

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        return {"Id": f"sha256:{reference}"} if reference in self.images else None

    def pull(self, reference: str) -> None:
        self.pulled.append(reference)
        if reference not in self.registry:
            raise EngineError("no such host")
        self.images.add(reference)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("images", "registry", "expected"),
    [
        ({DEFAULT_BASE_IMAGE, LOCAL_BASE_IMAGE}, set(), DEFAULT_BASE_IMAGE),
        (set(), {DEFAULT_BASE_IMAGE}, DEFAULT_BASE_IMAGE),
        ({LOCAL_BASE_IMAGE}, {DEFAULT_BASE_IMAGE}, DEFAULT_BASE_IMAGE),
        ({LOCAL_BASE_IMAGE}, set(), LOCAL_BASE_IMAGE),
        (set(), set(), None),
    ],
)
def test_the_normal_one_then_the_one_of_make_engine_then_none(
    images: set[str], registry: set[str], expected: str | None
) -> None:
    said: list[str] = []
    shelf = Shelf(set(images), registry)
    found = settled(shelf, Settings(), said.append)
    assert (found.base_image if found else None) == expected
    assert len(shelf.pulled) == (DEFAULT_BASE_IMAGE not in images)
    if expected == LOCAL_BASE_IMAGE:
        assert f"built on {LOCAL_BASE_IMAGE}" in said[-1]


def test_a_named_base_image_is_never_replaced() -> None:
    shelf = Shelf({LOCAL_BASE_IMAGE})
    named = Settings.load(
        {"base_image": "registry.example/python:3.11"}, env={}, root=Path("/none")
    )
    assert settled(shelf, named, lambda text: None) == named
    assert at_hand(shelf, named) == named
    assert shelf.pulled == []


def test_what_is_at_hand_is_found_without_a_pull() -> None:
    shelf = Shelf({LOCAL_BASE_IMAGE}, {DEFAULT_BASE_IMAGE})
    assert at_hand(shelf, Settings()).base_image == LOCAL_BASE_IMAGE
    assert at_hand(Shelf(), Settings()).base_image == DEFAULT_BASE_IMAGE
    assert shelf.pulled == []


def test_an_engine_without_a_base_image_is_no_sandbox(tiny: Baseline, settings: Settings) -> None:
    """``auto`` then takes a venv and says why; a container that was asked for is not replaced."""
    bare = replace(settings, base_image=DEFAULT_BASE_IMAGE, origins={})
    shelf = Shelf()

    def found(name: str) -> tuple[Engine | None, list[str]]:
        return cast(Engine, shelf), []

    auto = EvalConfig(Path("data"), "Tiny", Path("out"))
    launcher = factory.make_launcher(tiny, auto, bare, find_engine=found)
    assert launcher.kind == "venv"
    assert shelf.closed
    assert f"docker answers but has no base image {DEFAULT_BASE_IMAGE}" in launcher.note
    assert "make engine" in launcher.note
    asked = replace(auto, sandbox="container")
    assert factory.make_launcher(tiny, asked, bare, find_engine=found).kind == "container"
