"""One row after another to one table: what `run` and `bench` share.

A row that fails does not stop the others; input that is refused stops all before any starts.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.afterwards import closing as closing_of
from cli.afterwards import nothing_worked
from cli.beforehand import data_at, options_of, rows_of
from cli.errors import INTERRUPTED, say
from cli.live import watch
from cli.words import counted, program
from harness.interrupt import PROCESS
from harness.outcomes import MemrigError, UsageError

if TYPE_CHECKING:
    from cli.live import LiveWatch, PlainWatch
    from cli.options import BuildOptions, RunOptions
    from harness.catalog import Baseline
    from harness.config import EvalConfig
    from harness.settings import Settings


@dataclass(frozen=True)
class Row:
    """One row of the plan: the system and the configuration of its run."""

    baseline: Baseline
    config: EvalConfig


@dataclass(frozen=True)
class Plan:
    """What a command will run, checked as far as that is possible without running anything.

    ``notes`` is what the user should know before it runs, a line each. ``fresh``: the directory was
    chosen by memrig.
    """

    rows: tuple[Row, ...]
    settings: Settings
    dataset: Path
    output_dir: Path
    notes: tuple[str, ...] = ()
    fresh: bool = False

    @classmethod
    def of(
        cls,
        dataset: Path,
        names: Sequence[str],
        output_dir: Path | None,
        common: RunOptions,
        build: BuildOptions,
        *,
        each_in_folder: bool,
    ) -> Plan:
        """Resolve names and flags.

        Raises:
            UsageError: an unknown name, a data set that is not there, flags that do not fit.
        """
        from harness.catalog import Catalog
        from harness.forecast import forecast
        from harness.loaders import open_dataset

        dataset = data_at(dataset)
        need_records(output_dir, common)
        root = output_dir if output_dir is not None else fresh_folder(dataset)
        first = common.config(dataset, "", root)
        found, notes = rows_of(Catalog(first.baselines_dirs), names)
        options, shared = options_of(found, first.options)
        # Refused once, before anything is built; and what it will not give is said before, too.
        notes += [*shared, forecast(open_dataset(dataset, first.strict_data)).line]
        rows = tuple(
            Row(
                row.with_options(options[row.name]),
                replace(
                    first,
                    baseline=row.alias_of or row.name,
                    options=options[row.name],
                    output_dir=root / row.row if each_in_folder else root,
                ),
            )
            for row in found
        )
        return cls(rows, build.settings(), dataset, root, tuple(notes), output_dir is None)


def need_records(output_dir: Path | None, common: RunOptions) -> None:
    """``--eval-only`` needs a directory that holds a run."""
    if common.eval_only and output_dir is None:
        raise UsageError("--eval-only needs --output-dir: the directory of the run to judge again")
    if common.eval_only and common.dry_run:
        raise UsageError("--eval-only and --dry-run do not go together")


def fresh_folder(dataset: Path) -> Path:
    """``runs/<data>-<time>``, with a number after it where that is there already."""
    name = re.sub(r"[^\w.-]+", "-", dataset.resolve().stem) or "data"
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"{name}-{now}"
    return next(
        free
        for n in count(1)
        if not (free := folder if n == 1 else folder.with_name(f"{folder.name}-{n}")).exists()
    )


@dataclass
class Outcome:
    """What came of the rows so far. ``aggregates`` and ``paths`` are in the order of the rows.

    ``failed`` holds the message of each row that gave no numbers, or numbers of failures only.
    """

    aggregates: list[dict[str, Any]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """0 only when every row came to its numbers."""
        if self.interrupted:
            return INTERRUPTED
        return 1 if self.failed else 0


def run_rows(plan: Plan) -> Outcome:
    """Run every row of a plan; the display goes to stderr.

    Raises:
        UsageError: the only row was refused.
    """
    outcome = Outcome()
    with watch() as display:
        for note in (*plan.notes, where_it_goes(plan)):
            display.say(note)
        for row in plan.rows:
            try:
                PROCESS.check()
                _run_row(row, plan.settings, display, outcome)
                PROCESS.check()
            except KeyboardInterrupt:
                outcome.interrupted = True
                break
            except MemrigError as error:
                if isinstance(error, UsageError) and len(plan.rows) == 1:
                    raise
                outcome.failed[row.baseline.row] = str(error)
            except Exception as error:
                outcome.failed[row.baseline.row] = unexpected(error, row.config.output_dir)
    for name, message in outcome.failed.items():
        say(f"{name} failed: {message}")
    if outcome.interrupted:
        say(f"interrupted; what was recorded is kept. Resume with:\n  {resume_command(plan)}")
    return outcome


def _run_row(
    row: Row, settings: Settings, display: LiveWatch | PlainWatch, outcome: Outcome
) -> None:
    from harness import run_eval

    if row.baseline.alias_of:
        display.say(f"{row.baseline.alias_of} is an alias of {row.baseline.name}")
    result = run_eval(row.config, on_event=display, settings=settings)
    assert result.aggregate is not None, "only a dry run has none"
    outcome.aggregates.append(result.aggregate)
    outcome.paths.append(result.path)
    if nothing_worked(result.aggregate):
        outcome.failed[row.baseline.row] = (
            "not one session or question worked.\n"
            f"  Why: {program()} show {shlex.quote(str(result.path))}\n"
            f"  Logs: {result.path / 'logs'}"
        )


def unexpected(error: Exception, folder: Path) -> str:
    """An error that nothing foresaw: one line, and the trace in the row's folder."""
    log = folder / "logs" / "unexpected.log"
    line = f"unexpected {type(error).__name__}: {error}"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError as why:
        return f"{line}\n  Its trace could not be kept: {why}"
    return f"{line}\n  Trace: {log}"


