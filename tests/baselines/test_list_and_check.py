"""`memrig list` and `memrig check` as commands: what they print and how they end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bad.systems import Good
from typer.testing import CliRunner

from cli.main import app
from harness.catalog import Baseline, Catalog
from harness.inventory import BUILT, HOST, NO_ENGINE, NOT_BUILT, entry_of
from harness.outcomes import DataError, Problem
from harness.settings import Settings

runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})


class Shelf:
    """An engine's images, as far as the list asks for them."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def current(self, baseline: Baseline) -> str | None:
        if baseline.name == "FullContext":
            raise DataError([Problem("no hash", "requirements.lock", 3)])
        return f"memrig-{baseline.name}:1" if baseline.name in self._names else None


def test_the_state_of_images_is_told_without_building(tmp_path: Path) -> None:
    settings = replace(Settings.load(env={}), work_dir=tmp_path)
    shelf = Shelf("BM25")
    catalog = Catalog()
    states = {
        row.name: (entry := entry_of(row, settings, shelf)).image + "|" + entry.venv
        for row in catalog.baselines()
    }
    assert states["BM25"] == f"{BUILT}|{NOT_BUILT}"
    assert states["NoMemory"] == f"{NOT_BUILT}|{NOT_BUILT}"
    assert states["Oracle"] == f"{HOST}|{HOST}"
    assert states["FullContext"].startswith("cannot be built: requirements.lock:3: no hash")
    assert entry_of(catalog.get("BM25"), settings, None).image == NO_ENGINE
    assert list(tmp_path.iterdir()) == []


def test_list_json_holds_every_row_with_its_knobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path))
    shown = runner.invoke(app, ["list", "--json"])
    assert shown.exit_code == 0, shown.output
    value = json.loads(shown.stdout)
    rows = {row["name"]: row for row in value["baselines"]}
    assert set(rows) == set(Catalog().names())
    assert rows["BM25"]["options"]["k1"] == 1.5
    assert rows["MemEngine-LTMemory"]["torch"] == "cpu"
    assert rows["BM25"]["update_semantics"] == "append"
    assert value["broken"] == []


def test_list_names_folders_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path / "work"))
    (tmp_path / "Sad").mkdir()
    (tmp_path / "Sad" / "baseline.yaml").write_text("name: Sad\nsummary: x\ncolour: red\n")
    shown = runner.invoke(app, ["list", "--baselines", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "NoMemory" in shown.stdout
    assert "Sad cannot be used" in shown.stderr
    assert "colour" in shown.stderr
    unknown = runner.invoke(app, ["list", "BM52"])
    assert (unknown.exit_code, "Did you mean BM25" in unknown.stderr) == (2, True)


@pytest.fixture
def sloppy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with one system whose only option does nothing."""
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path / "work"))
    home = tmp_path / "more" / "Sloppy"
    home.mkdir(parents=True)
    (home / "baseline.yaml").write_text(
        "name: Sloppy\nsummary: x\nreset: object\nadapter: adapter:DeadKnob\n"
        "options:\n  query_words: {default: 50, help: words that count, example: 1}\n"
    )
    (home / "requirements.lock").write_text("")
    source = Path(str(__import__(Good.__module__, fromlist=["x"]).__file__))
    (home / "adapter.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return str(home.parent)


def test_check_says_what_failed_and_what_to_do(sloppy: str) -> None:
    arguments = ["check", "Sloppy", "--baselines", sloppy, "--sandbox", "venv"]
    arguments += ["--only", "knobs", "--only", "delta"]
    shown = runner.invoke(app, arguments)
    assert shown.exit_code == 1, shown.output
    assert "FAIL" in shown.stdout.upper()
    assert "query_words (1: no change)" in shown.stdout
    assert "next: pass the option on" in shown.stdout
    logs = Path(shown.stdout.rpartition("logs: ")[2].strip())
    assert list(logs.glob("*/*.stderr"))

    as_json = runner.invoke(app, [*arguments, "--json"])
    value = json.loads(as_json.stdout)
    assert (as_json.exit_code, value["passed"]) == (1, False)
    assert {row["id"]: row["outcome"] for row in value["results"]} == {
        "delta": "pass",
        "knobs": "fail",
    }


def test_what_cannot_be_built_is_one_message(sloppy: str) -> None:
    (Path(sloppy) / "Sloppy" / "adapter.py").unlink()
    shown = runner.invoke(app, ["check", "Sloppy", "--baselines", sloppy, "--sandbox", "venv"])
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "adapter.py is missing" in shown.stderr
    assert "log: " in shown.stderr


def test_check_refuses_what_it_cannot_check() -> None:
    for arguments, says in (
        (["Oracle"], "no box"),
        (["BM25", "--only", "nob", "--sandbox", "venv"], "unknown check"),
        (["BM25", "--option", "k9=1", "--sandbox", "venv"], "unknown option"),
        (["Nobody"], "unknown baseline"),
    ):
        shown = runner.invoke(app, ["check", *arguments])
        assert (shown.exit_code, says in shown.stderr) == (2, True), shown.output
