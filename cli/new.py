"""`memrig new`: the folder of a new system, working as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.words import program


def new(
    name: Annotated[str, typer.Argument(help="What the system is called; never changes owner.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="The folder that gets it; `--baselines DIR` finds it there."
            "  [default: memrig's own baselines/]",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Make a folder for a new system. It passes `memrig check` as it stands.

    The folder holds a small memory that works and comments that say where yours goes. Nothing
    outside it is touched.

    Examples:
      memrig new MySystem
      memrig new MySystem --dir ~/my-baselines
    """
    from harness.catalog import SHIPPED, Catalog
    from harness.scaffold import new_baseline

    parent = SHIPPED if directory is None else directory
    extra = [directory] if directory is not None and directory.is_dir() else []
    for path in new_baseline(name, parent, Catalog(extra)):
        typer.echo(path)
    found = "" if directory is None else f" --baselines {directory}"
    memrig = program()
    typer.echo(
        f"\nNext: put your system into {parent / name / 'adapter.py'}, then\n"
        f"  {memrig} check {name}{found}\n"
        f"  {memrig} bench --baseline {name}{found}",
        err=True,
    )
