"""`memrig list`: the systems, what they can do, and whether their software is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import BuildOptions, flattened
from cli.words import program

if TYPE_CHECKING:
    from harness.catalog import Catalog
    from harness.inventory import Entry


@flattened
def list_(
    build: BuildOptions,
    name: Annotated[
        str | None, typer.Argument(help="Show one system, with its options.", metavar="NAME")
    ] = None,
    baselines: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with more systems; repeat for more.", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """List the systems: what they do with changed facts, what they need, what is built.

    What a system cannot do is N/A in its tables. Nothing is built for this list.

    Examples:
      memrig list
      memrig list BM25
      memrig list --baselines ~/my-baselines --json
    """
    from harness.catalog import Catalog
    from harness.inventory import inventory

    catalog = Catalog(baselines or ())
    wanted = {row.name for row in catalog.expand(name)} if name else None
    entries = [
        entry
        for entry in inventory(catalog, build.settings())
        if wanted is None or entry.name in wanted
    ]
    if as_json:
        typer.echo(json.dumps(_as_json(entries, catalog), indent=1, ensure_ascii=False))
        return
    if name:
        _print_each(entries)
    else:
        _print_table(entries)
    for broken in catalog.broken():
        typer.echo(f"\n{broken.name} cannot be used:\n{broken.error()}", err=True)


def _as_json(entries: list[Entry], catalog: Catalog) -> dict[str, object]:
    return {
        "baselines": [entry.to_json() for entry in entries],
        "aliases": catalog.aliases(),
        "broken": [
            {"name": broken.name, "problems": [str(problem) for problem in broken.problems]}
            for broken in catalog.broken()
        ],
    }


def _print_table(entries: list[Entry]) -> None:
    """Narrow columns first, then what it is: at 80 columns two lines a system."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("system", "changes", "built", "what it is"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "what it is")
    for entry in entries:
        needs = [*entry.needs, *(["torch"] if entry.torch != "none" else [])]
        also = [f"needs {', '.join(needs)}"] if needs else []
        also += [f"also called {', '.join(entry.aliases)}"] if entry.aliases else []
        table.add_row(
            entry.name,
            entry.update_semantics,
            _built(entry),
            entry.summary + (f" [{'; '.join(also)}]" if also else ""),
        )
    Console(width=None if Console().is_terminal else 160, markup=False).print(table)
    typer.echo(
        "\nchanges: what it does with a changed fact. built: its image, its venv, or both.\n"
        f"{program()} list NAME shows a system's options and limits."
    )


def _built(entry: Entry) -> str:
    """Whether image and venv are there, in one word."""
    states = {"image": entry.image, "venv": entry.venv}
    if any(state.startswith("cannot") for state in states.values()):
        return "fault"
    there = [name for name, state in states.items() if state == "built"]
    if entry.image == "on the host":
        return "host"
    return "both" if len(there) == 2 else "".join(there) or "-"


def _print_each(entries: list[Entry]) -> None:
    for entry in entries:
        typer.echo(f"{entry.name}: {entry.summary}")
        facts = {
            "also called": ", ".join(entry.aliases),
            "changed facts": entry.update_semantics,
            "needs": ", ".join(entry.needs),
            "torch": "" if entry.torch == "none" else entry.torch,
            "runs model output": "yes" if entry.runs_model_output else "",
            "caution": entry.caution,
            "reset": entry.reset,
            "version": entry.version,
            "licence": entry.licence,
            "paper": entry.paper,
            "image": entry.image,
            "venv": entry.venv,
        }
        for heading, value in facts.items():
            if value:
                typer.echo(f"  {heading:<18} {value}")
        if entry.options:
            typer.echo("  options (--option KEY=VALUE):")
        for option, default in entry.options.items():
            typer.echo(f"    {option}={default}  {entry.option_help[option]}")
