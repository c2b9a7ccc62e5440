"""A static page of runs' tables: one file, no script, nothing fetched, every cell with its n.

The tables are those of :mod:`harness.report.layout`, so the page cannot say anything else than the
terminal does; here each cell also tells what it is made of, and each row leads to its run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.outcomes import UsageError
from harness.report.beside import Beside, beside_of
from harness.report.layout import Cell, Row, Table, tables_of

Aggregate = Mapping[str, Any]

AGGREGATE = "aggregate_metrics.json"


@dataclass(frozen=True)
class PageRow:
    """One run: its directory and its aggregate."""

    path: Path
    aggregate: Aggregate

    @property
    def anchor(self) -> str:
        """The id of its section on the page."""
        return quote(f"run-{self.path.resolve().as_posix().strip('/')}", safe="")


def rows_under(places: Sequence[Path]) -> list[PageRow]:
    """The runs in some folders: each a run itself, or a folder that holds runs at any depth.

    Raises:
        UsageError: a place that is not there or holds no finished run.
    """
    found: dict[Path, PageRow] = {}
    for place in places:
        files = [place / AGGREGATE] if (place / AGGREGATE).is_file() else _below(place)
        if not files:
            raise UsageError(
                f"{place} holds no finished run: no {AGGREGATE} in it or below.\n"
                "  A run that was killed goes on with the same command as before."
            )
        found.update({file.parent.resolve(): _read(file) for file in files})
    return list(found.values())


def _below(place: Path) -> list[Path]:
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}")
    return sorted(place.rglob(AGGREGATE))


def _read(file: Path) -> PageRow:
    try:
        aggregate = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is damaged: {error}") from None
    return PageRow(file.parent, aggregate)


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
            "<h2>Runs</h2>",
            *details,
            "</body></html>",
            "",
        ]
    )


def _table(table: Table, by_aggregate: Mapping[int, PageRow]) -> str:
    heads = [("", ""), *table.heads, ("degr./", "failed")]
    body = "\n".join(
        _row(table, row, by_aggregate[id(aggregate)])
        for row, aggregate in zip(table.rows, table.aggregates, strict=True)
    )
    under = "".join(f"<li>{escape(note)}</li>" for note in table.footnotes)
    return (
        f"<section><h2>{escape(table.title)}</h2>"
        + "".join(f"<p>{escape(line)}</p>" for line in table.subtitle)
        + _wide(_head(heads), body)
        + f"<ul>{under}</ul>"
        + _beside(beside_of(table.aggregates))
        + "</section>"
    )


def _wide(head: str, body: str) -> str:
    """A table that scrolls sideways where the window is narrow."""
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _head(heads: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<th>{escape(first)}<br>{escape(second)}</th>" for first, second in heads)
    return f"<tr>{cells}</tr>"


def _row(table: Table, row: Row, run: PageRow) -> str:
    cells = "".join(
        _cell(cell, found(run.aggregate, key))
        for cell, key in zip(row.cells, table.keys, strict=True)
    )
    kind = "<small>reference row</small>" if row.reference else ""
    name = f'<a href="#{run.anchor}">{escape(row.name)}</a>'
    counts = f"<td>{escape(row.degraded)}/{escape(row.failed)}</td>"
    return f'<tr><th scope="row">{name}{kind}</th>{cells}{counts}</tr>'


def found(aggregate: Aggregate, key: str) -> Mapping[str, Any] | None:
    """The raw cell behind ``dimension.name``."""
    dimension, _, name = key.partition(".")
    cell: Mapping[str, Any] | None = aggregate["dimensions"].get(dimension, {}).get(name)
    return cell


def _cell(cell: Cell, raw: Mapping[str, Any] | None) -> str:
    beneath = [cell.interval, cell.count, f"v: {cell.valid}" if cell.valid else ""]
    small = "".join(f"<small>{escape(text)}</small>" for text in beneath if text)
    told = escape(tooltip(raw), quote=True)
    return f'<td title="{told}">{escape(cell.value + cell.mark)}{small}</td>'


def tooltip(raw: Mapping[str, Any] | None) -> str:
    """What a cell is made of, in one sentence."""
    if raw is None or raw["value"] is None:
        return str((raw or {}).get("na") or "not measured")
    interval = raw["interval"]
    between = (
        f"95 % interval {interval[0]:.3f} to {interval[1]:.3f} over {raw['clusters']} conversations"
        if interval
        else f"no interval: {raw.get('no_interval') or 'no reason recorded'}"
    )
    valid = "none" if raw["valid"] is None else f"{raw['valid']:.4f}"
    over = f"{raw['N']} {raw.get('unit', 'units')}"
    return (
        f"{raw['metric_id']}: strict {raw['value']:.4f} over {over}, "
        f"{valid} over the {raw['n']} valid ones; {between}"
    )


def _beside(beside: Beside | None) -> str:
    if beside is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(value)}</td>" for value in values)
        + "</tr>"
        for name, values in beside.rows
    )
    return _wide(_head([("", ""), *beside.heads]), rows)


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
    """What stands under a row: how its units ended, and how it was run."""
    facts = [
        (name, ", ".join(f"{n} {status}" for status, n in statuses.items() if n))
        for name, statuses in row.aggregate["statuses"].items()
    ]
    named = ("title", "dataset_sha256", "sandbox", "network", "images", "shard", "alias_of")
    facts += [
        (name.replace("_", " "), str(row.aggregate[name]))
        for name in named
        if row.aggregate.get(name)
    ]
    return facts + [("note", str(note)) for note in row.aggregate.get("notes") or ()]


def _link(path: Path, out: Path) -> str:
    relative = os.path.relpath(path.resolve(), out.resolve().parent)
    return quote(Path(relative).as_posix()) + "/"


READING = "Point at a cell for the metric's id, n, and the score over valid units."

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
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
