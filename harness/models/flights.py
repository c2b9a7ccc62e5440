"""Equal requests that are meant to give one reply, open at once, are sent once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from harness.models.failures import BudgetExhausted, GatewayClosed

T = TypeVar("T")


class Flights:
    """Open deterministic requests by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[object]] = {}

    def share(self, key: str, make: Callable[[], T]) -> tuple[T, bool]:
        """The value of ``make``, or of another thread's that is open under the same key.

        Returns the value and whether it is another's. A failure is shared too, but for an empty
        budget: that may be the other one's alone, so this one tries for itself.
        """
        while True:
            with self._lock:
                flight = self._open.get(key)
                if flight is None:
                    mine: Future[object] = Future()
                    self._open[key] = mine
            if flight is None:
                return self._lead(key, mine, make), False
            try:
                return flight.result(), True  # type: ignore[return-value]
            except (BudgetExhausted, GatewayClosed):
                continue

    def _lead(self, key: str, mine: Future[object], make: Callable[[], T]) -> T:
        try:
            value = make()
        except BaseException as error:
            self._land(key)
            # An interrupt of this thread says nothing to the others: they try for themselves.
            mine.set_exception(error if isinstance(error, Exception) else GatewayClosed())
            raise
        self._land(key)
        mine.set_result(value)
        return value

    def _land(self, key: str) -> None:
        with self._lock:
            del self._open[key]
