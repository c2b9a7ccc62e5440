"""`memrig bench`: build, run, judge, aggregate and print the table, for one system or several."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cli.options import BuildOptions, RunOptions, flattened

#: The rows that check the rig, from the floor to the ceiling.
REFERENCE_ROWS = ("NoMemory", "FullContext", "BM25", "Oracle", "ConstantFloor")

SAMPLE_DATA = Path(__file__).resolve().parent.parent / "datasets" / "sample"


@flattened
def bench(
    common: RunOptions,
    build: BuildOptions,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            help="Systems: names from `memrig list`, with blanks between or repeated."
            f"  [default: {' '.join(REFERENCE_ROWS)}]",
            metavar="NAMES",
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            "--dataset",
            help="A data set: a folder, a file or a name (`memrig data list`)."
            "  [default: memrig's own sample data]",
            metavar="DIR",
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            help="Holds one run for each row; give it again to go on."
            "  [default: runs/<data>-<time>]",
            metavar="DIR",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows' numbers as JSON on stdout.")
    ] = False,
) -> None:
    """Run systems over a data set, from build to the six-dimension table.

    Without --baseline these are the reference rows and BM25, without --dataset memrig's own sample
    data: a check of the rig. A row that fails does not stop the others. The same command with the
    same --output-dir goes on where a killed one was.

    Examples:
      memrig bench
      memrig bench --baseline "BM25 MemEngine-LTMemory" --dataset DIR --jobs 2
      memrig bench --baseline BM25 --dataset DIR --output-dir runs/bm25
      memrig bench --baseline MySystem --baselines ~/my-systems --smoke
      memrig bench --sandbox venv
    """
    from cli.rows import Plan, as_json_text, closing, dry_run, run_rows

    given = REFERENCE_ROWS if baseline is None else baseline
    names = [name for part in given for name in re.split(r"[\s,]+", part)]
    plan = Plan.of(
        dataset or SAMPLE_DATA,
        [name for name in names if name],
        output_dir,
        common,
        build,
        each_in_folder=True,
    )
    if common.dry_run:
        dry_run(plan, typer.echo)
        return
    outcome = run_rows(plan)
    if as_json:
        typer.echo(as_json_text(plan, outcome))
    elif outcome.aggregates:
        typer.echo(closing(outcome))
        if is_sample_data(plan.dataset):
            typer.echo(f"\n{what_this_was()}")
    raise typer.Exit(outcome.exit_code)


def what_this_was() -> str:
    """The last line after a run on our own data."""
    from cli.words import program

    return (
        "This checks the rig on memrig's own sample data; it compares nothing. To compare memory "
        f'systems: {program()} bench --baseline "BM25 MemEngine-LTMemory" --dataset DIR, with real '
        f"conversations in DIR ({program()} data check DIR)."
    )


def is_sample_data(dataset: Path) -> bool:
    """The data that ship with memrig."""
    return dataset.resolve() == SAMPLE_DATA.resolve()
