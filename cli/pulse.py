"""A sign of life: where work takes long and there is no live display, a line every so often."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

#: Nobody waits longer than this for a line, in seconds.
PULSE_S = 15.0


class Pulse:
    """Calls ``tell`` with a line whenever nothing was said for ``period`` seconds.

    ``state`` gives the line, or ``None`` where there is nothing to tell. It runs in a thread of its
    own, so what it reads must bear that.
    """

    def __init__(
        self, state: Callable[[], str | None], tell: Callable[[str], None], period: float = PULSE_S
    ) -> None:
        self._state = state
        self._tell = tell
        self._period = period
        self._last = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def said(self) -> None:
        """Something else was said just now."""
        self._last = time.monotonic()

    def __enter__(self) -> Pulse:
        self.said()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._end.wait(max(0.01, self._last + self._period - time.monotonic())):
            if time.monotonic() - self._last < self._period:
                continue
            line = self._state()
            self.said()
            if line is not None:
                self._tell(line)
