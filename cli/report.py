"""`memrig report`: runs as one static page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run directories, or folders that hold some.", metavar="DIR..."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The page to write.", metavar="FILE")
    ] = Path("report.html"),
    title: Annotated[str, typer.Option(help="The page's title.")] = "memrig",
) -> None:
    """Write the tables of runs as one static HTML file.

    Rows with another data set, judge or answerer stand in tables of their own.

    Examples:
      memrig report runs/sample-20260101-120000 -o report.html
      memrig report runs/a/BM25 runs/b/BM25 -o both.html --title "BM25, two data sets"
    """
    from harness.report.html import page, rows_under

    rows = rows_under(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(rows, out, title), encoding="utf-8")
    typer.echo(f"{len(rows)} run{'s' if len(rows) > 1 else ''}, one page:", err=True)
    typer.echo(out)
