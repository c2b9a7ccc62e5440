"""`memrig source`: code that no package registry has, pinned by commit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def source() -> None:
    """Get the pinned sources of systems whose code is in no package registry.

    Examples:
      memrig source get NAME
    """


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A system from `memrig list`.", metavar="NAME")],
    baselines: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with more systems; repeat for more.", metavar="DIR"),
    ] = None,
) -> None:
    """Fetch a system's sources with your own git, check their commits and keep them.

    Mirrors and credentials of your git configuration apply (url.<base>.insteadOf). A commit that
    says `unknown` in baseline.yaml is filled in with what was fetched.

    Examples:
      memrig source get MemGallery-LTMemory
      memrig source get MySystem --baselines ~/my-systems
    """
    from harness.catalog import Catalog
    from harness.sandbox.sources import fetch, record_commit, shown
    from harness.settings import Settings

    settings = Settings.load()
    row = Catalog(baselines or ()).expand(name)[0]
    if not row.sources:
        typer.echo(f"{row.family} needs no sources")
    for index, wanted in enumerate(row.sources):
        found = fetch(wanted, settings)
        size = sum(len(file.read()) for file in found.files)
        typer.echo(
            f"{shown(found.repository)} {found.commit}: {len(found.files)} files, "
            f"{size / 1e6:.1f} MB"
        )
        if wanted.commit == "unknown":
            record_commit(row.home / "baseline.yaml", index, found.commit)
            typer.echo(f"  written into {row.home / 'baseline.yaml'}", err=True)
