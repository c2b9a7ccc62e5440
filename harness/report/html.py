"""A static page of runs' tables: one file, no script, nothing fetched, every cell with its n.

The tables are those of :mod:`harness.report.layout`, so the page cannot say anything else than the
terminal does; here each cell also tells what it is made of, and each row leads to its run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.report.layout import Cell, Row, Table, tables_of
from harness.report.marks import cell_of
from harness.report.names import ABOUT, HEADS, MEASURED, WHY_DIFFERENT, counted
from harness.report.places import PageRow, rows_under

__all__ = ["PageRow", "page", "rows_under", "title_of"]

Aggregate = Mapping[str, Any]


def title_of(rows: Sequence[PageRow]) -> str:
    """What the page is of, where nobody gave it a title."""
    data = dict.fromkeys(str(row.aggregate.get("dataset", "unnamed data")) for row in rows)
    return f"Memory systems on {', '.join(data)}: {counted(len(rows), 'runs')}"


def page(rows: Sequence[PageRow], out: Path, title: str) -> str:
    """The whole page; links to run directories are relative to where ``out`` lies."""
    by_aggregate = {id(row.aggregate): row for row in rows}
    tables = [_table(table, by_aggregate) for table in tables_of([r.aggregate for r in rows])]
    details = [_details(row, out) for row in rows]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f"<p>{escape(READING)}</p>",
            *tables,
            _numbers(rows),
            "<h2>Runs</h2>",
            *details,
            "</body></html>",
            "",
        ]
    )


def _table(table: Table, by_aggregate: Mapping[int, PageRow]) -> str:
    runs = [by_aggregate[id(aggregate)] for aggregate in table.aggregates]
    counts = ("", *(f"N {count}" if count else "" for count in table.counts), "")
    heads = [("", ""), *table.heads, ("degr./", "failed")]
    body = "\n".join(_row(table, row, run) for row, run in zip(table.rows, runs, strict=True))
    under = "".join(f"<li>{escape(note)}</li>" for note in table.footnotes)
    return (
        f"<section><h2>{escape(table.title)}</h2>"
        + "".join(f"<p>{escape(line)}</p>" for line in table.subtitle)
        + _wide(_head(heads, counts), body)
        + _beside(table)
        + f"<ul>{under}</ul></section>"
    )


def _wide(head: str, body: str) -> str:
    """A table that scrolls sideways where the window is narrow."""
    return (
        f'<p class="hint">{SCROLLS}</p>'
        '<div class="wide" tabindex="0">'
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _head(heads: Sequence[tuple[str, str]], counts: Sequence[str] = ()) -> str:
    told = [*counts, *[""] * (len(heads) - len(counts))]
    cells = "".join(
        f"<th>{escape(first)}<br>{escape(second)}"
        + (f"<small>{escape(count)}</small>" if count else "")
        + "</th>"
        for (first, second), count in zip(heads, told, strict=True)
    )
    return f"<tr>{cells}</tr>"


def _row(table: Table, row: Row, run: PageRow) -> str:
    cells = "".join(
        _cell(cell, cell_of(run.aggregate, key))
        for cell, key in zip(row.cells, table.keys, strict=True)
    )
    counts = f"<td>{escape(row.degraded)}/{escape(row.failed)}</td>"
    return f"<tr>{_named(row, run)}{cells}{counts}</tr>"


def _named(row: Row, run: PageRow | None = None) -> str:
    name = escape(row.name)
    if run is not None:
        name = f'<a href="#{run.anchor}">{name}</a>'
    under = "".join(f"<small>{escape(line)}</small>" for line in row.under)
    return f'<th scope="row">{name}{under}</th>'


def _cell(cell: Cell, raw: Mapping[str, Any] | None) -> str:
    n = f"n {raw['n']}/{raw['N']}" if raw is not None and raw["value"] is not None else ""
    beneath = [cell.interval, n, f"v: {cell.valid}" if cell.valid else ""]
    small = "".join(f"<small>{escape(text)}</small>" for text in beneath if text)
    told = escape(tooltip(raw), quote=True)
    return f'<td title="{told}">{escape(cell.value + cell.mark)}{small}</td>'


def tooltip(raw: Mapping[str, Any] | None) -> str:
    """What a cell is made of, in one sentence."""
    if raw is None or raw["value"] is None:
        return str((raw or {}).get("na") or "not measured")
    interval = raw["interval"]
    between = (
        f"95 % interval {interval[0]:.3f} to {interval[1]:.3f} over "
        f"{counted(raw['clusters'], 'conversations')}"
        if interval
        else f"no interval: {raw.get('no_interval') or 'no reason recorded'}"
    )
    valid = "none" if raw["valid"] is None else f"{raw['valid']:.4f}"
    over = f"{raw['N']} {raw.get('unit', 'units')}"
    return (
        f"{raw['metric_id']}: strict {raw['value']:.4f} over {over}, "
        f"{valid} over the {raw['n']} valid ones; {between}"
    )


def _beside(table: Table) -> str:
    if table.beside is None:
        return ""
    rows = "".join(
        f"<tr>{_named(row)}{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for row, values in zip(table.rows, table.beside.rows, strict=True)
    )
    return _wide(_head([("", ""), *table.beside.heads]), rows)


def _numbers(rows: Sequence[PageRow]) -> str:
    """What each number that stands in a table means."""
    shown = [key for table in tables_of([r.aggregate for r in rows]) for key in table.keys]
    told = [(" ".join(HEADS[key]), ABOUT[key]) for key in HEADS if key in shown]
    told.append(("recall@k, nDCG@k by source", f"{_SOURCES} {WHY_DIFFERENT}"))
    told += [(" ".join(heads), about) for heads, _, about in MEASURED.values()]
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(about)}</dd>" for name, about in told)
    return f"<section><h2>What the numbers mean</h2><dl>{lines}</dl></section>"


def _details(row: PageRow, out: Path) -> str:
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts_of(row)
    )
    name = escape(str(row.aggregate.get("row", row.path.name)))
    link = escape(_link(row.path, out), quote=True)
    return (
        f'<section id="{row.anchor}"><h3>{name}</h3>'
        f'<p><a href="{link}">{escape(str(row.path))}</a></p><dl>{lines}</dl></section>'
    )


def facts_of(row: PageRow) -> list[tuple[str, str]]:
    """What stands under a row: how its units ended, and with what it was made."""
    facts = [
        (name, ", ".join(f"{n} {status}" for status, n in statuses.items() if n))
        for name, statuses in row.aggregate["statuses"].items()
    ]
    facts += [(name, value) for name, value in _made_with(row.manifest) if value]
    named = ("title", "dataset_sha256", "sandbox", "network", "images", "shard", "alias_of")
    shown = {"images": "images in the data"}
    facts += [
        (shown.get(name, name.replace("_", " ")), str(row.aggregate[name]))
        for name in named
        if row.aggregate.get(name)
    ]
    return facts + [("note", str(note)) for note in row.aggregate.get("notes") or ()]


def _made_with(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    about, pipeline = manifest.get("about") or {}, manifest.get("pipeline") or {}
    git = about.get("git") or {}
    box = pipeline.get("box") or {}
    commit = f"{git.get('commit', '')}{' (changed)' if git.get('dirty') else ''}"
    image = [box.get("image") or box.get("environment"), box.get("image_id")]
    return [
        ("made", str(about.get("created") or "")),
        ("memrig", str((pipeline.get("memrig") or {}).get("version") or "")),
        ("memrig commit", commit),
        ("image" if box.get("image") else "environment", " ".join(str(i) for i in image if i)),
    ]


def _link(path: Path, out: Path) -> str:
    relative = os.path.relpath(path.resolve(), out.resolve().parent)
    return quote(Path(relative).as_posix()) + "/"


READING = (
    "Below a value stand its 95 % interval, and n/N: the valid of the planned units. Point at a "
    "cell for the metric's id, and the score over valid units."
)
SCROLLS = "On a narrow screen the table scrolls sideways."
_SOURCES = (
    "Of the source turns that a question cites, the share among the sources of the first k "
    "memories, by id; nDCG weighs them by rank."
)

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
.hint { display: none; color: GrayText; margin: 1rem 0 0; }
@media (max-width: 60rem) { .hint { display: block; } }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; }
tbody tr, thead { border-bottom: 1px solid #8884; }
thead th { font-weight: 500; white-space: nowrap; }
tbody th { text-align: left; position: sticky; left: 0; background: Canvas; }
small { display: block; color: GrayText; font-weight: normal; }
ul { color: GrayText; padding-left: 1.2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: GrayText; } dd { margin: 0; overflow-wrap: anywhere; }
"""
