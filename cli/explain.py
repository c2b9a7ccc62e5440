"""`memrig explain`: how a number came about, down to the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.report.explain import Explanation
    from harness.runs import Run


def explain(
    run: Annotated[Path, typer.Argument(help="A finished run.", metavar="RUN")],
    what: Annotated[
        str | None,
        typer.Argument(
            help="A number (recall, correctness, update, interference, qa, hallucination, "
            "evidence, or its full name), or a question: SAMPLE/QUESTION, its id, or words of it.",
            metavar="METRIC|QUESTION",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="Show this many records, the worst first.", min=0, metavar="N")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print all records as JSON.")] = False,
) -> None:
    """Show how a number came about: its formula, its parts, and the records behind them.

    Without a number the run's numbers are listed. With a question, its story: what was retrieved,
    what was answered, and why the verdict is what it is.

    Examples:
      memrig explain runs/mine/BM25
      memrig explain runs/mine/BM25 recall --limit 3
      memrig explain runs/mine/BM25 qa --json
      memrig explain runs/mine/BM25 sample_001/cp01:3
      memrig explain runs/mine/BM25 "which theme"
    """
    from harness.outcomes import UnknownName
    from harness.report.explain import explain as explained
    from harness.report.explain import metric_of
    from harness.report.html import rows_under
    from harness.runs import Run
    from harness.runs.directory import JUDGED_QUESTIONS, JUDGED_SESSIONS

    opened = Run.open(run)
    if what is None:
        typer.echo("\n".join(_numbers(rows_under([run])[0].aggregate, run)))
        return
    try:
        number = metric_of(what)
    except UnknownName:
        _question(opened, what, as_json)
        return
    found = explained(
        number,
        rows_under([run])[0].aggregate,
        opened.judged(JUDGED_SESSIONS),
        opened.judged(JUDGED_QUESTIONS),
    )
    typer.echo(_as_json(found) if as_json else "\n".join(_told(found, limit)))


def _numbers(aggregate: Mapping[str, Any], run: Path) -> list[str]:
    lines = [str(aggregate["title"]), f"row {aggregate.get('row')}", ""]
    for dimension, numbers in aggregate["dimensions"].items():
        for name, cell in numbers.items():
            value = f"N/A: {cell['na']}" if cell["value"] is None else f"{cell['value']:.4f}"
            count = "" if cell["value"] is None else f"  over {cell['N']} {cell['unit']}"
            lines.append(f"{dimension + '.' + name:<42}{value}{count}")
    return [*lines, "", f"one of them: memrig explain {run} recall"]


def _told(found: Explanation, limit: int) -> list[str]:
    from harness.aggregate.stats import wilson

    cell = found.cell
    lines = [f"{found.key} = {found.metric_id}", found.how]
    if cell["value"] is None:
        lines.append(f"N/A: {cell['na']}")
    else:
        top = f"{float(found.numerator):.4f}".rstrip("0").rstrip(".")
        lines.append(f"{top} / {found.denominator} {cell['unit']} = {cell['value']:.4f} (strict)")
        valid = "N/A" if cell["valid"] is None else f"{cell['valid']:.4f}"
        lines.append(f"over valid units: {valid}, n/N = {cell['n']}/{cell['N']}")
        bounds = cell["interval"]
        told = f"{bounds[0]:.4f} to {bounds[1]:.4f}" if bounds else f"none ({cell['no_interval']})"
        lines.append(f"95 % interval over {cell['clusters']} conversations: {told}")
        if found.numerator.denominator == 1 and cell["unit"] != "sessions":
            low, high = wilson(int(found.numerator), found.denominator) or (0.0, 1.0)
            lines.append(
                f"Wilson, unclustered (as if all were independent): {low:.4f} to {high:.4f}"
            )
    lines += [f"{count} records without it: {why}" for why, count in found.without.items()]
    for unit in found.units[:limit]:
        after = ", after a failed session" if unit.after_failure else ""
        share = f"{float(unit.numerator or 0):.3g}/{unit.denominator}"
        lines += ["", f"{unit.sample_id} {unit.where}: {share} ({unit.status}{after})"]
        lines += [f"  {text}" for text in unit.shown]
    more = len(found.units) - limit
    if more > 0:
        lines += ["", f"{more} more records: --limit {len(found.units)}"]
    return lines


def _as_json(found: Explanation) -> str:
    units = [
        {**vars(unit), "numerator": float(unit.numerator or 0), "shown": list(unit.shown)}
        for unit in found.units
    ]
    value = {
        "key": found.key,
        "metric_id": found.metric_id,
        "how": found.how,
        "cell": dict(found.cell),
        "numerator": float(found.numerator),
        "denominator": found.denominator,
        "without": dict(found.without),
        "records": units,
    }
    return json.dumps(value, ensure_ascii=False, indent=2)


def _question(run: Run, wanted: str, as_json: bool) -> None:
    from harness.outcomes import UsageError
    from harness.report.explain import find_question, question_story
    from harness.runs.directory import JUDGED_QUESTIONS

    found = find_question(run.judged(JUDGED_QUESTIONS), wanted)
    if not found:
        raise UsageError(
            f"{wanted!r} is no number of the table and in no question of this run.\n"
            f"  The numbers: memrig explain {run.path}"
        )
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    for line in found[:5]:
        typer.echo("\n".join([*question_story(line), ""]))
    if len(found) > 5:
        typer.echo(f"{len(found) - 5} more questions match; give SAMPLE/QUESTION for one of them")