def where_it_goes(plan: Plan) -> str:
    """Where the records go, and how to go on after an interruption."""
    if not plan.fresh:
        return f"records: {plan.output_dir}; if interrupted, the same command goes on"
    return f"records: {plan.output_dir}; if interrupted, go on with:\n  {resume_command(plan)}"


def resume_command(plan: Plan) -> str:
    """What was typed, with the directory that the run went to."""
    words = [program(), *sys.argv[1:]]
    if not any(word.split("=")[0] == "--output-dir" for word in words):
        words += ["--output-dir", str(plan.output_dir)]
    return shlex.join(words)


def dry_run(plan: Plan, out: Callable[[str], None]) -> None:
    """Check everything that can be checked without building or running, and print the plan."""
    from harness import run_eval

    for note in plan.notes:
        out(note)
    for row in plan.rows:
        result = run_eval(row.config, settings=plan.settings)
        counts = result.plan.as_json()
        alias = f" (alias {row.baseline.alias_of})" if row.baseline.alias_of else ""
        out(f"{row.baseline.name}{alias}: {row.baseline.summary}")
        out(f"  {counted(len(result.samples), 'sample')}: {', '.join(result.samples)}")
        out("  " + ", ".join(f"{name} {count}" for name, count in counts.items()))
        for name in SHOWN:
            out(f"  {name}: {getattr(row.config, name)}")
        for name, value in row.baseline.options.items():
            out(f"  option {name}: {value}")


#: What a dry run shows of the configuration.
SHOWN = ("dataset", "output_dir", "sandbox", "jobs", "top_k", "images", "seed")


def as_json_text(plan: Plan, outcome: Outcome) -> str:
    """Everything that a program wants to know of the rows."""
    return json.dumps(
        {
            "output_dir": str(plan.output_dir),
            "runs": [str(path) for path in outcome.paths],
            "rows": outcome.aggregates,
            "failed": outcome.failed,
        },
        ensure_ascii=False,
        indent=2,
    )


def closing(outcome: Outcome) -> str:
    """The table, what failed, where everything lies, and what to do next."""
    return closing_of(list(zip(outcome.aggregates, outcome.paths, strict=True)))
