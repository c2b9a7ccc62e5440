"""What is said after rows ran: the table, what failed and why, and what to type next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.words import counted, program
from harness.outcomes import Status

Row = tuple[Mapping[str, Any], Path]

#: Not asked of the row, so not among the units that could have failed.
_NOT_TRIED = (Status.LEFT_OUT, Status.UNSUPPORTED)


def closing(rows: list[Row]) -> str:
    """The table of all rows, what failed, where everything lies, and what to do next."""
    from harness.report.tables import render

    lines = [render([dict(aggregate) for aggregate, _ in rows], "text").rstrip(), ""]
    failures = [line for aggregate, path in rows if (line := failure_line(aggregate, path))]
    if failures:
        lines += [*failures, ""]
    lines += [f"records  {path}" for _, path in rows]
    lines += ["", *next_commands(rows)]
    return "\n".join(lines)


def nothing_worked(aggregate: Mapping[str, Any]) -> bool:
    """Units failed, and none has a result."""
    statuses = _statuses(aggregate)
    return any(status.is_failure for status in statuses) and not any(
        status.has_result for status in statuses
    )


def failed_units(aggregate: Mapping[str, Any]) -> int:
    """How many units of a row failed."""
    return sum(n for status, n in _statuses(aggregate).items() if status.is_failure)


def failure_line(aggregate: Mapping[str, Any], path: Path) -> str | None:
    """``Mine: 13 of 64 units failed (BASELINE_ERROR 13); why: ...``, if any did."""
    failed = failed_units(aggregate)
    if not failed:
        return None
    tried = sum(n for s, n in _statuses(aggregate).items() if s not in _NOT_TRIED)
    kinds = ", ".join(f"{kind} {n}" for kind, n in kinds_of(path, failed).most_common())
    what = f"{aggregate['row']}: {failed:,} of {counted(tried, 'unit')} failed ({kinds})"
    return f"{what}; why: {why_command(aggregate, path)}"


def why_command(aggregate: Mapping[str, Any], path: Path) -> str:
    """The command that shows failures: of questions by ``explain``, of sessions by ``show``."""
    run = shlex.quote(str(path))
    of_questions = aggregate["statuses"].get("questions", {})
    questions = any(Status(name).is_failure for name, n in of_questions.items() if n)
    graded = aggregate["dimensions"]["question_answering"]["correct_ratio"]["na"] is None
    if questions and graded:
        return f"{program()} explain {run} qa"
    return f"{program()} show {run}"


def kinds_of(path: Path, failed: int) -> Counter[str]:
    """How often a run's units failed in which way; what has no record of its own is the judge's."""
    from harness.runs import Run

    run = Run.open(path)
    kinds: Counter[str] = Counter()
    for records in (run.sessions(), run.questions()):
        for record in records:
            if record.status.is_failure and record.failure is not None:
                kinds[record.failure.kind] += 1
    rest = failed - kinds.total()
    return kinds + Counter({"judge": rest} if rest > 0 else {})


def next_commands(rows: list[Row]) -> list[str]:
    """Commands that someone types after a table: first of all about a row with failures."""
    systems = [row for row in rows if not row[0].get("reference")] or rows
    first = max(systems, key=lambda row: failed_units(row[0]) > 0)
    last = first if failed_units(first[0]) else systems[-1]
    path = shlex.quote(str(last[1]))
    why = f"{program()} explain {path}"
    if failed_units(last[0]):
        why = why_command(*last)
    commands = [
        ("why a number is what it is", why),
        ("check the numbers", f"{program()} verify {path}"),
    ]
    if len(systems) > 1:
        pair = [shlex.quote(str(path)) for _, path in systems[-2:]]
        commands.append(("is a difference real", f"{program()} compare {' '.join(pair)}"))
    return [f"{what + ':':<30}{command}" for what, command in commands]


def _statuses(aggregate: Mapping[str, Any]) -> Counter[Status]:
    found: Counter[Status] = Counter()
    for statuses in aggregate["statuses"].values():
        for name, count in statuses.items():
            if count:
                found[Status(name)] += count
    return found
