"""Stage 1: samples in boxes of their own, several at a time, each accounted for to the end.

What is done about a failure stands in ``outcomes.POLICIES``; the code here only obeys it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.adapter.records import Capabilities, capabilities_from
from harness.outcomes import (
    MAX_RESTARTS,
    AdapterFailure,
    SandboxFailure,
    policy_of,
)
from harness.pipeline import events
from harness.pipeline.blind import Blinder, ImageMode
from harness.pipeline.life import Life, SetupFailed, Terms
from harness.pipeline.plan import SessionStep, Step, steps_of
from harness.runs import Attempt
from harness.samples import Sample
from harness.sandbox.base import Box, BoxRequest, Launcher, ModelCall, Usage
from harness.sandbox.client import MemoryClient

OpenAttempt = Callable[[], Attempt]


class Stopped(Exception):
    """This run is being stopped: the sample's attempt stays as it is, incomplete."""


class OpenBoxes:
    """The boxes that are open now, so that an interrupt can close them from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: set[Box] = set()
        self.stopped = False

    def add(self, box: Box) -> None:
        """Take charge of a box; one that comes after :meth:`stop` is closed at once."""
        with self._lock:
            self._boxes.add(box)
            stopped = self.stopped
        if stopped:
            self.close(box)
            raise Stopped

    def close(self, box: Box) -> Usage:
        """Close a box and forget it."""
        with self._lock:
            self._boxes.discard(box)
        return box.close()

    def stop(self) -> None:
        """Start no more boxes and close those that are open."""
        with self._lock:
            self.stopped = True
            boxes = list(self._boxes)
        for box in boxes:
            self.close(box)

    def check(self) -> None:
        """Raise ``Stopped`` once the run is being stopped."""
        if self.stopped:
            raise Stopped


@dataclass(frozen=True)
class BoxTerms:
    """How the boxes of a run are made.

    ``greet`` is given each box's hello and says in what it is not the box that this run began
    with, if it is not.
    """

    launcher: Launcher
    seed: int
    options: dict[str, Any]
    images: ImageMode
    log_dir: Path
    greet: Callable[[dict[str, Any]], str | None]
    routes: tuple[str, ...] = ()
    model_call: ModelCall | None = None


class BoxRunner:
    """Does samples of one row, each in a fresh box. One instance serves all threads."""

    def __init__(
        self, terms: Terms, boxes: BoxTerms, max_sessions: int | None, open_boxes: OpenBoxes
    ) -> None:
        self._terms = terms
        self._boxes = boxes
        self._max_sessions = max_sessions
        self._open = open_boxes

    def run(self, sample: Sample, place: int, next_attempt: OpenAttempt) -> Attempt:
        """Do a sample; returns the attempt whose records are complete.

        A box that ends is followed by a fresh one, from the sample's first turn, at most
        ``MAX_RESTARTS`` times; each is an attempt of its own. The last one accounts for what is
        still open.

        Raises:
            Stopped: the run is being stopped; the attempt stays incomplete.
        """
        steps = steps_of(sample, self._max_sessions)
        blinder = Blinder(sample, place, self._boxes.images)
        for left in range(MAX_RESTARTS, -1, -1):
            self._open.check()
            with next_attempt() as attempt:
                self._terms.tell(started(self._terms.row, sample, attempt, steps))
                life = Life(self._terms, sample, steps, blinder, attempt)
                ended = self._live(life, sample, blinder, attempt)
                if ended is None:
                    return attempt
                self._tell_failed(sample, ended, left)
                if left == 0 or not policy_of(ended.kind).restart:
                    life.close_out(ended, setup=not life.begun)
                    return attempt
        raise AssertionError("the last box accounts for everything")

    def _live(
        self, life: Life, sample: Sample, blinder: Blinder, attempt: Attempt
    ) -> SandboxFailure | AdapterFailure | None:
        """One box from start to close; returns what ended it early, if anything did."""
        began = perf_counter()
        about: dict[str, Any] = {}
        box: Box | None = None
        try:
            box = self._start(blinder.sample_id)
            about["hello"] = box.hello
            capabilities = _capabilities(box)
            other = self._boxes.greet(box.hello)
            if other is not None:
                raise SandboxFailure("PROTOCOL", other, call="initialize")
            attempt.about(**about)
            ms = (perf_counter() - began) * 1000
            self._terms.tell(events.BoxReady(self._terms.row, sample.id, ms))
            life.go(MemoryClient(box), capabilities)
            about["ended"] = "finished"
        except SetupFailed as failed:
            about["ended"] = str(failed)
            return failed.error
        except (SandboxFailure, AdapterFailure) as error:
            self._open.check()
            about["ended"] = str(error)
            return error
        finally:
            about.setdefault("ended", "interrupted")
            if box is not None:
                about["usage"] = asdict(self._open.close(box))
            attempt.about(**about)
        return None

    def _start(self, ordinal: str) -> Box:
        made = self._boxes
        request = BoxRequest(
            sample=ordinal,
            seed=made.seed,
            options=made.options,
            log_dir=made.log_dir,
            routes=made.routes,
        )
        box = made.launcher.start(request, made.model_call)
        self._open.add(box)
        return box

    def _tell_failed(
        self, sample: Sample, error: SandboxFailure | AdapterFailure, left: int
    ) -> None:
        log = getattr(error, "log", None)
        restarts = left if policy_of(error.kind).restart else 0
        self._terms.tell(
            events.BoxFailed(self._terms.row, sample.id, error.kind, error.message, restarts, log)
        )


def _capabilities(box: Box) -> Capabilities:
    """What the box said it can do.

    Raises:
        SandboxFailure: the hello is none. AdapterFailure: the system says it cannot be used here.
    """
    try:
        can = capabilities_from(box.hello["capabilities"])
    except (KeyError, TypeError, ValueError) as error:
        raise SandboxFailure("PROTOCOL", f"bad capabilities: {error}", call="initialize") from None
    if not can.available:
        reason = can.unavailable_reason or "the system says that it is not available"
        raise AdapterFailure("UNAVAILABLE", reason, call="initialize")
    return can


def started(
    row: str, sample: Sample, attempt: Attempt, steps: tuple[Step, ...]
) -> events.SampleStarted:
    """The event that a sample starts."""
    sessions = sum(isinstance(step, SessionStep) for step in steps)
    return events.SampleStarted(
        row, sample.id, attempt.ordinal, attempt.number, sessions, len(steps) - sessions
    )
