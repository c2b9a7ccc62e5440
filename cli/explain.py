"""`memrig explain`: how a number came about, down to the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.report.explain import Explanation
    from harness.report.measured import Measured
    from harness.report.names import Name
    from harness.runs import Run


def explain(
    run: Annotated[Path, typer.Argument(help="A finished run.", metavar="RUN")],
    what: Annotated[
        str | None,
        typer.Argument(
            help="A number, by its head in the table, its metric id or its full name; or a "
            "question: SAMPLE/QUESTION, its id, or words of it.",
            metavar="METRIC|QUESTION",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            help="Show this many records: failed ones, then the worst.", min=0, metavar="N"
        ),
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print all records as JSON.")] = False,
) -> None:
    """Show how a number came about: its formula, its parts, and the records behind them.

    Without a number the run's numbers are listed. With a question, its story: what was retrieved,
    what was answered, and why the verdict is what it is.

    Examples:
      memrig explain runs/mine/BM25
      memrig explain runs/mine/BM25 recall --limit 3
      memrig explain runs/mine/BM25 "QA correct" --json
      memrig explain runs/mine/BM25 recall@5
      memrig explain runs/mine/BM25 latency
      memrig explain runs/mine/BM25 sample_001/cp01:3
      memrig explain runs/mine/BM25 "which theme"
    """
    from harness.report.explain import explain as explained
    from harness.report.measured import measured
    from harness.report.names import find, names_of
    from harness.report.places import rows_under
    from harness.runs import Run
    from harness.runs.directory import JUDGED_QUESTIONS, JUDGED_SESSIONS

    opened = Run.open(run)
    aggregate = rows_under([run])[0].aggregate
    names = names_of(aggregate)
    if what is None:
        typer.echo("\n".join(_numbers(aggregate, names, run)))
        return
    name = find(names, what)
    if name is None:
        _question(opened, what, aggregate, names, as_json)
        return
    lines = opened.judged(JUDGED_SESSIONS), opened.judged(JUDGED_QUESTIONS)
    if name.kind == "measured":
        traced = measured(name, aggregate, *lines)
        typer.echo(_dumped(asdict(traced)) if as_json else "\n".join(_measured(traced, limit)))
        return
    found = explained(name, aggregate, *lines)
    typer.echo(_as_json(found) if as_json else "\n".join(_told(found, limit)))


def _numbers(aggregate: Mapping[str, Any], names: list[Name], run: Path) -> list[str]:
    from harness.report.names import counted

    lines = [str(aggregate["title"]), f"row {aggregate.get('row')}", ""]
    cells = {
        f"{dimension}.{name}": cell
        for dimension, numbers in aggregate["dimensions"].items()
        for name, cell in numbers.items()
    } | dict(aggregate.get("retrieval", {}))
    for key, cell in cells.items():
        value = f"N/A: {cell['na']}" if cell["value"] is None else f"{cell['value']:.4f}"
        count = "" if cell["value"] is None else f"  over {counted(cell['N'], cell['unit'])}"
        lines.append(f"{key:<42}{value}{count}")
    beside = [name.also[1] for name in names if name.kind == "measured"]
    return [
        *lines,
        f"and what was measured: {', '.join(beside)}",
        "",
        f"one of them: memrig explain {run} recall",
    ]


def _measured(found: Measured, limit: int) -> list[str]:
    lines = [found.head, found.about, *found.summary, ""]
    for record in found.records[:limit]:
        value = record.told or f"{record.value:.4g} {found.unit}"
        lines.append(f"{record.sample_id} {record.where}: {value}")
    return [*lines, *_more(len(found.records), limit)]


def _more(count: int, limit: int) -> list[str]:
    from harness.report.names import counted

    left = count - limit
    return ["", f"{counted(left, 'more records')}: --limit {count}"] if left > 0 else []


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _told(found: Explanation, limit: int) -> list[str]:
    from harness.aggregate.stats import wilson
    from harness.report.names import counted

    cell = found.cell
    lines = [f"{found.key} = {found.metric_id}", found.about, found.how]
    if cell["value"] is None:
        lines.append(f"N/A: {cell['na']}")
    else:
        top = f"{float(found.numerator):.4f}".rstrip("0").rstrip(".")
        lines.append(
            f"{top} / {counted(found.denominator, cell['unit'])} = {cell['value']:.4f} (strict)"
        )
        valid = "N/A" if cell["valid"] is None else f"{cell['valid']:.4f}"
        lines.append(f"over valid units: {valid}, n/N = {cell['n']}/{cell['N']}")
        bounds = cell["interval"]
        told = f"{bounds[0]:.4f} to {bounds[1]:.4f}" if bounds else f"none ({cell['no_interval']})"
        lines.append(f"95 % interval over {counted(cell['clusters'], 'conversations')}: {told}")
        pooled = cell["unit"] != "sessions" and "@" not in found.key
        if found.numerator.denominator == 1 and pooled:
            low, high = wilson(int(found.numerator), found.denominator) or (0.0, 1.0)
            lines.append(
                f"Wilson, unclustered (as if all were independent): {low:.4f} to {high:.4f}"
            )
    lines += [
        f"{counted(count, 'records')} without it: {why}" for why, count in found.without.items()
    ]
    for unit in found.units[:limit]:
        after = ", after a failed session" if unit.after_failure else ""
        share = f"{float(unit.numerator or 0):.3g}/{unit.denominator}"
        lines += ["", f"{unit.sample_id} {unit.where}: {share} ({unit.status}{after})"]
        lines += [f"  {text}" for text in unit.shown]
    return [*lines, *_more(len(found.units), limit)]


def _as_json(found: Explanation) -> str:
    units = [
        {**vars(unit), "numerator": float(unit.numerator or 0), "shown": list(unit.shown)}
        for unit in found.units
    ]
    value = {
        "key": found.key,
        "metric_id": found.metric_id,
        "about": found.about,
        "how": found.how,
        "cell": dict(found.cell),
        "numerator": float(found.numerator),
        "denominator": found.denominator,
        "without": dict(found.without),
        "records": units,
    }
    return _dumped(value)


def _question(
    run: Run, wanted: str, aggregate: Mapping[str, Any], names: list[Name], as_json: bool
) -> None:
    from harness.outcomes import UsageError
    from harness.report.explain import find_question, question_story
    from harness.report.names import listed
    from harness.runs.directory import JUDGED_QUESTIONS

    found = find_question(run.judged(JUDGED_QUESTIONS), wanted)
    if not found:
        raise UsageError(
            f"{wanted!r} is no number of the table and in no question of this run.\n"
            f"  Numbers: {', '.join(listed(names))}"
        )
    if as_json:
        typer.echo(_dumped(found))
        return
    whole = bool(aggregate.get("full_context"))
    for line in found[:5]:
        typer.echo("\n".join([*question_story(line, whole=whole), ""]))
    if len(found) > 5:
        typer.echo(f"{len(found) - 5} more questions match; give SAMPLE/QUESTION for one of them")
