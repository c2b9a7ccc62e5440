"""Which sandbox a baseline gets, and that the user is told why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import Baseline, Catalog
from harness.config import EvalConfig
from harness.outcomes import EngineError, UsageError
from harness.sandbox.factory import build_box, make_launcher
from harness.settings import Settings


def config(**changes: Any) -> EvalConfig:
    return EvalConfig(Path("data"), "Tiny", Path("out"), **changes)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_engine")
def test_auto_takes_a_venv_and_says_why(tiny: Baseline, settings: Settings) -> None:
    launcher = make_launcher(tiny, config(), settings)
    assert launcher.kind == "venv"
    assert "no container engine answers" in launcher.note
    assert "files not isolated" in launcher.note
    assert "\n" not in launcher.note


@pytest.mark.usefixtures("no_engine")
def test_a_container_that_was_asked_for_is_not_replaced(tiny: Baseline, settings: Settings) -> None:
    with pytest.raises(EngineError, match="make engine"):
        make_launcher(tiny, config(sandbox="container"), settings)
    with pytest.raises(EngineError, match="doctor"):
        build_box(tiny, settings, sandbox="container")


@pytest.mark.docker
def test_auto_takes_a_container_where_an_engine_answers(tiny: Baseline, settings: Settings) -> None:
    assert make_launcher(tiny, config(), settings).kind == "container"
    assert make_launcher(tiny, config(sandbox="venv"), settings).note.endswith("(as asked)")


@pytest.mark.usefixtures("no_engine")
def test_what_runs_model_output_needs_a_container_or_a_word(
    tiny: Baseline, settings: Settings
) -> None:
    wild = replace(tiny, runs_model_output=True)
    with pytest.raises(UsageError, match="--unsafe"):
        make_launcher(wild, config(), settings)
    assert make_launcher(wild, config(unsafe=True), settings).kind == "venv"


def test_a_host_side_row_has_no_box(settings: Settings) -> None:
    with pytest.raises(UsageError, match="has no"):
        make_launcher(Catalog().get("Oracle"), config(), settings)
    with pytest.raises(UsageError, match="has no"):
        build_box(Catalog().get("Oracle"), settings)
