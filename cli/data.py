"""`memrig data`: look at data sets before anything is run on them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.forecast import Forecast
    from harness.samples import Dataset

app = typer.Typer(no_args_is_help=True, add_completion=False)

_COUNTS = (
    "samples",
    "sessions",
    "turns",
    "attachments",
    "question_attachments",
    "gold_points",
    "checkpoints",
    "questions",
)
_SHOWN = 20
_ALIKE = 3

#: What differs between warnings of one kind: quoted names, numbers and paths.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*")

_SAID = {"format", "summary", "licence", "verified"}


@app.callback()
def data() -> None:
    """Check data sets; list the formats that can be read and the data sets that ship.

    Examples:
      memrig data check path/to/data
      memrig data list
    """


@app.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A data set: folder, file or name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse when gold would have to be left out.")
    ] = False,
) -> None:
    """Load a data set of any known format; print its balance and the judge that it will get.

    Which dimensions of the table the data cannot fill, and why, stands there too. Exit code 0 when
    it loads, 2 when it is refused.

    Examples:
      memrig data check datasets/sample
      memrig data check DIR --json | jq .questions
      memrig data check DIR --strict
    """
    from harness.forecast import forecast
    from harness.loaders import open_dataset
    from harness.loaders.cards import named
    from harness.outcomes import DataError

    try:
        dataset = open_dataset(named(path), strict=strict)
        balance, judged = _balance(dataset), forecast(dataset)
    except DataError as error:
        if not as_json:
            raise
        typer.echo(json.dumps({"error": [str(problem) for problem in error.problems]}, indent=1))
        raise typer.Exit(error.exit_code) from None
    if as_json:
        judge = {"name": judged.preset.name, "id": judged.preset.id, "why": judged.why}
        made = {**balance, "judge": judge, "na": dict(judged.na)}
        typer.echo(json.dumps(made, ensure_ascii=False, indent=1))
    else:
        _print(balance)
        _print_judge(judged)


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the formats that can be read and the data sets that ship, with what is known of each.

    Examples:
      memrig data list
      memrig data list --json
    """
    from harness.loaders import known_formats
    from harness.loaders.cards import shipped_cards

    cards = shipped_cards()
    verified = {card.format: card.verified for card in cards.values() if card.kind == "format"}
    formats = [
        {
            "format": module.ID,
            "looks_for": module.SUMMARY,
            "verified": verified.get(module.ID, "no card"),
        }
        for module in known_formats()
    ]
    datasets = [
        {"name": card.name, "path": str(path.with_suffix("")), **card.model_dump(include=_SAID)}
        for path, card in cards.items()
        if card.kind == "dataset"
    ]
    if as_json:
        typer.echo(json.dumps({"formats": formats, "datasets": datasets}, indent=1))
        return
    typer.echo("Formats")
    for row in formats:
        typer.echo(f"  {row['format']}: {row['looks_for']}\n    {row['verified']}")
    typer.echo("Data sets")
    for row in datasets:
        typer.echo(f"  {row['name']}: {row['path']}\n    {row['summary']}")


def _balance(dataset: Dataset) -> dict[str, Any]:
    """The balance as plain JSON: names, hashes, counts, then the two lists."""
    balance = dataset.balance
    return {
        "name": dataset.name,
        "format": dataset.format,
        "sha256": dataset.sha256,
        "content_sha256": dataset.content_sha256,
        **{name: getattr(balance, name) for name in _COUNTS},
        "warnings": list(balance.warnings),
        "left_out": [
            {"what": entry.what, "where": entry.where, "reason": entry.reason}
            for entry in balance.left_out
        ],
    }


def _print(balance: dict[str, Any]) -> None:
    typer.echo(f"{balance['name']} ({balance['format']}) loads.")
    for name in _COUNTS:
        typer.echo(f"  {name.replace('_', ' '):<22}{balance[name]:>9,}")
    typer.echo(f"  sha256          {balance['sha256']}")
    typer.echo(f"  content_sha256  {balance['content_sha256']}")
    left_out = [f"{e['what']}: {e['where']}: {e['reason']}" for e in balance["left_out"]]
    for title, lines in (("warnings", _grouped(balance["warnings"])), ("left out", left_out)):
        typer.echo(f"  {title:<22}{len(balance[title.replace(' ', '_')]):>9,}")
        for line in lines[:_SHOWN]:
            typer.echo(f"    {line}")
        if len(lines) > _SHOWN:
            typer.echo(f"    and {len(lines) - _SHOWN} more; --json prints all")


def _grouped(warnings: list[str]) -> list[str]:
    """Warnings that differ only in where they are and in names and numbers: the first three."""
    alike: dict[str, list[str]] = {}
    for warning in warnings:
        alike.setdefault(re.sub(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*", "#", warning), []).append(
            warning
        )
    lines = []
    for group in alike.values():
        lines += group[:_ALIKE]
        if len(group) > _ALIKE:
            lines.append(f"... and {len(group) - _ALIKE} more of this kind ({len(group)} in all)")
    return lines


def _print_judge(judged: Forecast) -> None:
    from harness.aggregate.dimensions import DIMENSIONS
    from harness.forecast import KEYS_DOCUMENT, words

    typer.echo(f"  judge: {judged.preset.name}, because {judged.why}")
    if not judged.na:
        typer.echo("    there is gold for all six dimensions")
    for dimension, reason in judged.na.items():
        typer.echo(f"    N/A: {words(dimension)}: {reason}")
    if len(judged.na) == len(DIMENSIONS):
        typer.echo(f"    what you get: {judged.gives}")
        typer.echo(f"    for the rest: keys in the data ({KEYS_DOCUMENT})")
