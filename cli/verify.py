"""`memrig verify`: recompute what a run says about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def verify(
    runs: Annotated[list[Path], typer.Argument(help="Finished runs.", metavar="RUN...")],
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Where the data are.  [default: where they were when the run was made]",
            metavar="DIR",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check that runs are what they say: files, units, snapshots, answers, verdicts, numbers.

    Everything that can be computed again is, from the records and the data. Exit code 1 when
    anything does not agree or could not be checked.

    Examples:
      memrig verify runs/mine/BM25
      memrig verify runs/mine/*
      memrig verify runs/mine/BM25 --dataset ~/data/moved --json
    """
    from harness.loaders import open_dataset
    from harness.verification import verify as verified

    data = open_dataset(dataset) if dataset is not None else None
    found = [verified(run, data) for run in runs]
    if as_json:
        made = [
            {
                "run": str(each.path),
                "passed": each.passed,
                "checks": [vars(check) for check in each.checks],
            }
            for each in found
        ]
        typer.echo(json.dumps(made, ensure_ascii=False, indent=2))
    else:
        for each in found:
            typer.echo(f"{each.path}: {'verified' if each.passed else 'NOT VERIFIED'}")
            for check in each.checks:
                typer.echo(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name}: {check.detail}")
    if not all(each.passed for each in found):
        raise typer.Exit(1)
