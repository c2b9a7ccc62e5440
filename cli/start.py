"""Where the process begins and ends: signals are handled before anything heavy is imported.

Ctrl-C, SIGTERM and a closed terminal take one way: ``KeyboardInterrupt``, boxes closed, one line,
exit code 130. Pressed again while that goes on it only means not to wait for work that computes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from harness.interrupt import PROCESS

INTERRUPTED = 130

#: Closing boxes may take this long, in seconds; then the process ends as it stands. Records have
#: end markers, and boxes left behind are removed before the next one starts.
PATIENCE_S = 30.0

_AGAIN_S = 0.05


class _Signals:
    """The handlers. ``lost``: the exception was raised where Python had to drop it."""

    def __init__(self) -> None:
        self._lost = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked)
        signal.signal(signal.SIGALRM, self._alarm)
        sys.unraisablehook = self._dropped

    def _asked(self, number: int, frame: Any) -> None:
        if PROCESS.asked:
            PROCESS.hurried = True
            return
        PROCESS.asked = True
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        raise KeyboardInterrupt

    def _dropped(self, what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            self._lost = True
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            sys.__unraisablehook__(what)

    def _alarm(self, number: int, frame: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        if self._lost:
            self._lost = False
            raise KeyboardInterrupt
        _end("interrupted; something did not end in time. What was recorded is kept")


def main() -> None:
    """The console script. Does not return."""
    _Signals().install()
    code: Any = 0
    try:
        from cli.main import app

        app(prog_name="memrig")
    except KeyboardInterrupt:
        pass  # said below
    except SystemExit as ended:
        code = ended.code
    if PROCESS.asked:
        _end("interrupted" if code != INTERRUPTED else "")
    sys.exit(code)


def _end(line: str) -> None:
    """End now: a thread that still computes must not keep an interrupted process alive."""
    try:
        if line:
            sys.stderr.write(f"memrig: {line}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
