"""A run where a run was named; of a folder that holds several, which ones."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from harness.outcomes import UsageError

if TYPE_CHECKING:
    from harness.runs import Run


def runs_inside(folder: Path) -> list[Path]:
    """The runs that lie right in a folder, as `memrig bench` makes them."""
    if not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob("*/manifest.json"))


def the_run(path: Path) -> Run:
    """Open a run.

    Raises:
        UsageError: a folder of several runs, with their names. RunError: no run at all.
    """
    from harness.runs import Run

    inside = runs_inside(path)
    if inside and not (path / "manifest.json").exists():
        names = "\n".join(f"  {run}" for run in inside)
        raise UsageError(f"{path} holds {len(inside)} runs; name one of them:\n{names}")
    return Run.open(path)


def why_unfinished(run: Run) -> str | None:
    """``None`` for a run that came to its end; else how far it came, and what goes on with it."""
    from harness.runs.directory import AGGREGATE

    planned = run.manifest.pipeline["selection"]["samples"]
    done = len(run.finished)
    if done == len(planned) and (run.path / AGGREGATE).is_file():
        return None
    command = _resume(run)
    how = f"resume with: {command}" if command else "start its command again to resume it"
    return f"not finished: {done} of {len(planned)} samples are recorded; {how}"


def _resume(run: Run) -> str | None:
    """The command that made it, with its directory, if it was one of memrig's."""
    from cli.words import program

    words = list(run.manifest.about.get("command") or ())
    if words[1:2] not in (["bench"], ["run"]):
        return None
    if not any(word.split("=")[0] == "--output-dir" for word in words):
        words += ["--output-dir", str(run.path.parent if words[1] == "bench" else run.path)]
    return f"{program()} {shlex.join(words[1:])}"
