"""Was this process asked to stop? Set by a signal handler, read by whatever takes long.

The exception that the handler raises can get lost (Python drops one that hits a destructor); this
does not. Plain attributes, since a handler that waits for a lock may wait for its own thread.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Interrupt:
    """``asked``: stop. ``hurried``: asked again, so clean up but wait for nobody."""

    asked: bool = False
    hurried: bool = False

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if it was asked."""
        if self.asked:
            raise KeyboardInterrupt


#: Signals are a process's, so this is one too.
PROCESS = Interrupt()
