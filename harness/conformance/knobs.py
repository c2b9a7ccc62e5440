"""The knob test: every option that ``baseline.yaml`` declares changes something."""

from __future__ import annotations

from typing import Any

from harness.catalog import OptionDoc
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
            "pass the option on to the system, give it an `example` in baseline.yaml that shows "
            "its effect on a short conversation, or remove it",
        )
    return ok(f"{len(docs)} options: {', '.join(docs)}")


def _turn(probe: Probe, name: str, doc: OptionDoc) -> str | None:
    """``None`` when some other value changes something; else what was tried."""
    current = probe.baseline.options[name]
    tried = []
    for value in other_values(doc, current):
        try:
            trace = probe.fresh(FIRST, options={**probe.baseline.options, name: value})
        except (AdapterFailure, SandboxFailure) as failure:
            tried.append(f"{value!r}: {failure.kind}")
            continue
        if first_difference(probe.first, trace) is not None:
            return None
        tried.append(f"{value!r}: no change")
    return "; ".join(tried) or f"no other value than {current!r} is known; give an `example`"


def other_values(doc: OptionDoc, current: Any) -> list[Any]:
    """Values to turn a knob to: its example and its choices, else what its type suggests."""
    if doc.example is not None or doc.choices:
        values = [*([] if doc.example is None else [doc.example]), *(doc.choices or ())]
        if doc.default != current:
            values.append(doc.default)
    elif isinstance(current, bool):
        values = [not current]
    elif isinstance(current, int):
        values = [current + 1, current * 4, max(1, current // 4), 1, 0]
    elif isinstance(current, float):
        values = [current * 4, current / 4, 0.0, 1.0]
    else:
        values = []
    unique: list[Any] = []
    for value in values:
        if value != current and value not in unique:
            unique.append(value)
    return unique
