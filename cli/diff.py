"""`memrig diff`: are two runs the same, and if not, what would have to be done again?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.runs import Difference

#: What each verdict means for someone who has the first run and wants the second.
MEANS = {
    "reuse": "the first run can stand for the second",
    "re-judge": "the first run's records can be kept; judge them anew",
    "re-run": "the first run's records cannot be used for the second",
}


def diff(
    left: Annotated[Path, typer.Argument(help="A run.", metavar="RUN")],
    right: Annotated[Path, typer.Argument(help="Another.", metavar="RUN")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the finding as JSON.")] = False,
) -> None:
    """Compare two runs: how they were made, then every record without times and attempts.

    Says reuse, re-judge or re-run, with the first field that differs. Exit code 0 when they are
    equal, 1 when not.

    Examples:
      memrig diff runs/mine/BM25 runs/again/BM25
      memrig diff runs/mine/BM25 runs/again/BM25 --json
    """
    from harness.runs import Run
    from harness.runs import diff as compared

    found = compared(Run.open(left), Run.open(right))
    typer.echo(as_text(found) if not as_json else _as_json(found))
    if not found.equal:
        raise typer.Exit(1)


def as_text(found: Difference) -> str:
    """The finding in a few lines."""
    lines = [f"{found.verdict}: {MEANS[found.verdict]}"]
    if found.field is None:
        lines.append(f"  {found.records} records are equal")
        return "\n".join(lines)
    lines.append(f"  first difference: {found.field}")
    lines += [f"    left:  {_short(found.left)}", f"    right: {_short(found.right)}"]
    if found.records_equal:
        lines.append(f"  all the same, {found.records} records are equal")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:297] + "..."


def _as_json(found: Difference) -> str:
    return json.dumps({**vars(found), "equal": found.equal}, ensure_ascii=False, indent=2)
