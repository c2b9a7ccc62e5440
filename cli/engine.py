"""`memrig engine`: bring a bare Debian machine to a running container engine and a base image."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.options import BuildOptions, flattened


@flattened
def engine(
    build: BuildOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Install and start a container engine, and get or make the base image, where one is missing.

    Says what it will do and asks. Installing and starting need root. A second run finds all in
    place and takes seconds.

    Examples:
      sudo memrig engine
      make engine YES=1
    """
    from harness.bootstrap import Bootstrap
    from harness.outcomes import UsageError

    bootstrap = Bootstrap(build.settings(), say=lambda line: typer.echo(line, err=True))
    plan = bootstrap.plan()
    if plan.lines:
        typer.echo("memrig engine will:", err=True)
        for line in plan.lines:
            typer.echo(f"  - {line}", err=True)
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("nothing was done: without a terminal, say --yes (make: YES=1)")
            typer.confirm("Go on?", abort=True, err=True)
    settings = bootstrap.carry_out(plan)
    network = "the host's network" if settings.build_network_host else "the engine's own network"
    typer.echo(f"the engine answers; base image {settings.base_image}; builds use {network}")
    typer.echo("next: memrig doctor, or make bench")
