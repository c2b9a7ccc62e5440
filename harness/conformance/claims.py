"""Checks of what a system claims: that it is true of what can be seen from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.adapter.records import Attachment, Query
from harness.conformance.conversations import (
    FIRST,
    FIRST_DATE_FORMS,
    PICTURE,
    Conversation,
    png,
    without,
)
from harness.conformance.probe import Probe, Trace, excerpt, first_difference, play
from harness.conformance.results import Verdict, broken, not_applicable, ok
from harness.sandbox.client import MemoryClient

_CAPTION_WORD = "quillomatic"


def images(probe: Probe) -> Verdict:
    """Images are taken, and the declared capability (none, caption, file) is what happens."""
    declared = probe.capabilities.images
    if declared == "file":
        return _image_files(probe)
    asked = _asking(f"Is there a {_CAPTION_WORD}?")
    trace = probe.fresh(asked)
    found = any(_CAPTION_WORD in text for text in trace.texts())
    found = found or _CAPTION_WORD in str(trace.traffic)
    if declared == "caption" and not found:
        return broken(
            "images: caption, but the caption is neither stored, retrieved nor sent to a model",
            "put turn.attachments[i].caption into the text, or declare images: none",
        )
    if declared == "none" and found:
        return broken(
            "images: none, but a caption came back", "declare images: caption in get_capabilities"
        )
    return ok(f"images: {declared}")


def _image_files(probe: Probe) -> Verdict:
    dark, light = (_pictured(replace(PICTURE, data=png(shade))) for shade in (10, 250))
    if first_difference(probe.fresh(dark), probe.fresh(light)) is None:
        return broken(
            "images: file, but another picture changes nothing that can be seen",
            "read turn.attachments[i].data (base64), or declare images: caption or none",
        )
    return ok("images: file")


def _pictured(picture: Attachment) -> Conversation:
    sessions = tuple(
        (name, tuple(replace(t, attachments=(picture,)) if t.attachments else t for t in turns))
        for name, turns in FIRST.sessions
    )
    return replace(FIRST, sessions=sessions)


def _asking(*questions: str) -> Conversation:
    return replace(FIRST, questions=tuple(Query(text) for text in questions))


def time_reaches(probe: Probe) -> Verdict:
    """The date of a turn reaches the system as declared (native, store_only, text_only, none)."""
    seen = any(form in text.casefold() for text in probe.first.texts() for form in FIRST_DATE_FORMS)
    dateless = without(FIRST, "timestamp", "time")
    advice = "put turn.timestamp (or turn.time) into what is stored"
    return _reaches(probe, "time", "date", probe.capabilities.time, seen, dateless, advice)


def speaker_reaches(probe: Probe) -> Verdict:
    """The speaker's name reaches the system as declared (native, text_only, none)."""
    asked = _asking("What did Teska say?", "Who teaches physics?")
    trace = probe.fresh(asked)
    seen = any("Teska" in text for text in trace.texts())
    nameless = without(FIRST, "name")
    advice = "put turn.name (else turn.role) into what is stored"
    declared = probe.capabilities.speakers
    return _reaches(probe, "speakers", "speaker's name", declared, seen, nameless, advice)


def _reaches(
    probe: Probe,
    capability: str,
    what: str,
    declared: str,
    seen: bool,
    bare: Conversation,
    advice: str,
) -> Verdict:
    if declared == "none":
        if seen:
            return broken(
                f"{capability}: none, but the {what} came back",
                f"declare {capability}: text_only in get_capabilities",
            )
        return ok(f"{capability}: none")
    if seen:
        return ok(f"{capability}: {declared}")
    if declared == "text_only":
        return broken(f"{capability}: text_only, but no text holds the {what}", advice)
    if declared == "store_only":
        return not_applicable(f"{capability}: store_only, it is in no text that comes out")
    if first_difference(probe.first, probe.fresh(bare)) is None:
        return broken(f"{capability}: native, but without the {what} nothing changes", advice)
    return ok(f"{capability}: {declared}, it changes the records")


def provenance(probe: Probe) -> Verdict:
    """``sources`` name turns or sessions that were sent; they are there as declared."""
    entries = _entries(probe.first)
    known = FIRST.turn_ids
    for entry in entries:
        unknown = [source for source in entry.get("sources", []) if source not in known]
        if unknown:
            return broken(
                f"{entry['memory_id']!r} names the source {unknown[0]!r}, which was never sent",
                "give turn.turn_id or the session's id as a source",
            )
    named = any(entry.get("sources") for entry in entries)
    if probe.capabilities.provenance and entries and not named:
        return broken(
            "provenance: true, but no memory names a source",
            "fill sources with turn.turn_id, or declare provenance: false",
        )
    if named and not probe.capabilities.provenance:
        return broken(
            "memories name their sources, but provenance is false",
            "declare provenance: true, or recall@k stays N/A for this row",
        )
    return ok() if named else not_applicable("the system names no sources")


def scores(probe: Probe) -> Verdict:
    """Retrieved items carry scores as declared, best first."""
    declared = probe.capabilities.scores
    for found in probe.first.retrievals:
        given = [item["score"] for item in found if "score" in item]
        if declared and len(given) != len(found):
            return broken("scores: true, but an item has none", "give every item a score")
        if given and not declared:
            return broken("items carry scores, but scores is false", "declare scores: true")
        if given != sorted(given, reverse=True):
            return broken(
                f"scores are not best first: {given}", "sort by score, or negate a distance"
            )
    return ok() if declared else not_applicable("the system gives no scores")


def completeness(probe: Probe) -> Verdict:
    """Where k memories are stored and k are asked for, k come back, or a note says why."""
    capabilities = probe.capabilities
    if capabilities.snapshot == "none":
        return not_applicable("snapshot: none, it cannot be seen how many are stored")
    stored = [entry for entry in probe.first.last_snapshot if entry["status"] == "active"]
    if not stored:
        return not_applicable("nothing is stored")
    with probe.box() as (box, traffic):
        client = MemoryClient(box)
        client.reset()
        play(box, traffic, FIRST)
        for top_k in sorted({1, len(stored), len(stored) + 50}):
            for query in FIRST.questions:
                count = len(client.retrieve(query, top_k).items)
                if count > top_k and not capabilities.full_context:
                    return broken(
                        f"asked for {top_k}, {count} came back",
                        "cut to top_k, or declare full_context: true",
                    )
                if count < min(top_k, len(stored)) and not capabilities.notes:
                    return broken(
                        f"{len(stored)} are stored, {top_k} were asked for, {count} came back "
                        f"for {excerpt(query.text)}",
                        "switch a score threshold or a default limit off, or say why in the "
                        "capability `notes`",
                    )
    return ok("; ".join(capabilities.notes))


def _entries(trace: Trace) -> list[dict[str, Any]]:
    return [*trace.last_snapshot, *(item for found in trace.retrievals for item in found)]
