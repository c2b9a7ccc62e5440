"""The list of checks, and the loop that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.catalog import Baseline
from harness.conformance import claims, knobs, pipe, state
from harness.conformance.probe import LauncherFor, Probe
from harness.conformance.results import (
    CheckResult,
    Outcome,
    Report,
    Verdict,
    broken,
    not_applicable,
)
from harness.outcomes import MemrigError, UnknownName, UsageError
from harness.sandbox.base import ModelCall


@dataclass(frozen=True)
class Check:
    """``needs_system``: it feeds the system, so it is n/a where key or model is missing."""

    id: str
    run: Callable[[Probe], Verdict]
    needs_system: bool = True

    @property
    def meaning(self) -> str:
        """One line: the docstring of the check."""
        return (self.run.__doc__ or "").strip().splitlines()[0].replace("``", "`")


CHECKS = (
    Check("start", pipe.starts, needs_system=False),
    Check("unknown-method", pipe.unknown_method, needs_system=False),
    Check("available", pipe.available, needs_system=False),
    Check("empty-retrieve", state.empty_retrieve),
    Check("determinism", state.determinism),
    Check("reset-order", state.order_independence),
    Check("reset-forgets", state.reset_forgets),
    Check("delta", state.delta_is_the_difference),
    Check("ids", state.snapshot_ids),
    Check("retrieve-reads", state.retrieval_leaves_the_store),
    Check("unicode", pipe.unicode_survives),
    Check("large-turn", pipe.large_turn),
    Check("noise", pipe.noise),
    Check("images", claims.images),
    Check("time", claims.time_reaches),
    Check("speakers", claims.speaker_reaches),
    Check("provenance", claims.provenance),
    Check("scores", claims.scores),
    Check("completeness", claims.completeness),
    Check("knobs", knobs.knobs),
)


def check_baseline(
    baseline: Baseline,
    launcher_for: LauncherFor,
    log_dir: Path,
    *,
    only: Collection[str] = (),
    model_call: ModelCall | None = None,
    on_result: Callable[[CheckResult], None] = lambda result: None,
) -> Report:
    """Run the suite on one baseline.

    Args:
        baseline: the row; its options are the ones under check.
        launcher_for: makes a (prepared) launcher of a baseline. It is called a second time for the
            noise check, with another adapter over the same folder.
        log_dir: receives the stderr of every box, one folder each.
        only: ids of checks to run; all without it.
        model_call: answers the system's model calls, if there is somebody to answer.
        on_result: told about each check as it ends.

    Raises:
        UnknownName: an id that is no check. UsageError: a host-side row, which has no box.
        BuildError: ``launcher_for`` could not make what the box runs in.
    """
    if baseline.host_side:
        raise UsageError(f"{baseline.name} is made on the host: it has no box to check")
    for name in only:
        if name not in {check.id for check in CHECKS}:
            raise UnknownName("check", name, [check.id for check in CHECKS])
    probe = Probe(baseline, launcher_for, log_dir, model_call)
    kind = probe.launcher.kind  # made first: what cannot be built is no failed check
    results = []
    for result in _run(probe, only):
        on_result(result)
        results.append(result)
    return Report(baseline.name, kind, tuple(results), str(log_dir))


def _run(probe: Probe, only: Collection[str]) -> Iterator[CheckResult]:
    told = False
    for check in CHECKS:
        if only and check.id not in only:
            continue
        started = time.perf_counter()
        broken_start = _why_not_started(probe)
        if broken_start and told:
            verdict = not_applicable("the box does not start")
        elif broken_start:
            verdict, told = broken_start, True
        elif check.needs_system and (lacking := _what_it_lacks(probe)):
            verdict = not_applicable(lacking)
        else:
            verdict = _verdict(check, probe)
        ms = round((time.perf_counter() - started) * 1000, 1)
        yield CheckResult(
            check.id, check.meaning, verdict.outcome, verdict.reason, verdict.next_step, ms
        )


def _why_not_started(probe: Probe) -> Verdict | None:
    """A box that does not start is one failure, not one (and one deadline) for each check."""
    if probe.start_failure is None:
        return None
    return broken(str(probe.start_failure), f"see the box's stderr in {probe.log_dir}")


def _what_it_lacks(probe: Probe) -> str:
    """Why nothing can be fed to the system: a key, a model; empty where it can."""
    verdict = pipe.available(probe)
    return "" if verdict.outcome is Outcome.PASS else verdict.reason


def _verdict(check: Check, probe: Probe) -> Verdict:
    try:
        return check.run(probe)
    except MemrigError as error:
        return broken(str(error), f"see the box's stderr in {probe.log_dir}")
