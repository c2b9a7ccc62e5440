"""`memrig table`: the six-dimension table of finished runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How the table is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"
    JSON = "json"


def table(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run directories, or folders that hold some.", metavar="RUN..."),
    ],
    fmt: Annotated[
        Format, typer.Option("--format", "-f", help="How the table is written.")
    ] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it there.", metavar="FILE")
    ] = None,
) -> None:
    """Print the six-dimension table of runs.

    A row is a run; those of one folder stand in the order in which they were made. Rows made with
    another data set, judge, answerer or depth stand in a table of their own. With each value: its
    95 % interval; n/N and the score over valid units where units failed; a mark for what cannot be
    told from the best. A narrow terminal gets two tables, one below the other.

    Examples:
      memrig table runs/sample-20260101-120000
      memrig table runs/a/BM25 runs/b/BM25 --format markdown
      memrig table runs/mine -f csv -o mine.csv
    """
    from harness.report.places import rows_under
    from harness.report.tables import render, renderable

    aggregates = [row.aggregate for row in rows_under(runs)]
    chosen = Format.JSON if as_json else fmt
    if out is not None:
        out.write_text(render(aggregates, chosen.value), encoding="utf-8")
        typer.echo(out)
        return
    if chosen is Format.TEXT:
        from rich.console import Console

        console = Console(highlight=False)
        if console.is_terminal:
            console.print(renderable(aggregates))
            return
    typer.echo(render(aggregates, chosen.value), nl=False)
