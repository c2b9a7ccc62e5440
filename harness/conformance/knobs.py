"""The knob test: every option that ``baseline.yaml`` declares changes something."""

from __future__ import annotations

import re
from typing import Any

from harness.catalog import Baseline, OptionDoc
from harness.conformance.conversations import FIRST
from harness.conformance.probe import Probe, first_difference
from harness.conformance.results import Verdict, broken, not_applicable, ok
from harness.outcomes import AdapterFailure, SandboxFailure


def knobs(probe: Probe) -> Verdict:
    """Each option, turned, changes the store, what is retrieved, or the model traffic."""
    docs = probe.baseline.option_docs
    if not docs:
        return not_applicable("no options")
    if probe.repeated:
        return not_applicable("the system is not deterministic, so a change would prove nothing")
    dead = []
    for name, doc in docs.items():
        refused = _turn(probe, name, doc)
        if refused is not None:
            dead.append(f"{name} ({refused})")
    if dead:
        return broken(
            f"of {len(docs)} options these do nothing: {', '.join(dead)}",
            "pass the option on to the system; give it an `example` in baseline.yaml that shows "
            "its effect on a short conversation, or `effect: results, with OTHER=VALUE` if it "
            "needs another option beside it; or remove it",
        )
    return ok(f"{len(docs)} options: {', '.join(docs)}")


def _turn(probe: Probe, name: str, doc: OptionDoc) -> str | None:
    """``None`` when some other value changes something; else what was tried."""
    together = _together(probe.baseline, doc)
    base = probe.baseline.with_options(together).options
    before = probe.fresh(FIRST, options=base) if together else probe.first
    tried = []
    for value in other_values(doc, base[name]):
        try:
            trace = probe.fresh(FIRST, options={**base, name: value})
        except (AdapterFailure, SandboxFailure) as failure:
            tried.append(f"{value!r}: {failure.kind}")
            continue
        if first_difference(before, trace) is not None:
            return None
        tried.append(f"{value!r}: no change")
    return "; ".join(tried) or f"no other value than {base[name]!r} is known; give an `example`"


_WITH = re.compile(r"\bwith (\w+)=([^\s,;]+)")


def _together(baseline: Baseline, doc: OptionDoc) -> dict[str, str]:
    """Options that this one needs beside it, from its ``effect``: ``results, with drop=0.5``."""
    return {
        other: value
        for other, value in _WITH.findall(doc.effect or "")
        if other in baseline.option_docs
    }


def other_values(doc: OptionDoc, current: Any) -> list[Any]:
    """Values to turn a knob to: its example and its choices, else what its type suggests."""
    if doc.example is not None or doc.choices:
        values = [*([] if doc.example is None else [doc.example]), *(doc.choices or ())]
        if doc.default != current:
            values.append(doc.default)
    elif isinstance(current, bool):
        values = [not current]
    elif isinstance(current, int):
        values = [current + 1, current * 4, current // 4, 0, 1, 2, 8]
    elif isinstance(current, float):
        values = [current * 4, current / 4, 0.0, 1.0, 0.5]
    else:
        values = []
    unique: list[Any] = []
    for value in values:
        if value != current and value not in unique:
            unique.append(value)
    return unique
