"""The host's end of a box's pipe: one call at a time, model calls in between, a watchdog.

Who does what, so that nothing can lock up:

- the calling thread writes its request and waits for the reply;
- one reader thread takes lines apart and never writes;
- model calls of the box run in a pool and write their own replies, under one lock with the caller;
- one watchdog looks ten times a second whether the call has used up its time and then kills the
  box. Everybody else just sees the end of the stream, also a thread that is stuck while writing.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from harness.adapter import contract, wire
from harness.adapter.modelport import MAX_OUTSTANDING
from harness.outcomes import AdapterFailure, ModelFailure, SandboxFailure
from harness.sandbox.base import ModelCall, Reply

log = logging.getLogger(__name__)

#: How often the watchdog looks, in seconds. A deadline is kept to this.
TICK_S = 0.1

#: What a dead box wrote last is waited for this long.
DRAIN_S = 2.0


class Transport(Protocol):
    """Bytes to and from a box. Container and process boxes, and the fakes of tests, have one."""

    def write(self, data: bytes) -> None:
        """Write all of it, blocking. Raises ``OSError`` when the box is gone."""

    def readline(self) -> bytes:
        """One line with its newline, at most ``wire.MAX_LINE + 1`` bytes; ``b""`` at the end."""

    def kill(self) -> None:
        """End the stream at once, from any thread, however full it is. Safe to call twice."""

    def close(self) -> None:
        """Let go of both directions. Called when nobody reads or writes any more."""


class PipeEnded(Exception):
    """The pipe cannot be used any more.

    ``reason`` is ENDED (the box went away: ask for its exit code), CALL_TIMEOUT, PROTOCOL, or
    what :meth:`Pipe.condemn` was told.
    """

    def __init__(self, reason: str, message: str, call: str | None) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.call = call


class CallClock:
    """Time that a call has used. It stands still while a model call of the box is open."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._limit: float | None = None
        self._used = 0.0
        self._since = 0.0
        self._model_calls = 0

    def start(self, limit_s: float) -> None:
        """A call begins."""
        with self._lock:
            self._limit, self._used, self._since = limit_s, 0.0, self._now()

    def stop(self) -> None:
        """The call is over."""
        with self._lock:
            self._limit = None

    def model_call_opened(self) -> int:
        """A model call begins; returns how many are open now."""
        with self._lock:
            if self._model_calls == 0:
                self._used += self._now() - self._since
            self._model_calls += 1
            return self._model_calls

    def model_call_answered(self) -> None:
        """A model call is over."""
        with self._lock:
            self._model_calls -= 1
            if self._model_calls == 0:
                self._since = self._now()

    def expired(self) -> bool:
        """A call is open and has used more than its limit."""
        with self._lock:
            if self._limit is None:
                return False
            running = 0.0 if self._model_calls else self._now() - self._since
            return self._used + running > self._limit


