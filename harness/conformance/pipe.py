"""Checks of the box's manners: start, errors by name, noise, odd and long text."""

from __future__ import annotations

from harness.conformance.conversations import (
    FIRST,
    LARGE_CHARACTERS,
    UNICODE,
    large_conversation,
    unicode_conversation,
)
from harness.conformance.probe import Probe, excerpt, first_difference, play, with_adapter
from harness.conformance.results import Verdict, broken, not_applicable, ok
from harness.outcomes import AdapterFailure
from harness.sandbox.client import MemoryClient


def starts(probe: Probe) -> Verdict:
    """The box starts, and what it says about itself agrees with ``baseline.yaml``."""
    hello, said = probe.greeting
    if said != hello:
        return broken(
            "get_capabilities says something else than at the start",
            "make get_capabilities depend on the options only",
        )
    for name, declared in (
        ("needs", set(probe.baseline.needs)),
        ("runs_model_output", probe.baseline.runs_model_output),
    ):
        told = getattr(said, name)
        if (set(told) if isinstance(told, tuple) else told) != declared:
            return broken(
                f"{name}: baseline.yaml says {declared or 'none'}, the adapter {told or 'none'}",
                f"make {name} in baseline.yaml and in get_capabilities agree",
            )
    return ok()


def unknown_method(probe: Probe) -> Verdict:
    """A method that does not exist is refused by name, and the box lives on."""
    with probe.box() as (box, _):
        try:
            reply = box.call("no_such_method", {})
        except AdapterFailure as failure:
            if failure.kind != "UNSUPPORTED":
                return broken(
                    f"an unknown method ended as {failure.kind}, not UNSUPPORTED",
                    "let memrig's own loop dispatch the calls",
                )
        else:
            return broken(
                f"an unknown method was answered: {excerpt(reply.value)}",
                "let memrig's own loop dispatch the calls",
            )
        MemoryClient(box).get_capabilities()
    return ok()


def noise(probe: Probe) -> Verdict:
    """Prints of Python, of C and of child processes during calls do not reach the pipe."""
    loud_baseline = with_adapter(probe.baseline, "harness.adapter.noise:NoisyAdapter")
    options = {"adapter": probe.baseline.adapter, "options": probe.baseline.options}
    launcher = probe.launcher_for(loud_baseline)
    with probe.box(options=options, launcher=launcher) as (box, traffic):
        box.call("reset", {})
        loud = play(box, traffic, FIRST)
    difference = first_difference(loud, probe.first)
    if difference:
        return broken(
            f"with noise on standard output the records differ: {difference}",
            "do not open or close file descriptors that are not the system's own",
        )
    return ok()


def unicode_survives(probe: Probe) -> Verdict:
    """Emoji, right-to-left, combining and zero-width characters come back as they were said."""
    trace = probe.fresh(unicode_conversation())
    kept = 0
    for i, (name, text) in enumerate(UNICODE.items()):
        for stored in trace.texts():
            if f"anchor{i}x" in stored and f"anchor{i}y" in stored:
                kept += 1
                if text not in stored and probe.capabilities.update_semantics != "rewrite":
                    return broken(
                        f"{name}: {excerpt(text)} came back inside {excerpt(stored)}",
                        "store the text as it came; fold or strip only a copy for the index",
                    )
    if not kept:
        return ok("no text came back whole, so only that nothing broke")
    return ok()


def large_turn(probe: Probe) -> Verdict:
    """A turn of 5 MB is taken, or refused by name; the box lives on."""
    conversation = large_conversation()
    size = f"{LARGE_CHARACTERS / 1e6:.0f} MB"
    (big_id, big), (small_id, small) = conversation.sessions
    with probe.box() as (box, _):
        client = MemoryClient(box)
        client.reset()
        refused = ""
        try:
            client.ingest_turns(big)
            client.end_session(big_id)
        except AdapterFailure as failure:
            refused = failure.kind
        client.ingest_turns(small)
        client.end_session(small_id)
        if probe.capabilities.snapshot != "none":
            client.snapshot_memories()
        client.retrieve(conversation.questions[0], 1)
    return ok(f"{size} were refused as {refused}, and the box lived on" if refused else "")


def available(probe: Probe) -> Verdict:
    """The system can be used here: it lacks no key and no model."""
    capabilities = probe.capabilities
    if not capabilities.available and not capabilities.unavailable_reason:
        return broken(
            "available: false, and no reason",
            "say in unavailable_reason what is missing: a key, a model, a file",
        )
    if not capabilities.available:
        return not_applicable(capabilities.unavailable_reason or "")
    lacking = sorted(capabilities.needs)
    if lacking and probe.model_call is None:
        return not_applicable(f"it needs a model ({', '.join(lacking)}) and was given none")
    return ok()
