"""Finished runs, found in folders, in the order in which they were given or made."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.outcomes import UsageError
from harness.runs.aggregates import read_aggregate, read_manifest

Aggregate = Mapping[str, Any]

#: Files of a run directory. A page reads runs of any memrig, so it knows their names itself.
AGGREGATE = "aggregate_metrics.json"
PIPELINE_SESSIONS = "pipeline_sessions.jsonl"


@dataclass(frozen=True)
class PageRow:
    """One run: its directory, its aggregate and what its manifest says besides.

    Where several runs found together have one row name, ``aggregate["run"]`` tells them apart.
    """

    path: Path
    aggregate: Aggregate
    manifest: Mapping[str, Any]

    @property
    def anchor(self) -> str:
        """The id of its section on the page."""
        return quote(f"run-{self.path.resolve().as_posix().strip('/')}", safe="")

    @property
    def created(self) -> str:
        """When it was made, as the manifest says; empty where it does not."""
        return str((self.manifest.get("about") or {}).get("created") or "")

    @property
    def order(self) -> tuple[str, int]:
        """Sorts runs by when they were made; those of one second by when stage 1 was written."""
        written = self.path / PIPELINE_SESSIONS
        return self.created, written.stat().st_mtime_ns if written.exists() else 0


def rows_under(places: Sequence[Path]) -> list[PageRow]:
    """The runs in some folders: each a run itself, or a folder that holds runs at any depth.

    Places stand in the order given, the runs of one folder in the order in which they were made.

    Raises:
        UsageError: a place that is not there or holds no finished run.
        RunError: a damaged aggregate or manifest, or one of a newer memrig.
    """
    found: dict[Path, PageRow] = {}
    for place in places:
        files = [place / AGGREGATE] if (place / AGGREGATE).is_file() else _below(place)
        if not files:
            raise UsageError(
                f"{place} holds no finished run: no {AGGREGATE} in it or below.\n"
                "  A run that was killed goes on with the same command as before."
            )
        rows = sorted((_read(file) for file in files), key=lambda row: row.order)
        for row in rows:
            found.setdefault(row.path.resolve(), row)
    return told_apart(list(found.values()))


def told_apart(rows: Sequence[PageRow]) -> list[PageRow]:
    """The rows, those of one name with the part of their path that tells them apart."""
    times = Counter(str(row.aggregate.get("row")) for row in rows)
    made = []
    for row in rows:
        others = [r.path for r in rows if r is not row and _same_name(r, row)]
        if times[str(row.aggregate.get("row"))] > 1:
            label = _own_part(row.path, others)
            row = replace(row, aggregate={**row.aggregate, "run": label})
        made.append(row)
    return made


def _same_name(a: PageRow, b: PageRow) -> bool:
    return bool(a.aggregate.get("row") == b.aggregate.get("row"))


def _own_part(path: Path, others: Sequence[Path]) -> str:
    """The deepest folder's name that no other path has at that depth."""
    parts = path.resolve().parts[::-1]
    theirs = [other.resolve().parts[::-1] for other in others]
    for depth, part in enumerate(parts):
        if all(len(other) <= depth or other[depth] != part for other in theirs):
            return part
    return str(path)


def _below(place: Path) -> list[Path]:
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}")
    return sorted(place.rglob(AGGREGATE))


def _read(file: Path) -> PageRow:
    run = Path(os.path.normpath(file.parent))
    return PageRow(run, read_aggregate(run), read_manifest(run))
