"""`memrig run`: one system over one data set, all three stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import BuildOptions, RunOptions, flattened


@flattened
def run(
    dataset: Annotated[
        Path,
        typer.Option(
            "--dataset",
            help="A data set: a folder, a file or a name (`memrig data list`).",
            metavar="DIR",
        ),
    ],
    baseline: Annotated[
        str, typer.Option("--baseline", help="A name from `memrig list`.", metavar="NAME")
    ],
    common: RunOptions,
    build: BuildOptions,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            help="The run's directory; give it again to go on."
            "  [default: runs/<data>-<time>/<row>]",
            metavar="DIR",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the aggregate as JSON on stdout.")
    ] = False,
) -> None:
    """Run one system over a data set: pipeline, judge, aggregate.

    The directory holds every record of the run. The same command with the same --output-dir goes
    on where a killed run was; a run made with other settings is never resumed into.

    Examples:
      memrig run --dataset datasets/sample --baseline BM25 --output-dir runs/bm25
      memrig run --dataset datasets/sample --baseline BM25 --smoke
      memrig run --dataset datasets/sample --baseline BM25 --output-dir runs/bm25 --eval-only
      memrig run --dataset DIR --baseline BM25 --shard 1/4 --output-dir runs/part1
      memrig run --dataset datasets/sample --baseline BM25 --option k1=1.2 --dry-run
    """
    from cli.rows import Plan, as_json_text, closing, dry_run, run_rows

    plan = Plan.of(dataset, [baseline], output_dir, common, build, each_in_folder=False)
    if common.dry_run:
        dry_run(plan, typer.echo)
        return
    outcome = run_rows(plan)
    if as_json:
        typer.echo(as_json_text(plan, outcome))
    elif outcome.aggregates:
        typer.echo(closing(outcome))
    raise typer.Exit(outcome.exit_code)