class Pipe:
    """One box's pipe.

    Args:
        transport: bytes to and from the box.
        model_call: how the host answers the box's ``model.call``; ``None`` refuses them.
        housekeeping: called at every look of the watchdog (trims logs); returns whether the box's
            process is gone, which ends the pipe even where somebody else holds its stream open.
        max_model_calls: more open at once breaks the protocol.
    """

    def __init__(
        self,
        transport: Transport,
        model_call: ModelCall | None = None,
        *,
        housekeeping: Callable[[], bool] = lambda: False,
        max_model_calls: int = MAX_OUTSTANDING,
    ) -> None:
        self._transport = transport
        self._model_call = model_call
        self._housekeeping = housekeeping
        self._max_model_calls = max_model_calls
        self._clock = CallClock()
        self._replies: queue.SimpleQueue[wire.Result | wire.Failure | None] = queue.SimpleQueue()
        self._calling = threading.Lock()
        self._writing = threading.Lock()
        self._verdict_lock = threading.Lock()
        self._verdict: tuple[str, str] | None = None
        self._closed = threading.Event()
        self._last_id = 0
        self._open_call: str | None = None
        self._pool = ThreadPoolExecutor(max_model_calls, thread_name_prefix="memrig-model")
        self._reader = threading.Thread(target=self._read, name="memrig-pipe", daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, name="memrig-watchdog", daemon=True).start()

    @property
    def busy(self) -> bool:
        """A call is open, or the pipe is broken: a polite goodbye would not be heard."""
        return self._calling.locked() or self._verdict is not None

    def call(self, method: str, params: dict[str, Any], timeout_s: float) -> Reply:
        """Make one call.

        Raises:
            PipeEnded: the box ended, hung or broke the protocol.
            AdapterFailure: the memory system failed and said so.
            SandboxFailure: MESSAGE_TOO_LARGE, in either direction; the box lives on.
        """
        with self._calling:
            self._check_alive(method)
            self._last_id += 1
            try:
                line = wire.encode(wire.Request(self._last_id, method, params))
            except wire.MessageTooLarge as error:
                message = f"the request: {error}"
                raise SandboxFailure("MESSAGE_TOO_LARGE", message, call=method) from None
            except wire.NotJson as error:
                message = f"the request cannot be sent: {error}"
                raise SandboxFailure("PROTOCOL", message, call=method) from None
            self._open_call = method
            self._clock.start(timeout_s)
            try:
                answer = self._exchange(line)
            finally:
                self._clock.stop()
                self._open_call = None
            if answer is None:
                self._check_alive(method)
                raise PipeEnded("ENDED", "the box ended", method)
            if isinstance(answer, wire.Failure):
                raise self._typed(answer, method)
            return Reply(answer.value, answer.meta)

    def _exchange(self, line: bytes) -> wire.Result | wire.Failure | None:
        # A box that is gone also ends the stream that the reader sees, so a failed write needs no
        # word of its own: the reply to wait for is the end.
        with contextlib.suppress(OSError, ValueError), self._writing:
            self._transport.write(line)
        return self._replies.get()

    def end(self, patience_s: float = 3.0) -> None:
        """Let go of the pipe: the box goes by itself within ``patience_s`` or is killed."""
        self._give_verdict("ENDED", "the box was closed")
        self._reader.join(patience_s)
        if self._reader.is_alive():
            self._transport.kill()
            self._reader.join(DRAIN_S)
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._reader.is_alive():
            log.warning("the stream of a box that was killed does not end; leaving it open")
            return
        with self._writing:
            self._transport.close()

    def condemn(self, reason: str, message: str) -> None:
        """End the box for what somebody saw who watches it from outside; from any thread."""
        self._break(reason, message)

    def _check_alive(self, method: str) -> None:
        if self._verdict is not None:
            raise PipeEnded(*self._verdict, method)

    def _give_verdict(self, reason: str, message: str) -> None:
        """The first reason for the end is the true one; those that follow come from it."""
        with self._verdict_lock:
            if self._verdict is None:
                self._verdict = (reason, message)

    def _break(self, reason: str, message: str) -> None:
        self._give_verdict(reason, message)
        self._transport.kill()
        self._replies.put(None)  # also where the stream does not end

    def _typed(self, failure: wire.Failure, method: str) -> Exception:
        if failure.code == wire.TOO_LARGE:
            return SandboxFailure("MESSAGE_TOO_LARGE", failure.message, call=method)
        if failure.code == wire.INVALID_PARAMS:
            self._break("PROTOCOL", failure.message)
            return PipeEnded("PROTOCOL", failure.message, method)
        if failure.kind not in contract.ERROR_KINDS:
            self._break("PROTOCOL", f"an error of the unknown kind {failure.kind!r}")
            return PipeEnded("PROTOCOL", f"an error of the unknown kind {failure.kind!r}", method)
        return AdapterFailure(
            failure.kind,
            failure.message,
            call=method,
            retry_safe=failure.retry_safe,
            cause=failure.cause,
            traceback=failure.traceback,
        )

    def _read(self) -> None:
        try:
            while line := self._transport.readline():
                self._take(wire.decode(line))
            self._give_verdict("ENDED", "the box ended")
        except wire.ProtocolError as error:
            torn = not line.endswith(b"\n") and len(line) <= wire.MAX_LINE
            if torn:  # it died while writing; how it died says more
                self._give_verdict("ENDED", "the box ended in the middle of a message")
            else:
                self._break("PROTOCOL", str(error))
        except (OSError, ValueError) as error:  # closed under the reader by kill() or end()
            self._give_verdict("ENDED", f"the pipe was closed: {error}")
        finally:
            self._replies.put(None)

    def _take(self, message: wire.Message) -> None:
        if isinstance(message, wire.Request):
            self._take_request(message)
        elif self._open_call is None or message.id != self._last_id:
            raise wire.ProtocolError(f"a reply to call {message.id}, which is not open")
        else:
            # Nobody else may answer this call; the caller clears the rest.
            self._open_call = None
            self._replies.put(message)

    def _take_request(self, request: wire.Request) -> None:
        if request.method != "model.call":
            raise wire.ProtocolError(f"the box asked for {request.method!r}")
        if self._clock.model_call_opened() > self._max_model_calls:
            raise wire.ProtocolError(f"more than {self._max_model_calls} model calls are open")
        with contextlib.suppress(RuntimeError):  # the pool is closed: so is the box
            self._pool.submit(self._serve_model, request)

    def _serve_model(self, request: wire.Request) -> None:
        reply = self._model_reply(request)
        try:
            line = wire.encode(reply)
        except wire.MessageTooLarge as error:
            line = _model_failure(request, "MESSAGE_TOO_LARGE", f"the answer: {error}")
        except wire.NotJson as error:
            line = _model_failure(request, "HOST_ERROR", f"the answer: {error}")
        self._clock.model_call_answered()
        with contextlib.suppress(OSError, ValueError), self._writing:
            self._transport.write(line)

    def _model_reply(self, request: wire.Request) -> wire.Message:
        if self._model_call is None:
            message = "no model is configured for this box"
            return wire.Failure(request.id, wire.MODEL_FAILED, message, kind="UNAVAILABLE")
        try:
            return wire.Result(request.id, self._model_call(request.params))
        except ModelFailure as failure:
            return wire.Failure(request.id, wire.MODEL_FAILED, failure.message, kind=failure.kind)
        except Exception as error:
            # A fault of ours. The box gets a typed error, the log gets the trace.
            log.exception("model.call failed on the host")
            message = f"{type(error).__name__}: {error}"
            return wire.Failure(request.id, wire.MODEL_FAILED, message, kind="HOST_ERROR")

    def _watch(self) -> None:
        gone_since: float | None = None
        while not self._closed.wait(TICK_S) and self._reader.is_alive():
            if self._clock.expired():
                self._clock.stop()
                self._break("CALL_TIMEOUT", "no reply in time")
            if self._housekeeping():
                gone_since = gone_since or time.monotonic()
                if time.monotonic() - gone_since > DRAIN_S:
                    self._break("ENDED", "the box's process ended")
                    return


def _model_failure(request: wire.Request, kind: str, message: str) -> bytes:
    return wire.encode(wire.Failure(request.id, wire.MODEL_FAILED, message, kind=kind))
