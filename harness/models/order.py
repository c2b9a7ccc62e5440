"""Replies are let go in the order in which they came when they were recorded.

A system that asks several models at once may store things in the order of the answers. So replay
holds a reply back until those that came before it, within the same adapter call, were let go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

#: A reply whose turn does not come is let go after this: the box asks otherwise than it did.
PATIENCE_S = 5.0


@dataclass
class _Call:
    keys: list[str]
    claimed: set[int] = field(default_factory=set)
    released: set[int] = field(default_factory=set)


class ReleaseOrder:
    """The order of one box.

    Args:
        recorded: (number of the adapter call, key) -> the keys of that call in their order; empty
            when the recording has no such call.
        patience_s: how long a turn is waited for without any other reply being let go.
    """

    def __init__(
        self, recorded: Callable[[int, str], list[str]], patience_s: float = PATIENCE_S
    ) -> None:
        self._recorded = recorded
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._calls: dict[int, _Call] = {}

    def wait(self, call_no: int, key: str) -> bool:
        """Wait for the turn of a reply; returns whether it came.

        A reply that the recording does not have in this call has no turn and goes at once.
        """
        with self._changed:
            call = self._calls.get(call_no)
            if call is None:
                call = self._calls[call_no] = _Call(self._recorded(call_no, key))
            mine = next(
                (n for n, k in enumerate(call.keys) if k == key and n not in call.claimed), None
            )
            if mine is None:
                return True
            call.claimed.add(mine)
            in_turn = True
            while any(n not in call.released for n in range(mine)):
                seen = len(call.released)
                self._changed.wait(self._patience_s)
                if len(call.released) == seen:
                    # They were not asked for this time. Waited for once, not by every follower.
                    in_turn = False
                    call.released.update(range(mine))
                    self._changed.notify_all()
            call.released.add(mine)
            self._changed.notify_all()
            return in_turn
