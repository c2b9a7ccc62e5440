"""Looking at things: a folder of runs, a run that did not end, data before a run, the list."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.data import _grouped
from cli.main import app

runner = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"})


def memrig(*words: str) -> Result:
    return runner.invoke(app, list(words))


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows that need no box."""
    out = tmp_path_factory.mktemp("looking") / "out"
    done = memrig(
        "bench", "--baseline", "Oracle ConstantFloor", "--smoke", "--output-dir", str(out)
    )
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.parametrize("verb", ["show", "verify"])
def test_a_folder_of_runs_names_them(verb: str, benched: Path) -> None:
    refused = memrig(verb, str(benched))
    assert refused.exit_code == 2
    assert "holds 2 runs; name one of them" in refused.stderr
    for row in ("Oracle", "ConstantFloor"):
        assert str(benched / row) in refused.stderr


def test_a_run_that_did_not_end_is_no_failed_check(benched: Path) -> None:
    run = benched / "Oracle"
    (run / "aggregate_metrics.json").rename(run / "away")
    try:
        found = memrig("verify", str(run))
        as_json = memrig("verify", str(run), "--json")
    finally:
        (run / "away").rename(run / "aggregate_metrics.json")
    assert (found.exit_code, as_json.exit_code) == (1, 1)
    assert found.stdout.startswith(f"{run}: not finished: 1 of 1 samples are recorded; ")
    assert "resume" in found.stdout
    assert "Errno" not in found.stdout
    assert json.loads(as_json.stdout)[0]["checks"][0]["name"] == "finished"
    assert memrig("verify", str(run)).exit_code == 0


def test_data_say_which_judge_they_get() -> None:
    text = memrig("data", "check", "memrig-sample").stdout
    assert "judge: keyed, because 131 of 131 gold points and 40 of 40 questions" in text
    assert "there is gold for all six dimensions" in text
    found = json.loads(memrig("data", "check", "sample", "--json").stdout)
    assert found["judge"]["name"] == "keyed"
    assert found["na"] == {}


def test_warnings_of_one_kind_are_counted() -> None:
    many = [f"a.json: sample 'x{n}', turn {n}: no file" for n in range(9)]
    lines = _grouped([*many, "something else"])
    assert lines == [*many[:3], "... and 6 more of this kind (9 in all)", "something else"]


@pytest.mark.parametrize("group", ["data", "source"])
def test_a_group_alone_shows_its_help(group: str) -> None:
    shown = memrig(group)
    assert "Examples:" in shown.output
    assert "Missing command" not in shown.output


@pytest.mark.parametrize("words", [["show"], ["aggregate"], ["data", "list"], ["bench"]])
def test_examples_are_indented(words: list[str]) -> None:
    shown = memrig(*words, "--help").output
    examples = re.search(r"^ Examples:.*\n((?: {3}memrig .*\n)+)", shown, re.MULTILINE)
    assert examples is not None, shown


def test_the_list_is_readable_at_80_columns() -> None:
    shown = memrig("list").stdout
    assert len(shown.splitlines()) < 40
    assert shown.splitlines()[0].split()[:3] == ["system", "changes", "built"]
    lossy = memrig("list", "lossy").stdout
    assert "caution" in lossy
