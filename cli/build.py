"""`memrig build`: make the images (or environments) of systems now, not at their first run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import say
from cli.options import BuildOptions, Sandbox, flattened
from cli.words import pasteable


@flattened
def build(
    build: BuildOptions,
    names: Annotated[list[str], typer.Argument(help="Systems from `memrig list`.", metavar="NAME")],
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Build anew even if nothing has changed.")
    ] = False,
    sandbox: Annotated[
        Sandbox, typer.Option(help="auto is an image where an engine can make one, else a venv.")
    ] = Sandbox.AUTO,
    baselines: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with more systems; repeat for more.", metavar="DIR"),
    ] = None,
) -> None:
    """Build the image of each system, if it is not there already.

    An unchanged system is found in a second and not built. Prints one line each: image, size, time.

    Examples:
      memrig build BM25
      memrig build MemEngine --no-cache
      memrig build MySystem --baselines ~/my-systems --sandbox venv
    """
    from harness.catalog import Catalog
    from harness.outcomes import BuildError
    from harness.sandbox.factory import build_box

    settings = build.settings()
    catalog = Catalog(baselines or ())
    # Variants of one folder share an image, so each folder is built once.
    for name in names:
        if catalog.spelled(name) != name:
            say(f"{name} is read as {catalog.spelled(name)}")
    wanted = {row.family: row for name in names for row in catalog.expand(name)}
    failed = 0
    for row in wanted.values():
        try:
            line = build_box(
                row,
                settings,
                sandbox=sandbox.value,
                no_cache=no_cache,
                say=lambda text: typer.echo(pasteable(text), err=True),
            )
        except BuildError as error:
            failed += 1
            say(f"{row.family}: {error}")
            continue
        typer.echo(line)
    raise typer.Exit(1 if failed else 0)
