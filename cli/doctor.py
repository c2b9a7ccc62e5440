"""`memrig doctor`: what this machine has, what it lacks, and the command that mends it."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from cli.options import BuildOptions, flattened
from cli.words import program

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@flattened
def doctor(
    build: BuildOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Look at this machine: engine, limits that hold, disk, base image, package index, keys.

    Every line that is not well names the command that mends it. Exit code 1 if anything failed; a
    warning is no failure.

    Examples:
      memrig doctor
      memrig doctor --json
      memrig doctor --base-image registry.local/python:3.11 --package-index https://pypi.local/simple
    """
    from harness.catalog import Catalog
    from harness.doctor import examine, healthy

    settings = build.settings()
    checks = examine(settings, Catalog())
    well = healthy(checks)
    if as_json:
        rows = [
            {"field": field, "value": value, "origin": origin}
            for field, value, origin in settings.describe()
        ]
        report = {"ok": well, "checks": [check.as_json() for check in checks], "settings": rows}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
        raise typer.Exit(0 if well else 1)
    for check in checks:
        typer.echo(f"{_MARKS[check.state]}  {check.name:<14} {check.found}")
        if check.fix and check.state != "ok":
            fix = re.sub(r"^memrig ", f"{program()} ", check.fix)
            typer.echo(f"      {'':<14} mend: {fix}")
    typer.echo("\nBuilds use:")
    for field, value, origin in settings.describe():
        typer.echo(f"  {field:<18} {value or '-'}  ({origin})")
    raise typer.Exit(0 if well else 1)
