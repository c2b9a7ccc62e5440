"""At most so many requests at once on a route (``LLM_MAX_CONCURRENT``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.models.routes import Route


class Lanes:
    """The lanes of all routes of one process; first come, first served."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._used: dict[str, int] = {}
        self._queue: dict[str, list[object]] = {}
        #: Most requests that were open at once, by route; for reports.
        self.peak: dict[str, int] = {}

    @contextmanager
    def lane(self, route: Route) -> Iterator[float]:
        """Hold a lane; yields the milliseconds that were waited for it."""
        began = time.perf_counter()
        ticket = object()
        with self._free:
            queue = self._queue.setdefault(route.name, [])
            queue.append(ticket)
            self._free.wait_for(
                lambda: queue[0] is ticket and self._used.get(route.name, 0) < route.concurrency
            )
            queue.pop(0)
            used = self._used.get(route.name, 0) + 1
            self._used[route.name] = used
            self.peak[route.name] = max(used, self.peak.get(route.name, 0))
            self._free.notify_all()
        try:
            yield (time.perf_counter() - began) * 1000
        finally:
            with self._free:
                self._used[route.name] -= 1
                self._free.notify_all()
