"""What README and CONTRIBUTING tell people to type exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.verbs import VERBS, load

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
CODE = re.compile(r"```[a-z]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)


def code_of(document: str) -> list[str]:
    """The lines of code in a document, in blocks and in the text."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [line for block, inline in CODE.findall(text) for line in (block or inline).splitlines()]


def commands() -> list[list[str]]:
    """Every `memrig ...` in the documents, as words; comments cut off."""
    lines = [line.split(" #")[0].strip() for name in DOCUMENTS for line in code_of(name)]
    found = [re.sub(r"^\.venv/bin/", "", line) for line in lines]
    return [line.split() for line in found if re.match(r"memrig [a-z-]", line)]


def make_targets() -> set[str]:
    lines = [line.split(" #")[0] for name in DOCUMENTS for line in code_of(name)]
    return {match for line in lines for match in re.findall(r"^make ([a-z][a-z-]*)", line.strip())}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_command_exists_with_its_flags(words: list[str]) -> None:
    verb = next((verb for verb in VERBS if verb.name == words[1]), None)
    assert verb is not None, f"no verb {words[1]}"
    command, rest = load(verb), words[2:]
    children = getattr(command, "commands", {})
    if children and rest:
        assert rest[0] in children, f"memrig {words[1]} has no {rest[0]}"
        command = children[rest[0]]
    known = {name for parameter in command.params for name in parameter.opts}
    flags = {word.split("=")[0] for word in rest if word.startswith("-")}
    assert flags <= known, f"unknown: {sorted(flags - known)}"


def test_the_program_in_the_readme_runs(tmp_path: Path) -> None:
    """As it stands, but for where its run goes, and with a row that needs no box."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = next(block for block, _ in CODE.findall(text) if "run_eval(" in block)
    changed = program.replace('"runs/mine"', repr(str(tmp_path / "run")))
    changed = changed.replace('"NoMemory"', '"Oracle"')
    assert changed.count(str(tmp_path)) == 1
    done = subprocess.run(
        [sys.executable, "-c", changed], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "correct_ratio" in done.stdout
    assert "my_answerer" in (tmp_path / "run" / "manifest.json").read_text(encoding="utf-8")


def test_enough_is_looked_at() -> None:
    named = {words[1] for words in commands()}
    assert {"bench", "doctor", "list", "new", "check", "verify", "diff", "clean"} <= named
    assert {"bench", "test", "engine"} <= make_targets()


@pytest.mark.parametrize("target", sorted(make_targets()))
def test_the_make_target_exists(target: str) -> None:
    known = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"make {target}\s", known.stdout), target


def test_make_passes_names_on_as_they_were_typed(tmp_path: Path) -> None:
    """Two names in one variable, blanks and quotes in a path: the command sees what was typed."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    shown = venv / "bin" / "memrig"
    shown.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n', encoding="utf-8")
    shown.chmod(0o755)
    for name in ("bin/python", ".memrig-runtime"):
        (venv / name).touch()
    done = subprocess.run(
        [
            "make",
            "-s",
            "bench",
            f"VENV={venv}",
            "BASELINE=BM25 MemEngine-LTMemory",
            "DATASET=/data/it's here/x",
            "JOBS=2",
            "ARGS=--top-k 7",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "<bench>",
        "<--baseline>",
        "<BM25 MemEngine-LTMemory>",
        "<--dataset>",
        "</data/it's here/x>",
        "<--jobs>",
        "<2>",
        "<--top-k>",
        "<7>",
    ]


def test_make_names_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Python 3.9.1' && exit 0\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "bench", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "is Python 3.9.1" in done.stderr
    assert not (tmp_path / "venv").exists()
