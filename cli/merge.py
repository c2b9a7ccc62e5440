"""`memrig merge`: put the shards of a run together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    shards: Annotated[
        list[Path], typer.Argument(help="All runs made with --shard i/n.", metavar="RUN...")
    ],
    output_dir: Annotated[
        Path, typer.Option("--output-dir", help="A new directory.", metavar="DIR")
    ],
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Where the data are.  [default: where they were when the shards were made]",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Put the shards of a run together, as if it had been one run; judge it and add it up.

    The shards must be all there, complete, and made alike. They stay as they are.

    Examples:
      memrig merge runs/part1 runs/part2 --output-dir runs/whole
      memrig merge runs/part* --output-dir runs/whole --dataset ~/data/moved
    """
    from cli.errors import say
    from harness.judging import load_preset
    from harness.loaders import open_dataset
    from harness.outcomes import UsageError
    from harness.runs import Manifest
    from harness.runs import merge as merged
    from harness.stages import aggregate_run, judge_run

    stored = Manifest.read(shards[0])
    place = dataset or Path(stored.about["dataset_path"])
    if not place.exists():
        raise UsageError(
            f"the data of these runs are not at {place} any more; say where: --dataset"
        )
    data, judge = open_dataset(place), load_preset(stored.judge["name"])
    with merged(shards, output_dir) as run:
        judge_run(run, data, judge)
        aggregate_run(run, judge)
        say(f"{len(run.finished)} samples of {len(shards)} shards; see: memrig table {output_dir}")
    typer.echo(output_dir)
