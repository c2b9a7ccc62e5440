"""`memrig new`: a folder that works as it stands, and nothing else is touched."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from baseline_boxes import ROOT, in_a_process
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.main import app
from harness.baseline_file import NAME
from harness.catalog import SHIPPED, Catalog
from harness.conformance import check_baseline
from harness.outcomes import UsageError
from harness.sandbox.lockfile import read_lock
from harness.sandbox.venv import find_uv
from harness.scaffold import class_name, new_baseline
from harness.settings import Settings

runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_new_system_passes_the_conformance_suite(tmp_path: Path) -> None:
    new_baseline("Demo-2", tmp_path, Catalog())
    row = Catalog([tmp_path]).get("Demo-2")
    assert row.adapter == "adapter:Demo2Adapter"
    report = check_baseline(row, in_a_process, tmp_path / "logs")
    assert report.failed == ()
    assert [r.id for r in report.results if r.outcome != "pass"] == []


def test_its_own_tests_pass(tmp_path: Path) -> None:
    new_baseline("Demo", tmp_path, Catalog())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "Demo/tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_one_folder_is_touched_and_no_sign_of_another_place_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "Other").mkdir()
    (tmp_path / "Other" / "note.txt").write_text("mine")
    paths = new_baseline("Demo", tmp_path, Catalog())
    made = tree(tmp_path)
    assert made.pop("Other/note.txt") == b"mine"
    assert {f"Demo/{name}" for name in tree(tmp_path / "Demo")} == set(made)
    assert {str(path.relative_to(tmp_path)) for path in paths} == set(made)
    assert {path.name for path in tmp_path.iterdir()} == {"Other", "Demo"}
    everything = b"".join(made.values()).decode("utf-8")
    assert "$" not in everything
    assert str(ROOT) not in everything


@pytest.mark.parametrize("name", ["X", "my-system", "A" * 64])
def test_it_passes_the_linter_as_it_stands(name: str, tmp_path: Path) -> None:
    """With memrig's own rules, and the stricter ones that hold outside ``baselines/``."""
    new_baseline(name, tmp_path, Catalog())
    for words in (["format", "--check"], ["check", "--no-cache", "--extend-ignore", "S101"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_for_the_lock_works_and_survives_itself(tmp_path: Path) -> None:
    new_baseline("Demo", tmp_path, Catalog())
    lock = tmp_path / "Demo" / "requirements.lock"
    command = re.search(r"\.venv/bin/(uv pip compile .*)", lock.read_text(encoding="utf-8"))
    assert command is not None
    words = shlex.split(command[1])
    subprocess.run([find_uv(), *words[1:], "--offline", "-q"], cwd=ROOT, check=True)
    assert "uv pip compile --generate-hashes" in lock.read_text(encoding="utf-8")
    assert str(tmp_path) in lock.read_text(encoding="utf-8")
    assert read_lock(lock.parent, "none").empty


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("BM25", "'BM25' is taken"),
        ("bm25", "'BM25' is taken"),
        ("MemEngine", "is taken"),
        ("memengine-ltmemory", "is taken"),
        ("Oracle", "is taken"),
        ("my system", "cannot be a name"),
        ("../Evil", "cannot be a name"),
        ("-x", "cannot be a name"),
        ("9lives", "cannot be a name"),
        ("A--B", "cannot be a name"),
        ("", "cannot be a name"),
        ("X" * 65, "cannot be a name"),
        ("Demo\n", "cannot be a name"),
    ],
)
def test_names_that_cannot_be_used(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        new_baseline(name, tmp_path, Catalog())
    assert tree(tmp_path) == {}


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "Demo").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        new_baseline("Demo", tmp_path, Catalog())
    with pytest.raises(UsageError, match="is no folder"):
        new_baseline("Demo", tmp_path / "nowhere", Catalog())
    assert tree(tmp_path) == {}


@given(st.from_regex(NAME, fullmatch=True))
def test_every_name_gives_a_class_name(name: str) -> None:
    assert class_name(name).isidentifier()


def test_new_check_and_list_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The five minutes of a newcomer, in the venv sandbox; nothing shipped changes."""
    before = sorted(path.name for path in SHIPPED.iterdir())
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path / "work"))
    folder = str(tmp_path / "mine")
    Path(folder).mkdir()

    made = runner.invoke(app, ["new", "Demo", "--dir", folder])
    assert made.exit_code == 0, made.output
    assert "adapter.py" in made.stdout
    assert f"memrig check Demo --baselines {folder}" in made.stderr
    again = runner.invoke(app, ["new", "Demo", "--dir", folder])
    assert (again.exit_code, "is taken" in again.stderr) == (2, True)

    checked = runner.invoke(
        app, ["check", "Demo", "--baselines", folder, "--sandbox", "venv", "--only", "knobs"]
    )
    assert checked.exit_code == 0, checked.output
    assert "pass  knobs" in checked.stdout
    assert "Demo in a venv: 1 pass" in checked.stdout

    assert Settings.load().work_dir == tmp_path / "work"
    listed = runner.invoke(app, ["list", "Demo", "--baselines", folder])
    assert listed.exit_code == 0, listed.output
    assert "rank_by=count" in listed.stdout
    assert "venv               built" in listed.stdout
    assert sorted(path.name for path in SHIPPED.iterdir()) == before
