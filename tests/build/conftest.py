"""Settings and folders of their own for every test that builds something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import write_baseline, write_wheel

from harness.catalog import Baseline, Catalog
from harness.sandbox.engine import Engine
from harness.sandbox.image import labels_of
from harness.sandbox.recipe import BASELINE, KIND
from harness.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """This machine's settings with a work folder and a wheel folder of the test's own."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    return replace(Settings.load(), work_dir=tmp_path / "work", wheel_dir=wheels)


@pytest.fixture
def tiny(tmp_path: Path, settings: Settings) -> Baseline:
    """The baseline with one dependency, whose wheel lies in the wheel folder."""
    assert settings.wheel_dir is not None
    lock = write_wheel(settings.wheel_dir)
    folder = write_baseline(tmp_path / "mine", lock)
    return Catalog([folder], shipped=None).get("Tiny")


@pytest.fixture
def engine() -> Iterator[Engine]:
    """The engine; what tests built under the name Tiny is removed at the end."""
    found = Engine.detect()
    assert found is not None, "the test carries @pytest.mark.docker and yet no engine answers"
    with found:
        yield found
        for image in found.images({KIND: "baseline", BASELINE: "Tiny"}):
            assert labels_of(image)[BASELINE] == "Tiny"
            for tag in image.get("RepoTags") or [image["Id"]]:
                found.remove_image(tag)
