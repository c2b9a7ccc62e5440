"""`memrig show`: a run, or the story of one of its samples."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.runs import Run
    from harness.runs.directory import Finished
    from harness.samples import Sample
    from harness.story import Line

STYLES = {"head": "bold", "dim": "dim", "good": "green", "bad": "red", "odd": "yellow"}


def show(
    run: Annotated[Path, typer.Argument(help="A run, finished or not.", metavar="RUN")],
    sample: Annotated[
        str | None,
        typer.Argument(help="One of its samples: its id, or s0001.", metavar="SAMPLE"),
    ] = None,
    items: Annotated[
        int, typer.Option(help="Memories and changes shown of each.", min=1, metavar="N")
    ] = 5,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Where the data are, to show the turns.  [default: where they were]", metavar="DIR"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the manifest, or the sample's records, as JSON.")
    ] = False,
) -> None:
    """Show what a run is, or tell one sample's story: turns, memories, questions, verdicts.

    Examples:
      memrig show runs/mine/BM25
      memrig show runs/mine/BM25 sample_001
      memrig show runs/mine/BM25 s0001 --items 2
      memrig show runs/mine/BM25 sample_001 --json
    """
    from cli.folders import the_run
    from cli.words import program
    from harness.story import find, overview, sample_story

    opened = the_run(run)
    if sample is None:
        if as_json:
            typer.echo((run / "manifest.json").read_text("utf-8"), nl=False)
            return
        _print(overview(opened))
        if opened.finished:
            _print_hint(f"one of them: {program()} show {run} {opened.finished[0].sample_id}")
        return
    entry = find(opened, sample)
    if as_json:
        typer.echo(_records(opened, entry))
        return
    _print(sample_story(opened, entry, _data(opened, entry, dataset), items=items))


def _data(run: Run, entry: Finished, given: Path | None) -> Sample | None:
    """The sample's data, if they are where they were and are still the same."""
    from cli.errors import say
    from harness.loaders import open_dataset
    from harness.loaders.cards import named
    from harness.outcomes import MemrigError
    from harness.stages import check_dataset

    place = named(given) if given else Path(run.manifest.about["dataset_path"])
    try:
        data = open_dataset(place)
        check_dataset(run, data)
        return data.sample(entry.sample_id)
    except MemrigError as error:
        if given is not None:
            raise
        say(f"turns are not shown: {str(error).splitlines()[0]}")
        return None


def _records(run: Run, entry: Finished) -> str:
    made: dict[str, Any] = {
        "sample_id": entry.sample_id,
        "attempt": entry.attempt,
        "sessions": [json.loads(line) for line in run.session_lines(entry)],
        "questions": [json.loads(line) for line in run.question_lines(entry)],
    }
    return json.dumps(made, ensure_ascii=False, indent=2)


def _print(lines: Iterable[Line]) -> None:
    """Styled on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        for line in lines:
            typer.echo("  " * line.indent + line.text)
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        text = Text(line.text, style=STYLES.get(line.style, ""))
        console.print(Padding(text, (0, 0, 0, 2 * line.indent)))


def _print_hint(text: str) -> None:
    typer.echo("")
    typer.echo(text)
