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
    title: Annotated[
        str | None, typer.Option(help="The page's title.  [default: its data and number of runs]")
    ] = None,
) -> None:
    """Write the tables of runs as one static HTML file.

    Rows with another data set, judge or answerer stand in tables of their own.

    Examples:
      memrig report runs/sample-20260101-120000 -o report.html
      memrig report runs/a/BM25 runs/b/BM25 -o both.html --title "BM25, two data sets"
    """
    from harness.report.html import page, title_of
    from harness.report.names import counted
    from harness.report.places import rows_under

    rows = rows_under(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(rows, out, title or title_of(rows)), encoding="utf-8")
    typer.echo(f"{counted(len(rows), 'runs')}, one page:", err=True)
    typer.echo(out)
