"""`memrig judge`: grade a run's records anew, or measure a judge itself.

`memrig judge RUN` is short for `memrig judge run RUN`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from harness.judging.calibration import Calibration, Rate, Scores

DEFAULT = "run"


class RunByDefault(TyperGroup):
    """A group whose first word may be left out: what names no command of it is a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word in that was left out."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help=(
        "Grade a run's records anew, or measure a judge itself.\n\n"
        "`memrig judge RUN` is short for `memrig judge run RUN`."
    ),
)


@app.command(DEFAULT)
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
      memrig judge run runs/mine/BM25 --dataset ~/data/moved
    """
    from cli.errors import say
    from harness.judging import load_preset, preset_for
    from harness.loaders import open_dataset
    from harness.outcomes import UsageError
    from harness.runs import Manifest, Run
    from harness.runs.directory import JUDGED_QUESTIONS, JUDGED_SESSIONS
    from harness.runs.files import size_of
    from harness.stages import aggregate_run, check_dataset, judge_facts, judge_run

    stored = Manifest.read(run)
    place = dataset or Path(stored.about["dataset_path"])
    if not place.exists():
        raise UsageError(f"the data of this run are not at {place} any more; say where: --dataset")
    data = open_dataset(place)
    chosen = load_preset(preset) if preset else preset_for(data)
    had_judgement = size_of(run / JUDGED_SESSIONS) + size_of(run / JUDGED_QUESTIONS) > 0
    with Run.rejudge(run, stored.with_judge(judge_facts(chosen))) as opened:
        check_dataset(opened, data)
        graded = judge_run(opened, data, chosen, workers=max_eval_workers, fresh=True)
        aggregate_run(opened, chosen)
    before = stored.judge["id"]
    if had_judgement:
        told = "the same judge" if before == chosen.id else before
        say(f"this replaces the run's judgement by {told}")
    say(f"{graded} records judged by {chosen.id}; see: memrig table {run}")
    typer.echo(run / "aggregate_metrics.json")


@app.command("calibrate")
def calibrate(
    preset: Annotated[
        str, typer.Argument(help="keyed, gold_found, or a preset file.", metavar="PRESET")
    ],
    items: Annotated[
        Path | None,
        typer.Option(help="Other items than those that ship.", metavar="FILE"),
    ] = None,
    max_eval_workers: Annotated[
        int, typer.Option(help="Judgements at a time.", min=1, metavar="N")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the verdict on every item.")
    ] = False,
) -> None:
    """Measure a judge on items whose right verdict is known: 60 English, 60 Chinese.

    Prints how many answers of each kind it accepts (of right ones it should be all, of wrong ones
    none), and how well its three verdicts agree with the labels, a language beside the other.

    Examples:
      memrig judge calibrate keyed
      memrig judge calibrate gold_found --json | jq .overall.false_correct
      memrig judge calibrate ~/judges/mine.yaml --items ~/judges/items.jsonl
    """
    from harness.judging import calibration as measured
    from harness.judging import load_preset
    from harness.judging.items import load_items, shipped_items

    chosen = load_preset(preset)
    on = load_items(items) if items else shipped_items()
    found = measured.calibrate(chosen, on, workers=max_eval_workers)
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    else:
        typer.echo(as_text(found))


#: The width of the names, of a column of a language, and of the column of all.
_NAME, _PART, _ALL = 30, 12, 28


def as_text(found: Calibration) -> str:
    """The numbers, a column for all items and one for each language."""
    from harness.judging.items import CORRECT, KINDS

    parts = [found.overall, *found.languages.values()]
    lines = [
        f"{found.preset.title} [{found.preset.id}]",
        f"{found.overall.n} items [{found.items.id}]",
        "",
        _line("", ["all (95 %, Wilson)", *found.languages]),
    ]
    for right, head in ((True, "accepted of right answers"), (False, "accepted of wrong answers")):
        lines.append(head)
        for kind, labels in KINDS.items():
            if (CORRECT in labels) == right and kind in found.overall.acceptance:
                name = f"  {kind.replace('_', ' ')}"
                lines.append(_line(name, _rates([p.acceptance.get(kind) for p in parts])))
    lines += [
        "",
        _line("false Correct", _rates([part.false_correct for part in parts])),
        _line("missed Correct", _rates([part.missed_correct for part in parts])),
        _line("accuracy, three classes", _rates([part.accuracy for part in parts])),
        _line("Cohen's kappa", [_number(part.kappa) for part in parts]),
    ]
    if found.overall.failed:
        lines.append(f"failed to judge {found.overall.failed} of {found.overall.n} items")
    return "\n".join([*lines, "", *_reading(found.overall)])


def _reading(overall: Scores) -> list[str]:
    if overall.accuracy is None:
        return ["It gives no verdicts, so there is no accuracy in three classes and no kappa."]
    return ["Three classes: Correct, Hallucination, Omission. Items are independent questions."]


def _line(name: str, cells: list[str]) -> str:
    first, *rest = cells
    return f"{name:<{_NAME}}{first:<{_ALL}}{''.join(f'{c:<{_PART}}' for c in rest)}".rstrip()


def _rates(rates: list[Rate | None]) -> list[str]:
    from harness.aggregate.stats import wilson

    cells = [_rate(rate) for rate in rates]
    bounds = wilson(rates[0].hits, rates[0].n) if rates[0] else None
    if bounds is not None:
        cells[0] = f"{cells[0]:<14}{_number(bounds[0])}-{_number(bounds[1])}"
    return cells


def _rate(rate: Rate | None) -> str:
    if rate is None or rate.value is None:
        return "-"
    return f"{_number(rate.value):<5} {rate.hits}/{rate.n}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
