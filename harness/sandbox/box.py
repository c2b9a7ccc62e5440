"""What container boxes and process boxes share: start, call, post-mortem, close.

A :class:`PipedBox` is a pipe to a child process plus a :class:`Body`, which knows what the child
is the front of: the process itself, or a container.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.adapter import wire
from harness.adapter.meter import folder_bytes
from harness.outcomes import AdapterFailure, EngineError, SandboxFailure
from harness.sandbox.base import BoxRequest, Limits, ModelCall, Reply, Usage
from harness.sandbox.child import Child
from harness.sandbox.meta import usage_of
from harness.sandbox.pipe import Pipe, PipeEnded

log = logging.getLogger(__name__)

#: A box gets this long to answer ``shutdown`` and to go.
SHUTDOWN_S = 2.0

#: How often the host looks at a box's state folder itself, in seconds.
STATE_LOOK_S = 2.0


@dataclass(frozen=True)
class Ending:
    """How a box's main process ended; ``code`` is absent where nobody knows."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    note: str = ""


class Body(Protocol):
    """The part of a box behind its child process."""

    def kill(self) -> None:
        """End what the child is the front of, after the child. Safe to call twice."""

    def ending(self, child: Child) -> Ending:
        """How it ended; called when its stream has ended. Waits a moment for the facts."""

    def state_folder(self) -> Path | None:
        """Where the host sees the box's state, or ``None`` where it does not."""

    def remove(self) -> None:
        """Leave nothing behind. Safe to call twice."""


class PipedBox:
    """A started baseline; see :class:`harness.sandbox.base.Box`."""

    def __init__(
        self, child: Child, body: Body, limits: Limits, model_call: ModelCall | None
    ) -> None:
        self.hello: dict[str, Any] = {}
        self.child = child
        self.body = body
        self._limits = limits
        self._failure: SandboxFailure | None = None
        self._usage: Usage | None = None
        self._close_lock = threading.Lock()
        self._last_meta: dict[str, Any] = {}
        self.pipe = Pipe(child, model_call, housekeeping=self._housekeeping)
        self._closing = threading.Event()
        threading.Thread(target=self._watch_state, name="memrig-state", daemon=True).start()

    def _watch_state(self) -> None:
        """Hold the box to its disk limit from outside, for its own watch runs beside its adapter.

        Only where the host can look into the state folder. It sees the tree: files without a name
        that are still open are seen by the box alone. In a thread of its own, since a look at very
        many files would make the pipe's watchdog late; it costs at most a twentieth of one core.
        """
        limit = self._limits.disk_mb * 1024 * 1024
        folder: Path | None = None
        pause = STATE_LOOK_S
        while not self._closing.wait(pause):
            started = time.monotonic()
            try:
                folder = folder or self.body.state_folder()
            except EngineError as error:
                log.warning("the host cannot find the state folder of a box: %s", error)
                return
            if folder is None or not os.access(folder, os.R_OK | os.X_OK):
                return
            size = folder_bytes(folder)
            if size > limit:
                message = f"the host saw {size} bytes in the box's state folder, over its limit"
                self.pipe.condemn("DISK_LIMIT", f"{message} of {limit}; the box was killed")
                self._kill_body()
                return
            pause = max(STATE_LOOK_S, 20 * (time.monotonic() - started))

    def _housekeeping(self) -> bool:
        self.child.log.trim()
        return self.child.gone()

    def initialize(self, request: BoxRequest, adapter: str) -> None:
        """Say hello.

        Raises:
            SandboxFailure: START_FAILED, START_TIMEOUT, OUT_OF_MEMORY, DISK_LIMIT, PROTOCOL. The
                box is closed then.
        """
        params = {
            "protocol": wire.PROTOCOL,
            "seed": request.seed,
            "sample": request.sample,
            "options": request.options,
            "routes": list(request.routes),
            "adapter": adapter,
        }
        try:
            self.hello = self.call("initialize", params, timeout_s=self._limits.start_s).value
        except SandboxFailure as failure:
            kind = _START_KINDS.get(failure.kind, failure.kind)
            self.close()
            raise SandboxFailure(
                kind,
                failure.message,
                call="initialize",
                box_exit=failure.box_exit,
                signal=failure.signal,
                stderr_tail=failure.stderr_tail,
                log=failure.log,
            ) from None
        except AdapterFailure as failure:
            self.close()
            raise SandboxFailure(
                "START_FAILED",
                f"the adapter could not be made: {failure.kind}: {failure.message}",
                call="initialize",
                stderr_tail=failure.traceback or self.child.log.tail(),
                log=self.child.log.path,
            ) from failure
        except BaseException:
            self.close()
            raise

    def call(self, method: str, params: dict[str, Any], *, timeout_s: float | None = None) -> Reply:
        """Make one adapter call; see :class:`harness.sandbox.base.Box`."""
        if self._failure is not None:
            raise self._failure
        limit = self._limits.call_s if timeout_s is None else timeout_s
        try:
            reply = self.pipe.call(method, params, limit)
        except PipeEnded as ended:
            if self._failure is None:  # else it was closed meanwhile, which says it all
                self._failure = self._explain(ended, limit)
            raise self._failure from None
        self._last_meta = reply.meta
        return reply

    def _explain(self, ended: PipeEnded, limit: float) -> SandboxFailure:
        """The post-mortem: client first, then the body, then what they say about the end."""
        if ended.reason == "ENDED":
            self.child.wait(3.0)
        self.child.kill()
        if ended.reason != "ENDED":
            self._kill_body()
        ending = self.body.ending(self.child)
        kind, message = _classify(ended, ending, limit)
        if ending.code == wire.EXIT_DISK_LIMIT:
            message = _own_words(self.child.log.tail()) or message
        return SandboxFailure(
            kind,
            message,
            call=ended.call,
            box_exit=ending.code,
            signal=ending.signal,
            stderr_tail=self.child.log.tail(),
            log=self.child.log.path,
        )

    def _kill_body(self) -> None:
        """A box that hangs must not go on computing until somebody closes it."""
        try:
            self.body.kill()
        except EngineError as error:
            log.warning("a box could not be killed yet: %s", error)

    def close(self) -> Usage:
        """End the box and remove what it was made of. Safe to call twice and after a failure."""
        with self._close_lock:
            if self._usage is None:
                self._closing.set()
                meta = self._say_goodbye()
                self._usage = usage_of(meta or self._last_meta)
                self._end(polite=meta is not None)
            return self._usage

    def _say_goodbye(self) -> dict[str, Any] | None:
        """Ask a healthy box to go and what it used; a dead or a busy one is not asked."""
        if not self.pipe.busy:
            with contextlib.suppress(PipeEnded, SandboxFailure, AdapterFailure):
                return self.pipe.call("shutdown", {}, SHUTDOWN_S).meta
        return None

    def _end(self, *, polite: bool) -> None:
        if self._failure is None:
            self._failure = SandboxFailure("EXITED", "the box was closed")
        if not polite:
            self.child.kill()
        self.pipe.end(SHUTDOWN_S if polite else 0.0)
        if polite:
            self.child.wait(SHUTDOWN_S)
        self.child.kill()
        self.child.wait(3.0)
        try:
            self.body.remove()
        except EngineError as error:
            # Not raised: it would hide why the box is closed. Its labels lead the reaper to it.
            log.warning("a box could not be removed (`memrig clean` does it later): %s", error)
        self.child.log.close()


