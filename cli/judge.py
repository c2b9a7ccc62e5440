"""`memrig judge`: grade a run's records anew, or with another judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def judge(
    run: Annotated[Path, typer.Argument(help="A complete run.", metavar="RUN")],
    preset: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="keyed, gold_found, or a preset file.  [default: what the data allow]",
            metavar="NAME|FILE",
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Where its data are.  [default: where they were when it was made]", metavar="DIR"
        ),
    ] = None,
    max_eval_workers: Annotated[
        int, typer.Option(help="Judgements at a time.", min=1, metavar="N")
    ] = 5,
) -> None:
    """Grade a run's records again and add them up; no system is started.

    The data must be the very data that the run was made with (their hash is checked).

    Examples:
      memrig judge runs/mine/BM25
      memrig judge runs/mine/BM25 --judge gold_found
      memrig judge runs/mine/BM25 --dataset ~/data/moved
    """
    from cli.errors import say
    from harness.judging import load_preset, preset_for
    from harness.loaders import open_dataset
    from harness.outcomes import UsageError
    from harness.runs import Manifest, Run
    from harness.stages import aggregate_run, check_dataset, judge_facts, judge_run

    stored = Manifest.read(run)
    place = dataset or Path(stored.about["dataset_path"])
    if not place.exists():
        raise UsageError(f"the data of this run are not at {place} any more; say where: --dataset")
    data = open_dataset(place)
    chosen = load_preset(preset) if preset else preset_for(data)
    with Run.resume(run, stored.with_judge(judge_facts(chosen)), rejudge=True) as opened:
        check_dataset(opened, data)
        graded = judge_run(opened, data, chosen, workers=max_eval_workers, fresh=True)
        aggregate_run(opened, chosen)
    say(f"{graded} records judged by {chosen.id}; see: memrig table {run}")
    typer.echo(run / "aggregate_metrics.json")
