"""`memrig check`: the conformance suite, on one system."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import BuildOptions, Sandbox, flattened, parse_options
from cli.pulse import Pulse
from cli.words import pasteable

if TYPE_CHECKING:
    from harness.catalog import Baseline
    from harness.config import EvalConfig
    from harness.conformance import CheckResult, Report
    from harness.sandbox.base import Launcher
    from harness.settings import Settings


@flattened
def check(
    name: Annotated[str, typer.Argument(help="A name from `memrig list`.")],
    build: BuildOptions,
    sandbox: Annotated[
        Sandbox, typer.Option(help="auto is a container where an engine can make one, else a venv.")
    ] = Sandbox.AUTO,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this check; repeat for more.", metavar="ID"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Check the system with this option.", metavar="KEY=VALUE"),
    ] = None,
    baselines: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with more systems; repeat for more.", metavar="DIR"),
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Let a system that runs model output run in a venv.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Try on a system what every adapter promises: reset, order, unicode, noise, delta, knobs ...

    Each line says what was checked, how it ended, and after a failure why and what to do. The name
    of a folder with variants checks all of them. Exit code 1 if anything failed.

    Examples:
      memrig check BM25
      memrig check MySystem --baselines ~/my-baselines --sandbox venv
      memrig check BM25 --only knobs --only reset-order
      memrig check MemEngine --json
    """
    from harness.catalog import Catalog
    from harness.config import EvalConfig

    catalog = Catalog(baselines or ())
    rows = catalog.expand(name)
    if catalog.spelled(name) != name:
        typer.echo(f"{name} is read as {catalog.spelled(name)}", err=True)
    if rows[0].alias_of:
        typer.echo(f"{rows[0].alias_of} is {rows[0].name}", err=True)
    config = EvalConfig(Path(), name, Path(), sandbox=sandbox.value, unsafe=unsafe)
    settings = build.settings()
    reports = [
        _check_one(
            row.with_options(parse_options(option or ())), config, settings, only or (), as_json
        )
        for row in rows
    ]
    if as_json:
        found = [report.to_json() for report in reports]
        typer.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1, ensure_ascii=False))
    raise typer.Exit(0 if all(report.passed for report in reports) else 1)


def _check_one(
    row: Baseline, config: EvalConfig, settings: Settings, only: Sequence[str], quiet: bool
) -> Report:
    from harness.conformance import check_baseline
    from harness.sandbox.factory import make_launcher

    def note(message: str) -> None:
        typer.echo(pasteable(message), err=True)

    def launcher_for(baseline: Baseline) -> Launcher:
        launcher = make_launcher(baseline, config, settings, say=note)
        launcher.prepare()
        return launcher

    if not row.host_side:
        note(make_launcher(row, config, settings).note)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    logs = settings.work_dir / "checks" / row.name / f"{stamp}-{os.getpid()}"
    waiting = Waiting(row.name, only)
    with Pulse(waiting.line, note) as pulse:

        def told(result: CheckResult) -> None:
            waiting.ended.append(result.id)
            (_progress if quiet else _print)(result)
            pulse.said()

        report = check_baseline(row, launcher_for, logs, only=only, on_result=told)
    if report.passed:
        shutil.rmtree(logs, ignore_errors=True)  # nothing to look up in them
    if not quiet:
        typer.echo(_summary(report))
    return report


@dataclass
class Waiting:
    """Which check is under way, for whoever waits."""

    name: str
    only: Sequence[str]
    ended: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Its place in the list and its name."""
        from harness.conformance.suite import CHECKS

        ids = [check.id for check in CHECKS if not self.only or check.id in self.only]
        place = min(len(self.ended), len(ids) - 1)
        return f"{self.name}  check {place + 1}/{len(ids)}: {ids[place]}, still at it"


def _progress(result: CheckResult) -> None:
    typer.echo(f"{result.outcome.value:<5} {result.id}", err=True)


def _print(result: CheckResult) -> None:
    typer.echo(f"{result.outcome.value:<5} {result.id:<15} {result.meaning}")
    if result.reason:
        typer.echo(f"      {'':<15} {_one_block(result.reason)}")
    if result.next_step:
        typer.echo(f"      {'':<15} next: {result.next_step}")


def _one_block(text: str) -> str:
    return text.replace("\n", "\n" + " " * 22)


def _summary(report: Report) -> str:
    counts = report.to_json()["counts"]
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    line = f"\n{report.baseline} in a {report.sandbox}: {said}"
    if report.passed:
        return line
    return f"{line}\n  failed: {', '.join(r.id for r in report.failed)}; logs: {report.logs}"
