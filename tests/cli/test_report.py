"""The static page: every cell with its n, what cannot be compared apart, nothing fetched."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from harness.outcomes import UsageError
from harness.report.html import groups, page, rows_under


def cell(value: float | None, **more: Any) -> dict[str, Any]:
    base = {"metric_id": "m/keyed-1", "value": value, "valid": value, "n": 9, "N": 10}
    return {**base, "interval": [0.1, 0.9], "clusters": 4, "na": None, **more}


def a_run(folder: Path, row: str, **heading: Any) -> Path:
    aggregate = {
        "schema_version": 1,
        "row": row,
        "dataset": "sample",
        "judge": "keyed-1",
        "answerer": "extractive-1",
        "top_k": 5,
        "title": "sample · keyed [keyed-1]",
        "statuses": {"sessions": {"ok": 9, "failed_ingest": 1}, "questions": {"ok": 10}},
        "dimensions": {
            "memory_recall": {"avg_recall": cell(0.25)},
            "update_handling": {"score": cell(None, na="no gold point is an <update>")},
        },
        "retrieval": {"recall@5": cell(0.5, interval=None)},
        "measurements": {"latency_ms": {"retrieve": {"n": 3, "p50": 1.25}}},
        **heading,
    }
    folder.mkdir(parents=True)
    (folder / "aggregate_metrics.json").write_text(json.dumps(aggregate), encoding="utf-8")
    return folder


class Reader(HTMLParser):
    """Collects tags that are never closed, links and everything that a browser would fetch."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        values = dict(attrs)
        if tag == "a":
            self.links.append(values.get("href") or "")
        if tag in ("script", "img", "link", "iframe"):
            self.fetched.append(tag)
        if values.get("title"):
            self.titles.append(values["title"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_a_page_shows_values_with_n_and_their_reasons(tmp_path: Path) -> None:
    a_run(tmp_path / "runs" / "BM25", "BM25")
    out = tmp_path / "pages" / "report.html"
    text = page(rows_under([tmp_path / "runs"]), out, "Mine & yours")
    reader = read(text)
    assert "<title>Mine &amp; yours</title>" in text
    assert "0.250 <small>9/10</small>" in text
    assert "no gold point is an <update>" in reader.titles
    assert any("95 % interval 0.100 to 0.900 over 4" in title for title in reader.titles)
    assert any("no interval" in title for title in reader.titles)
    assert "9 ok, 1 failed_ingest" in text
    assert "1.250 ms" in text
    assert reader.fetched == []


def test_links_lead_from_the_page_to_the_run(tmp_path: Path) -> None:
    a_run(tmp_path / "my runs" / "BM25", "BM25")
    out = tmp_path / "pages" / "report.html"
    links = read(page(rows_under([tmp_path / "my runs"]), out, "x")).links
    assert "../my%20runs/BM25/" in links
    anchors = [link for link in links if link.startswith("#")]
    assert len(anchors) == 1


def test_names_are_text_and_not_markup(tmp_path: Path) -> None:
    a_run(tmp_path / "x", "<script>alert(1)</script>")
    text = page(rows_under([tmp_path / "x"]), tmp_path / "r.html", "x")
    assert "<script" not in text
    assert read(text).fetched == []


def test_what_cannot_be_compared_stands_apart(tmp_path: Path) -> None:
    a_run(tmp_path / "a" / "BM25", "BM25")
    a_run(tmp_path / "a" / "Other", "Other")
    a_run(tmp_path / "b" / "BM25", "BM25", judge="gold_found-1")
    rows = rows_under([tmp_path])
    assert [[row.aggregate["row"] for row in group] for group in groups(rows)] == [
        ["BM25", "Other"],
        ["BM25"],
    ]
    assert read(page(rows, tmp_path / "r.html", "x")).open == []
    assert page(rows, tmp_path / "r.html", "x").count("<table>") == 2


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no finished run"):
        rows_under([tmp_path])
    with pytest.raises(UsageError, match="there is no folder"):
        rows_under([tmp_path / "nowhere"])


def test_the_verb_writes_the_page(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "BM25", "BM25")
    out = tmp_path / "new" / "report.html"
    done = CliRunner().invoke(app, ["report", str(run), "-o", str(out), "--title", "T"])
    assert done.exit_code == 0, done.output
    assert "<title>T</title>" in out.read_text(encoding="utf-8")
    assert str(out) in done.output
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "none"), "-o", str(out)])
    assert refused.exit_code == 2
