"""Starts boxes of the system under test, plays conversations to them, and keeps what came back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.adapter import records as wire
from harness.catalog import Baseline
from harness.conformance.conversations import FIRST, Conversation
from harness.outcomes import MemrigError, ModelFailure
from harness.sandbox.base import Box, BoxRequest, Launcher, ModelCall
from harness.sandbox.client import MemoryClient

#: Makes a launcher for the baseline, or for the baseline with another adapter in the same image.
LauncherFor = Callable[[Baseline], Launcher]

TOP_K = 3


@dataclass
class Traffic:
    """Records every model request of a box, and passes it on where there is somebody to ask."""

    upstream: ModelCall | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        """Answer one request of the box."""
        self.requests.append(params)
        if self.upstream is None:
            raise ModelFailure("LLM_UNAVAILABLE", "memrig check was given no model")
        return self.upstream(params)


@dataclass(frozen=True)
class SessionTrace:
    """What a box said at the end of one session, as plain JSON; absent what it does not offer."""

    session_id: str
    delta: list[dict[str, Any]] | None
    snapshot: list[dict[str, Any]] | None


@dataclass(frozen=True)
class Trace:
    """All that can be seen of a box that was played a conversation; times are left out."""

    sessions: tuple[SessionTrace, ...]
    retrievals: tuple[list[dict[str, Any]], ...]
    traffic: tuple[dict[str, Any], ...]

    @property
    def last_snapshot(self) -> list[dict[str, Any]]:
        """The store at the end; empty where the system shows none."""
        return (self.sessions[-1].snapshot or []) if self.sessions else []

    def texts(self) -> list[str]:
        """Every text in the last snapshot and in what was retrieved."""
        items = [*self.last_snapshot, *(item for found in self.retrievals for item in found)]
        return [str(item["text"]) for item in items]

    def everything(self) -> str:
        """The trace as JSON text: where a marker is looked for, traffic included."""
        return json.dumps(
            [[s.delta, s.snapshot] for s in self.sessions] + [self.retrievals, self.traffic],
            ensure_ascii=False,
        )


@dataclass
class Probe:
    """One baseline under check. ``log_dir`` receives the stderr of every box."""

    baseline: Baseline
    launcher_for: LauncherFor
    log_dir: Path
    model_call: ModelCall | None = None
    seed: int = 0
    _boxes: int = 0

    @cached_property
    def launcher(self) -> Launcher:
        """Of the baseline as it is."""
        return self.launcher_for(self.baseline)

    @contextmanager
    def box(
        self,
        *,
        options: dict[str, Any] | None = None,
        sample: str = "s0001",
        launcher: Launcher | None = None,
    ) -> Iterator[tuple[Box, Traffic]]:
        """A fresh box, closed whatever happens."""
        self._boxes += 1
        request = BoxRequest(
            sample=sample,
            seed=self.seed,
            options=self.baseline.options if options is None else options,
            log_dir=self.log_dir / f"{self._boxes:03d}",
        )
        request.log_dir.mkdir(parents=True, exist_ok=True)
        traffic = Traffic(self.model_call)
        box = (launcher or self.launcher).start(request, traffic)
        try:
            yield box, traffic
        finally:
            box.close()

    def fresh(
        self,
        conversation: Conversation,
        *,
        options: dict[str, Any] | None = None,
        sample: str = "s0001",
        top_k: int = TOP_K,
    ) -> Trace:
        """Play a conversation to a fresh box."""
        with self.box(options=options, sample=sample) as (box, traffic):
            box.call("reset", {})
            return play(box, traffic, conversation, top_k)

    @cached_property
    def capabilities(self) -> wire.Capabilities:
        """What the system says it can do."""
        return self.greeting[1]

    @cached_property
    def greeting(self) -> tuple[wire.Capabilities, wire.Capabilities]:
        """What a box says it can do when it starts, and when it is asked."""
        with self.box() as (box, _):
            return wire.capabilities_from(box.hello["capabilities"]), MemoryClient(
                box
            ).get_capabilities()

    @cached_property
    def start_failure(self) -> MemrigError | None:
        """Why the system's box does not start, if it does not."""
        try:
            _ = self.greeting
        except MemrigError as error:
            return error
        return None

    @cached_property
    def first(self) -> Trace:
        """:data:`FIRST` played to a fresh box; several checks read it."""
        return self.fresh(FIRST)

    @cached_property
    def repeated(self) -> str | None:
        """Where :data:`FIRST` played again differs from :attr:`first`; ``None``: nowhere."""
        return first_difference(self.first, self.fresh(FIRST))


def play(box: Box, traffic: Traffic, conversation: Conversation, top_k: int = TOP_K) -> Trace:
    """Feed a conversation in the contract's order and ask its questions at the end."""
    client = MemoryClient(box)
    capabilities = client.get_capabilities()
    already = len(traffic.requests)
    sessions = []
    for session_id, turns in conversation.sessions:
        client.ingest_turns(turns)
        client.end_session(session_id)
        delta = snapshot = None
        if capabilities.delta_source != "none":
            delta = wire.to_wire(client.export_memory_delta(session_id))
        if capabilities.snapshot != "none":
            snapshot = wire.to_wire(client.snapshot_memories())
        sessions.append(SessionTrace(session_id, delta, snapshot))
    retrievals = tuple(
        wire.to_wire(client.retrieve(query, top_k).items) for query in conversation.questions
    )
    return Trace(tuple(sessions), retrievals, tuple(traffic.requests[already:]))


def first_difference(one: Trace, other: Trace) -> str | None:
    """Where two traces part, in words; ``None`` when they are equal."""
    for before, after in zip(one.sessions, other.sessions, strict=True):
        for what in ("delta", "snapshot"):
            found = _lists_differ(getattr(before, what), getattr(after, what))
            if found:
                return f"session {before.session_id}, {what}: {found}"
    for i, (found_one, found_other) in enumerate(
        zip(one.retrievals, other.retrievals, strict=True)
    ):
        found = _lists_differ(found_one, found_other)
        if found:
            return f"question {i + 1}, retrieval: {found}"
    found = _lists_differ(list(one.traffic), list(other.traffic))
    return f"model traffic: {found}" if found else None


def _lists_differ(one: list[Any] | None, other: list[Any] | None) -> str | None:
    if one == other:
        return None
    if one is None or other is None:
        return "one has it, the other does not"
    for i, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"entry {i + 1}: {excerpt(left)} against {excerpt(right)}"
    return f"{len(one)} entries against {len(other)}"


def excerpt(value: Any, limit: int = 160) -> str:
    """The beginning of a value as JSON, for a message."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def with_adapter(baseline: Baseline, adapter: str) -> Baseline:
    """The same folder and image under another adapter."""
    return replace(baseline, adapter=adapter)
