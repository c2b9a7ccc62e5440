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
    from cli.folders import the_run, why_unfinished
    from harness.loaders import open_dataset
    from harness.loaders.cards import named
    from harness.runs.directory import damage
    from harness.verification import Check, Verification
    from harness.verification import verify as verified

    opened = [the_run(run) for run in runs]
    data = open_dataset(named(dataset)) if dataset is not None else None
    found = [
        Verification(run.path, (Check("finished", False, _with_damage(why, damage(run.path))),))
        if (why := why_unfinished(run))
        else verified(run.path, data)
        for run in opened
    ]
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
            if each.checks[0].name == "finished":
                typer.echo(f"{each.path}: {each.checks[0].detail}")
                continue
            typer.echo(f"{each.path}: {'verified' if each.passed else 'NOT VERIFIED'}")
            for check in each.checks:
                typer.echo(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name}: {check.detail}")
    if not all(each.passed for each in found):
        raise typer.Exit(1)


def _with_damage(why: str, found: str | None) -> str:
    return f"{why}\n  stage files: {found}" if found else why
