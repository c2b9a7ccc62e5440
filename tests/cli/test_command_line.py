"""The command as a person meets it: help, exit codes, suggestions, what an error looks like."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli import errors
from cli.main import app
from cli.verbs import START, VERBS, LazyGroup, load
from harness.outcomes import BuildError, UsageError

ROOT = Path(__file__).resolve().parents[2]
PEOPLE_START_WITH = ["doctor", "list", "bench", "table", "compare", "explain", "report", "new"]

runner = CliRunner(env={"COLUMNS": "160", "TERMINAL_WIDTH": "160", "NO_COLOR": "1"})


def memrig(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a shell would start it."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def leaves() -> list[list[str]]:
    """Every command that does something, as the words that call it."""
    found: list[list[str]] = []
    for verb in VERBS:
        children = getattr(load(verb), "commands", {})
        found += [[verb.name, child] for child in children] or [[verb.name]]
    return found


def test_the_help_page_shows_what_people_start_with() -> None:
    shown = runner.invoke(app, ["--help"])
    assert shown.exit_code == 0
    start = [verb.name for verb in VERBS if verb.panel == START]
    assert start == PEOPLE_START_WITH
    for verb in VERBS:
        assert re.search(rf"^\W*{verb.name}\s", shown.output, re.MULTILINE), verb.name
    assert runner.invoke(app, ["-h"]).output == shown.output


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_verb_explains_itself(words: list[str]) -> None:
    shown = runner.invoke(app, [*words, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "Examples:" in shown.output
    assert f"memrig {' '.join(words)}" in shown.output.split("Examples:")[1]
    assert "Traceback" not in shown.output


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_verb_refuses_an_unknown_flag(words: list[str]) -> None:
    refused = runner.invoke(app, [*words, "--no-such-flag-at-all"])
    assert refused.exit_code == 2
    assert "No such option" in refused.output


def test_help_imports_no_verb() -> None:
    """`memrig --help` stays cheap because no module behind a verb is imported for it."""
    program = (
        "import sys\n"
        "from cli.main import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'pydantic', 'docker', 'yaml', 'requests', 'bm25s'}\n"
        "verbs = {v.target.partition(':')[0] for v in __import__('cli.verbs').verbs.VERBS}\n"
        "print(sorted((heavy | verbs) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("verb", [v for v in VERBS], ids=lambda v: v.name)
def test_importing_a_verb_is_cheap(verb: object) -> None:
    """Heavy packages are imported by the work, not by the help page of a verb."""
    program = (
        "import sys\n"
        "from cli.verbs import VERBS, load\n"
        f"load(next(v for v in VERBS if v.name == {verb.name!r}))\n"  # type: ignore[attr-defined]
        "print(sorted({'numpy', 'scipy', 'docker', 'bm25s'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_near_names_are_suggested() -> None:
    verb = runner.invoke(app, ["benhc"])
    assert verb.exit_code == 2
    assert "bench" in verb.output
    flag = runner.invoke(app, ["bench", "--basline", "BM25"])
    assert flag.exit_code == 2
    assert "--baseline" in flag.output


def test_version() -> None:
    shown = runner.invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert re.fullmatch(r"memrig \d+\.\d+\.\d+\n", shown.output)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UsageError("no such thing"), 2, "memrig: no such thing"),
        (BuildError("pip failed", Path("/logs/x.log")), 1, "log: /logs/x.log"),
        (OSError(28, "No space left on device", "/runs/a.jsonl"), 1, "no space left on the disk"),
        (PermissionError(13, "Permission denied", "/runs"), 1, "Permission denied (/runs)"),
        (ValueError("odd"), 1, "MEMRIG_DEBUG=1"),
    ],
    ids=["usage", "build", "full-disk", "os", "fault"],
)
def test_an_error_is_one_message(
    error: Exception, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert errors.report(error) == code
    shown = capsys.readouterr()
    assert says in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_debugging_brings_the_trace_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMRIG_DEBUG", "1")
    try:
        raise UsageError("seen")
    except UsageError as error:
        assert errors.report(error) == 2
    assert "Traceback" in capsys.readouterr().err


def test_the_group_turns_errors_into_exit_codes() -> None:
    broken = typer.Typer(cls=LazyGroup)

    @broken.callback(invoke_without_command=True)
    def fail() -> None:
        raise UsageError("refused")

    outcome = CliRunner().invoke(broken, [])
    assert outcome.exit_code == 2
    assert "memrig: refused" in outcome.output


def test_interrupt_and_sigterm_take_one_way() -> None:
    """A SIGTERM unwinds like Ctrl-C (finally blocks run) and exits 130 with one line."""
    program = (
        "import sys, time, typer\n"
        "import cli.main, cli.verbs\n"
        "@cli.main.app.command()\n"
        "def wait() -> None:\n"
        "    try:\n"
        "        print('waiting', flush=True)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        print('cleaned', flush=True)\n"
        "sys.argv = ['memrig', 'wait']\n"
        "cli.main.main()\n"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert out == "cleaned\n"
        assert "Traceback" not in err
        assert "interrupted" in err
        assert process.returncode == 130


def test_an_interrupt_ends_a_process_that_will_not(tmp_path: Path) -> None:
    """A worker computes on, the exception is lost in a destructor, keys are pressed again: 130."""
    program = (
        "import sys, threading, time\n"
        "import cli.main\n"
        "class Swallows:\n"
        "    def __del__(self) -> None:\n"
        "        print('waiting', flush=True)\n"
        "        time.sleep(60)\n"
        "@cli.main.app.command()\n"
        "def wait() -> None:\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "    thing = Swallows()\n"
        "    del thing\n"
        "    try:\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        time.sleep(0.5)\n"
        "        print('cleaned', flush=True)\n"
        "sys.argv = ['memrig', 'wait']\n"
        "cli.main.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "cleaned\n", "memrig: interrupted\n")


def test_an_unforeseen_error_leaves_its_trace_in_the_row_s_folder(tmp_path: Path) -> None:
    from cli.rows import unexpected

    line = unexpected(KeyError("what"), tmp_path / "row")
    log = tmp_path / "row" / "logs" / "unexpected.log"
    assert str(log) in line and "KeyError" in line
    assert "KeyError: 'what'" in log.read_text()
