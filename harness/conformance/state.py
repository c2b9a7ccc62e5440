"""Checks of what a system keeps and forgets: empty start, reset, order, repeatability, delta."""

from __future__ import annotations

from typing import Any

from harness.adapter.contract import snapshot_difference
from harness.adapter.records import MemorySnapshotRecord, Query, from_wire, to_wire
from harness.conformance.conversations import FIRST, MARKED, MARKER, SECOND
from harness.conformance.probe import (
    TOP_K,
    Probe,
    SessionTrace,
    Trace,
    excerpt,
    first_difference,
    play,
)
from harness.conformance.results import Verdict, broken, not_applicable, ok
from harness.sandbox.client import MemoryClient


def empty_retrieve(probe: Probe) -> Verdict:
    """Before anything was said there is nothing to find, and saying so is no error."""
    with probe.box() as (box, _):
        client = MemoryClient(box)
        client.reset()
        found = client.retrieve(Query("What is the dog called?"), TOP_K).items
        kept = [] if probe.capabilities.snapshot == "none" else client.snapshot_memories()
    if found:
        return broken(
            f"an empty store returned {excerpt(to_wire(found))}",
            "return RetrievalRecord() while nothing is stored; placeholders are no memories",
        )
    if kept:
        return broken(
            f"an empty store shows {excerpt(to_wire(kept))}",
            "snapshot_memories must return [] after reset",
        )
    return ok()


def reset_forgets(probe: Probe) -> Verdict:
    """A marker that was stored and asked for is nowhere after a reset."""
    with probe.box() as (box, traffic):
        box.call("reset", {})
        before = play(box, traffic, MARKED)
        box.call("reset", {})
        after = play(box, traffic, SECOND)
    if MARKER in after.everything():
        return broken(
            f"the word {MARKER!r} of before the reset is in what came after it: "
            f"{_where(after, MARKER)}",
            "let reset build a new engine object over an empty state folder; an engine's own "
            "reset or delete often leaves a cache, a queue or a summary behind",
        )
    seen = MARKER in before.everything()
    return ok("" if seen else "the marker was never visible, so this proves little")


def _where(trace: Trace, marker: str) -> str:
    for session in trace.sessions:
        for what in (session.delta or [], session.snapshot or []):
            for entry in what:
                if marker in str(entry):
                    return f"session {session.session_id}: {excerpt(entry)}"
    for found in trace.retrievals:
        for entry in found:
            if marker in str(entry):
                return f"retrieval: {excerpt(entry)}"
    return "model traffic"


def order_independence(probe: Probe) -> Verdict:
    """With ``reset: object``, sample B after sample A in one box equals B in a fresh box."""
    if probe.baseline.reset != "object":
        return not_applicable("reset: container, every sample gets a fresh box")
    with probe.box(sample="s0001") as (box, traffic):
        box.call("reset", {})
        play(box, traffic, FIRST)
        box.call("reset", {"sample": "s0002"})
        second = play(box, traffic, SECOND)
    alone = probe.fresh(SECOND, sample="s0002")
    difference = first_difference(second, alone)
    if difference:
        return broken(
            f"sample B after A against B alone: {difference}",
            "say reset: container in baseline.yaml, or let reset build everything anew (ids and "
            "counters too)",
        )
    return ok()


def determinism(probe: Probe) -> Verdict:
    """Two fresh boxes with one seed give equal records and equal model traffic."""
    if probe.repeated:
        return broken(
            probe.repeated,
            "draw ids and choices from Setup.seed, sort what comes from sets and listings, and "
            "leave the wall clock out of texts",
        )
    return ok()


def delta_is_the_difference(probe: Probe) -> Verdict:
    """What ``export_memory_delta`` says is what happened between two snapshots."""
    capabilities = probe.capabilities
    if capabilities.delta_source == "none":
        return not_applicable("the system gives no delta; memory recall is N/A for it")
    if capabilities.snapshot != "full":
        return not_applicable(f"snapshot: {capabilities.snapshot}, nothing to compare with")
    before: dict[str, MemorySnapshotRecord] = {}
    agreed = total = 0
    first_wrong = ""
    for session in probe.first.sessions:
        after = _by_id(session)
        expected = to_wire(snapshot_difference(before, after, session.session_id))
        told = session.delta or []
        agreed += sum(_core(change) in map(_core, expected) for change in told)
        total += max(len(told), len(expected))
        if list(map(_core, told)) != list(map(_core, expected)) and not first_wrong:
            first_wrong = (
                f"session {session.session_id}: the delta says {excerpt(told)}, "
                f"the snapshots differ by {excerpt(expected)}"
            )
        before = after
    if not first_wrong:
        return ok(f"{total} changes")
    if capabilities.delta_source in ("native", "log"):
        return not_applicable(
            f"delta_source: {capabilities.delta_source}, so compared only: {agreed} of {total} "
            f"changes agree with the snapshots; {first_wrong}"
        )
    return broken(
        first_wrong,
        "leave export_memory_delta to the base class, or declare delta_source: native or log",
    )


def _by_id(session: SessionTrace) -> dict[str, MemorySnapshotRecord]:
    records = [from_wire(MemorySnapshotRecord, entry) for entry in session.snapshot or []]
    return {record.memory_id: record for record in records}


def _core(change: dict[str, Any]) -> tuple[str, str, str]:
    return change["op"], change["memory_id"], change["text"]


def snapshot_ids(probe: Probe) -> Verdict:
    """Each memory has an id of its own, in the snapshot and in what is retrieved."""
    shown = [session.snapshot or [] for session in probe.first.sessions]
    for entries in [*shown, *probe.first.retrievals]:
        ids = [entry["memory_id"] for entry in entries]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            return broken(
                f"two memories are called {twice[0]!r}",
                "give each memory its own id, and the same one for as long as it lives",
            )
    if probe.capabilities.snapshot == "full":
        stored = {entry["memory_id"] for entry in probe.first.last_snapshot}
        for item in (item for found in probe.first.retrievals for item in found):
            if item["memory_id"] not in stored:
                return broken(
                    f"{item['memory_id']!r} was retrieved and is not in the snapshot",
                    "use the same ids in retrieve and snapshot_memories, or declare snapshot: "
                    "top-k or none",
                )
    return ok()


def retrieval_leaves_the_store(probe: Probe) -> Verdict:
    """Asking changes nothing, unless the system says that it does (``retrieve_mutates``)."""
    if probe.capabilities.retrieve_mutates:
        return not_applicable("retrieve_mutates: the system says so")
    query = FIRST.questions[0]
    visible = probe.capabilities.snapshot != "none"
    with probe.box() as (box, traffic):
        client = MemoryClient(box)
        client.reset()
        play(box, traffic, FIRST)
        kept = client.snapshot_memories() if visible else []
        one = client.retrieve(query, TOP_K)
        other = client.retrieve(query, TOP_K)
        kept_after = client.snapshot_memories() if visible else []
    if one != other:
        return broken(
            f"asked twice: {excerpt(to_wire(one))} against {excerpt(to_wire(other))}",
            "declare retrieve_mutates: true, or keep retrieval from writing",
        )
    if kept != kept_after:
        return broken(
            "the snapshot after a retrieval is not the one before it",
            "declare retrieve_mutates: true, or keep retrieval from writing",
        )
    return ok()
