"""A static page of runs' tables: one file, no script, nothing fetched, every cell with its n.

Reads aggregates (``aggregate_metrics.json``) and a few facts of the manifests. Rows that another
data set, judge or answerer made stand in another table: they cannot be compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.outcomes import UsageError

JSONObject = dict[str, Any]


AGGREGATE = "aggregate_metrics.json"


@dataclass(frozen=True)
class PageRow:
    """One run: its directory and its aggregate."""

    path: Path
    aggregate: JSONObject


#: Fields of an aggregate that rows of one table have in common.
COMPARABLE = ("dataset", "judge", "answerer", "top_k", "title")


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
    tables = [_table(group, out) for group in groups(rows)]
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


def groups(rows: Sequence[PageRow]) -> list[list[PageRow]]:
    """Rows that may stand in one table, in the order in which they were given."""
    found: dict[tuple[str, ...], list[PageRow]] = {}
    for row in rows:
        key = tuple(str(row.aggregate.get(name)) for name in COMPARABLE)
        found.setdefault(key, []).append(row)
    return list(found.values())


def cells_of(aggregate: JSONObject) -> Iterator[tuple[str, str, JSONObject]]:
    """Every cell as (part, name, cell), the dimensions first, then retrieval."""
    for dimension, metrics in aggregate.get("dimensions", {}).items():
        yield from _cells(dimension, metrics)
    yield from _cells("retrieval", aggregate.get("retrieval", {}))


def _cells(part: str, metrics: Any) -> Iterator[tuple[str, str, JSONObject]]:
    if isinstance(metrics, dict):
        for name, cell in metrics.items():
            if isinstance(cell, dict) and "metric_id" in cell:
                yield part, name, cell


def _table(rows: Sequence[PageRow], out: Path) -> str:
    columns = list(
        dict.fromkeys((part, name) for row in rows for part, name, _ in cells_of(row.aggregate))
    )
    head = rows[0].aggregate
    caption = str(head.get("title") or f"{head.get('dataset')}, judge {head.get('judge')}")
    parts = "".join(
        f'<th colspan="{sum(p == part for p, _ in columns)}">{_words(part)}</th>'
        for part in dict.fromkeys(part for part, _ in columns)
    )
    names = "".join(f"<th>{_words(name)}</th>" for _, name in columns)
    body = "\n".join(_row(row, columns, out) for row in rows)
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr><th></th>{parts}</tr><tr><th>row</th>{names}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: PageRow, columns: Sequence[tuple[str, str]], out: Path) -> str:
    cells = {(part, name): cell for part, name, cell in cells_of(row.aggregate)}
    shown = "".join(_cell(cells.get(column)) for column in columns)
    return (
        f'<tr><th scope="row"><a href="#{_anchor(row)}">{escape(_name(row))}</a></th>{shown}</tr>'
    )


def _cell(cell: JSONObject | None) -> str:
    if cell is None:
        return '<td class="na" title="not measured in this run">-</td>'
    if cell.get("value") is None:
        reason = str(cell.get("na") or "no reason recorded")
        return f'<td class="na" title="{escape(reason, quote=True)}">N/A</td>'
    count = f"<small>{cell.get('n')}/{cell.get('N')}</small>"
    return f'<td title="{escape(tooltip(cell), quote=True)}">{number(cell["value"])} {count}</td>'


def tooltip(cell: JSONObject) -> str:
    """What a cell is made of, in one sentence."""
    interval = cell.get("interval")
    between = (
        f"95 % interval {number(interval[0])} to {number(interval[1])} over {cell.get('clusters')}"
        if interval
        else "no interval"
    )
    return (
        f"{cell['metric_id']}: strict {number(cell['value'])}, over valid units "
        f"{number(cell.get('valid'))}; n {cell.get('n')} of {cell.get('N')}; {between}"
    )


def number(value: Any) -> str:
    """Three decimals, or a dash."""
    return f"{value:.3f}" if isinstance(value, int | float) else "-"


def _details(row: PageRow, out: Path) -> str:
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts_of(row)
    )
    return (
        f'<section id="{_anchor(row)}"><h3>{escape(_name(row))}</h3>'
        f'<p><a href="{escape(_link(row.path, out), quote=True)}">{escape(str(row.path))}</a></p>'
        f"<dl>{lines}</dl></section>"
    )


def facts_of(row: PageRow) -> list[tuple[str, str]]:
    """What stands under a row: how its units ended, how it was run, how long calls took."""
    aggregate = row.aggregate
    facts = [
        (name, ", ".join(f"{n} {status}" for status, n in statuses.items() if n))
        for name, statuses in aggregate.get("statuses", {}).items()
    ]
    facts += [
        (name, str(aggregate[name]))
        for name in ("run_id", "sandbox", "network", "answerer", "notes")
        if aggregate.get(name)
    ]
    times = aggregate.get("measurements", {}).get("latency_ms", {})
    facts += [
        (f"{call} p50", f"{number(spread['p50'])} ms")
        for call, spread in times.items()
        if spread.get("p50") is not None
    ]
    return facts


def _name(row: PageRow) -> str:
    return str(row.aggregate.get("row") or row.path.name)


def _anchor(row: PageRow) -> str:
    return quote(f"run-{_name(row)}-{row.path.parent.name}", safe="")


def _link(path: Path, out: Path) -> str:
    relative = os.path.relpath(path.resolve(), out.resolve().parent)
    return quote(Path(relative).as_posix()) + "/"


def _words(name: str) -> str:
    return escape(name.replace("_", " "))


READING = (
    "Each cell is the strict score, in which a failed unit counts as wrong, with n of N units "
    "beside it; point at it for the score over valid units, the interval and the metric's id."
)

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; margin: 2rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
thead th { vertical-align: bottom; font-weight: 500; }
thead tr:first-child th { text-align: center; border-bottom: none; }
tbody th { text-align: left; position: sticky; left: 0; background: Canvas; }
small, .na { color: GrayText; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: GrayText; } dd { margin: 0; overflow-wrap: anywhere; }
"""