_START_KINDS = {
    "CALL_TIMEOUT": "START_TIMEOUT",
    "EXITED": "START_FAILED",
    "KILLED": "START_FAILED",
    "MESSAGE_TOO_LARGE": "START_FAILED",
}


def _own_words(tail: str) -> str:
    """What the box's server, not its adapter, said last in the box's log."""
    said = [line for line in tail.splitlines() if line.startswith("memrig: ")]
    return said[-1].partition(": ")[2] if said else ""


def _classify(ended: PipeEnded, ending: Ending, limit: float) -> tuple[str, str]:
    if ended.reason == "CALL_TIMEOUT":
        return "CALL_TIMEOUT", f"no reply within {limit:g} s; the box was killed"
    if ended.reason in ("PROTOCOL", "DISK_LIMIT"):
        return ended.reason, ended.message
    note = f" ({ending.note})" if ending.note else ""
    if ending.out_of_memory:
        return "OUT_OF_MEMORY", f"the box ran over its memory limit and was killed{note}"
    if ending.code == wire.EXIT_DISK_LIMIT:
        return "DISK_LIMIT", f"the box's state folder grew over its limit{note}"
    if ending.code == wire.EXIT_PROTOCOL:
        return "PROTOCOL", f"the box could not read what it was sent{note}"
    if ending.signal == 9:
        hint = "by somebody, or by the kernel for want of memory where the engine does not tell"
        return "KILLED", f"the box was killed by signal 9: {hint}{note}"
    if ending.signal is not None:
        return "KILLED", f"the box was killed by signal {ending.signal}{note}"
    if ending.code is not None:
        return "EXITED", f"the box ended with exit code {ending.code}{note}"
    return "EXITED", f"{ended.message}{note}"
