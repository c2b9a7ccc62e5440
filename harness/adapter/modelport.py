"""How code inside a box asks the host for a model: ``model.call`` over the pipe.

Many threads may ask at once. At most :data:`MAX_OUTSTANDING` requests are on the pipe; more wait
here, and that wait does not count against a request's own deadline.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Union

from . import wire

MAX_OUTSTANDING = 64

#: How the host answers a request.
Answer = Union[wire.Result, wire.Failure]


class ModelCallFailed(Exception):
    """The host refused a model request or could not serve it; ``kind`` says why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class ModelPort:
    """The box's end of ``model.call``.

    Args:
        send: writes one message to the host; safe to use from any thread.
        max_outstanding: how many requests may be on the pipe at once.
    """

    def __init__(
        self, send: Callable[[wire.Message], None], max_outstanding: int = MAX_OUTSTANDING
    ) -> None:
        self._send = send
        self._slots = threading.Semaphore(max_outstanding)
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[Answer], None]] = {}
        self._last_id = 0
        self._pending = 0

    def pending(self) -> int:
        """How many requests are open now: queued here, or sent and not answered."""
        return self._pending

    def call(self, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Ask the host and wait.

        Args:
            params: the request, plain JSON.
            timeout: seconds from the moment it is sent. The request stays open at the host, and
                its slot taken, until the host answers.

        Raises:
            ModelCallFailed: the host said no.
            TimeoutError: no answer in time.
            wire.MessageTooLarge, wire.NotJson: the request cannot be sent.
        """
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.start(params, answers.put)
        try:
            answer = answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no answer to model.call within {timeout} s") from None
        return value_of(answer)

    def start(
        self,
        params: dict[str, Any],
        on_answer: Callable[[Answer], None],
        wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Ask the host and go on; waits only for a free slot and for the pipe.

        Args:
            params: the request, plain JSON.
            on_answer: given the answer, by the thread that reads the pipe. It must not wait.
            wanted: asked when there is a slot. Where nobody waits any more, nothing is sent.

        Returns:
            Whether it was sent.

        Raises:
            wire.MessageTooLarge, wire.NotJson: the request cannot be sent.
        """
        with self._lock:
            self._pending += 1
        self._slots.acquire()
        with self._lock:
            self._last_id += 1
            call_id = self._last_id
            self._waiting[call_id] = on_answer
        if not wanted():
            self._settle(call_id)
            return False
        try:
            self._send(wire.Request(call_id, "model.call", params))
        except BaseException:
            self._settle(call_id)
            raise
        return True

    def deliver(self, answer: Answer) -> None:
        """Hand an answer of the host to whoever waits for it; called by the reader thread.

        Raises:
            wire.ProtocolError: nobody asked.
        """
        on_answer = self._settle(answer.id)
        if on_answer is None:
            raise wire.ProtocolError(f"an answer to model.call {answer.id}, which is not open")
        on_answer(answer)

    def _settle(self, call_id: int) -> Callable[[Answer], None] | None:
        with self._lock:
            on_answer = self._waiting.pop(call_id, None)
            if on_answer is None:
                return None
            self._pending -= 1
        self._slots.release()
        return on_answer


def value_of(answer: Answer) -> dict[str, Any]:
    """What the host answered.

    Raises:
        ModelCallFailed: it said no.
    """
    if isinstance(answer, wire.Failure):
        raise ModelCallFailed(answer.kind, answer.message)
    if not isinstance(answer.value, dict):
        raise ModelCallFailed("PROTOCOL", "the host's answer is no object")
    return answer.value
