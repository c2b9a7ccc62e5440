"""The static page: every cell with its n, what cannot be compared apart, nothing fetched."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.bench import SAMPLE_DATA
from cli.main import app
from harness import run_eval
from harness.config import EvalConfig
from harness.outcomes import RunError, UsageError
from harness.report.html import page, rows_under, title_of

ROWS = ("Oracle", "ConstantFloor")


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two real runs that need no box."""
    root = tmp_path_factory.mktemp("my runs")
    for row in ROWS:
        run_eval(EvalConfig(SAMPLE_DATA, row, root / row))
    return root


@pytest.fixture
def runs(benched: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(benched, tmp_path / "my runs"))


def change(run: Path, **fields: Any) -> None:
    file = run / "aggregate_metrics.json"
    aggregate = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**aggregate, **fields}), encoding="utf-8")


class Reader(HTMLParser):
    """Checks that tags are closed; collects links, tips and everything a browser would fetch."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.fetched: list[str] = []
        self.tips: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(values["href"])
        if tag in ("script", "img", "link", "iframe"):
            self.fetched.append(tag)
        if "title" in values:
            self.tips.append(values["title"])
        if "id" in values:
            self.ids.add(values["id"])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_a_page_shows_what_the_terminal_shows(runs: Path, tmp_path: Path) -> None:
    reader = read(page(rows_under([runs]), tmp_path / "r.html", "Mine & yours"))
    table = CliRunner().invoke(app, ["table", *(str(runs / row) for row in ROWS)])
    assert table.exit_code == 0, table.output
    aggregate = json.loads((runs / "Oracle" / "aggregate_metrics.json").read_text("utf-8"))
    cell = aggregate["dimensions"]["question_answering"]["correct_ratio"]
    shown = f"{cell['value']:.3f}".removeprefix("0")
    assert shown in table.output
    assert shown in reader.text
    assert any(tip.startswith(f"{cell['metric_id']}: strict") for tip in reader.tips)
    assert any("95 % interval" in tip and "4 conversations" in tip for tip in reader.tips)
    assert "unsupported: host-side reference row" in " ".join(reader.tips)
    assert "Mine & yours" in reader.text
    assert aggregate["judge"] in reader.text
    assert aggregate["answerer"] in reader.text
    assert f"n {cell['n']}/{cell['N']}" in reader.text  # a finger has no pointer
    assert "unsupported: host-side reference row" in reader.text
    assert "What the numbers mean" in reader.text and "scrolls sideways" in reader.text
    manifest = json.loads((runs / "Oracle" / "manifest.json").read_text("utf-8"))
    assert manifest["about"]["created"] in reader.text
    manifest["about"]["git"] = {"commit": "c0ffee", "dirty": True}
    manifest["pipeline"]["box"] |= {"image": "memrig-x:1", "image_id": "sha256:12"}
    (runs / "Oracle" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    text = page(rows_under([runs]), tmp_path / "r.html", "x")
    assert "c0ffee (changed)" in text and "memrig-x:1 sha256:12" in text
    assert reader.fetched == []


def test_links_lead_from_the_page_to_the_run(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "report.html"
    reader = read(page(rows_under([runs]), out, "x"))
    assert "../my%20runs/Oracle/" in reader.links
    inside = [link.removeprefix("#") for link in reader.links if link.startswith("#")]
    assert len(inside) == len(ROWS)
    assert set(inside) <= reader.ids


def test_names_are_text_and_not_markup(runs: Path, tmp_path: Path) -> None:
    change(runs / "Oracle", row="<script>alert(1)</script>", notes=['<img src="x">'])
    reader = read(page(rows_under([runs]), tmp_path / "r.html", "<b>"))
    assert reader.fetched == []
    assert "<script>alert(1)</script>" in reader.text
    assert '<img src="x">' in reader.text


def test_what_cannot_be_compared_stands_apart(runs: Path, tmp_path: Path) -> None:
    together = page(rows_under([runs]), tmp_path / "r.html", "x")
    change(runs / "Oracle", dataset_sha256="0" * 64)
    apart = page(rows_under([runs]), tmp_path / "r.html", "x")
    assert apart.count("<h2>") == together.count("<h2>") + 1


def test_the_same_row_twice_is_two_rows(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "Oracle", runs / "again" / "Oracle")
    rows = rows_under([runs, runs / "Oracle"])
    assert len(rows) == 3
    reader = read(page(rows, tmp_path / "r.html", "x"))
    assert len({link for link in reader.links if link.startswith("#")}) == 3


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no finished run"):
        rows_under([tmp_path])
    with pytest.raises(UsageError, match="there is no folder"):
        rows_under([tmp_path / "nowhere"])
    for damaged in ("{", "[]", "null", "{}", '{"schema_version": 1, "dimensions": {"a": 1}}'):
        (tmp_path / "aggregate_metrics.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(RunError, match=r"is damaged .* makes it anew"):
            rows_under([tmp_path])


def test_runs_of_a_folder_stand_in_the_order_in_which_they_were_made(runs: Path) -> None:
    assert [row.path.name for row in rows_under([runs])] == list(ROWS)
    backwards = [runs / name for name in reversed(ROWS)]
    assert [row.path.name for row in rows_under(backwards)] == list(reversed(ROWS))
    file = runs / "Oracle" / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["about"]["created"] = "2999-01-01T00:00:00+00:00"
    file.write_text(json.dumps(manifest), encoding="utf-8")
    assert [row.path.name for row in rows_under([runs])] == ["ConstantFloor", "Oracle"]


def test_runs_of_one_name_are_told_apart_by_their_folder(runs: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(runs / "Oracle", runs / name / "Oracle")
    found = rows_under([runs / "first", runs / "second", runs / "ConstantFloor"])
    assert [row.aggregate.get("run") for row in found] == ["first", "second", None]
    table = CliRunner().invoke(app, ["table", str(runs / "first"), str(runs / "second")])
    assert "first" in table.stdout and "second" in table.stdout


def test_a_title_says_what_the_page_is_of(runs: Path) -> None:
    assert title_of(rows_under([runs])) == "Memory systems on sample: 2 runs"
    assert title_of(rows_under([runs / "Oracle"])) == "Memory systems on sample: 1 run"


def test_the_verb_writes_the_page(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "report.html"
    done = CliRunner().invoke(app, ["report", str(runs), "-o", str(out), "--title", "T"])
    assert done.exit_code == 0, done.output
    assert "<title>T</title>" in out.read_text(encoding="utf-8")
    assert done.stdout == f"{out}\n"
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "none"), "-o", str(out)])
    assert refused.exit_code == 2
