"""The box's clock follows the session: "today" is the day of the turn or of the question.

``datetime.now``, ``date.today``, ``time.time``, ``localtime``, ``strftime`` and ``uuid.uuid1`` read
the session's time; ``time.monotonic``, sleeping, waiting, time-outs and TLS (which ask the kernel)
stay real. The package ``time-machine`` does it, so it must be in the box's lock; Python alone
cannot. Children of the box and code that is not Python keep the real time.

The clock does not run. Each look at it is one microsecond after the last, so two runs that do the
same things write the same times, and two things that a system stamps one after the other are never
stamped alike. Code that waits for the clock to pass a deadline (not: that sleeps) waits in vain.
"""

from __future__ import annotations

import itertools
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Any

#: What ``MEMRIG_CLOCK`` and the hello say.
REAL, SESSION = "real", "session"

STEP_NS = 1000
_UTC = timezone.utc  # noqa: UP017  (a box may run Python 3.9)
_EPOCH = datetime(1970, 1, 1, tzinfo=_UTC)


class ClockUnusable(RuntimeError):
    """The box's clock cannot be moved; the message says why and what to do."""


class SessionClock:
    """Moves this process's clock. Make one, and only in a box.

    Raises:
        ClockUnusable: ``time-machine`` is missing, or moves more than the clock.
    """

    def __init__(self) -> None:
        try:
            import time_machine
        except ImportError as error:
            raise ClockUnusable(
                f"clock: session needs the package time-machine, 3 or newer, in the box ({error}). "
                "Put it into requirements.lock, or say clock: real in baseline.yaml"
            ) from error
        self._travel: Any = time_machine.travel
        self._journey: Any = None
        self._traveller: Any = None
        self._at: int | None = None
        self._ticks = itertools.count(0)
        self._try()

    def set(self, moment: str | None) -> None:
        """Go to a moment (ISO 8601; without a zone it is UTC). ``None``: stay.

        The same moment once more does not turn the clock back. The first and the last year that
        Python knows, which data use for "no date", are left alone and the box's log says so.

        Raises:
            ValueError: no moment.
        """
        if moment is None:
            return
        at = nanoseconds(moment)
        if at == self._at:
            return
        if not _FIRST_NS <= at <= _LAST_NS:
            print(f"memrig: the clock cannot show {moment} and stays", file=sys.stderr)
            return
        self._at = at
        self._ticks = itertools.count(at, STEP_NS)
        if self._traveller is None:
            self._journey = self._travel(0, tick=False)
            self._traveller = self._journey.start()
            self._traveller.time_ns = self._tick
        else:
            self._traveller.move_to(0)  # forgets what uuid1 keeps of the time before

    def real(self) -> None:
        """Go back to the real time."""
        if self._journey is not None:
            self._journey.stop()
        self._journey = self._traveller = self._at = None

    def _tick(self) -> int:
        return next(self._ticks)

    def _try(self) -> None:
        """Versions differ in what they move; what is promised is tried, not believed."""
        before = time.monotonic()
        self.set("2001-02-03T04:05:06")
        try:
            first, second = time.time_ns(), datetime.now(_UTC)
            moved = time.monotonic() - before
        finally:
            self.real()
        expected = nanoseconds("2001-02-03T04:05:06")
        looks = (first - expected, (second - _EPOCH) // timedelta(microseconds=1) * 1000 - expected)
        if looks != (0, STEP_NS) or not 0 <= moved < 60:
            raise ClockUnusable(
                "the installed time-machine moves the clock in another way than this one needs "
                f"(two looks: {looks} ns, monotonic: {moved:.3f} s); take version 3 or newer"
            )


def nanoseconds(moment: str) -> int:
    """Nanoseconds since 1970 of an ISO 8601 moment.

    Raises:
        ValueError: it is none.
    """
    text = moment[:-1] + "+00:00" if moment.endswith(("Z", "z")) else moment
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        read = read.replace(tzinfo=_UTC)
    return (read - _EPOCH) // timedelta(microseconds=1) * 1000


#: Local time of the moments beyond cannot be told in every zone.
_FIRST_NS, _LAST_NS = nanoseconds("0002-01-01"), nanoseconds("9998-12-31")
