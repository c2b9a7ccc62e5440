"""`memrig aggregate`: add up a judged run anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def aggregate(
    run: Annotated[Path, typer.Argument(help="A judged run.", metavar="RUN")],
    preset: Annotated[
        str | None,
        typer.Option(
            "--judge", help="The preset file, if the judge is none of memrig's.", metavar="FILE"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the aggregate; write nothing.")
    ] = False,
) -> None:
    """Add up a run's judged records into aggregate_metrics.json, without judging anything.

    Examples:
      memrig aggregate runs/mine/BM25
      memrig aggregate runs/mine/BM25 --dry-run
    """
    import json

    from harness.judging import load_preset
    from harness.outcomes import RunError
    from harness.runs import Manifest, Run
    from harness.stages import aggregate_run, aggregated

    stored = Manifest.read(run)
    judge = load_preset(preset or stored.judge["name"])
    if judge.id != stored.judge["id"]:
        raise RunError(
            f"{run} was judged by {stored.judge['id']}, this memrig has {judge.id}: "
            f"memrig judge {run}"
        )
    if dry_run:
        typer.echo(json.dumps(aggregated(Run.open(run), judge), ensure_ascii=False, indent=2))
        return
    with Run.rejudge(run, stored) as opened:
        aggregate_run(opened, judge)
    typer.echo(run / "aggregate_metrics.json")
