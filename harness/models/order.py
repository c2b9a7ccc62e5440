"""Replies are let go in the order in which they came when they were recorded.

A system that asks several models at once may store things in the order of the answers. So replay
holds a reply back until those that came before it, within the same adapter call, were let go.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

#: A reply whose turn does not come is let go after this: the box asks otherwise than it did.
PATIENCE_S = 5.0

#: Between a reply that is let go and the next one that waits for it. Their threads still have to
#: write them to the pipe, and must not overtake each other on the way.
GAP_S = 0.001


class _Call:
    """The recorded order of one adapter call. ``next`` is the first place not yet let go."""

    def __init__(self, keys: list[str]) -> None:
        self.places: dict[str, deque[int]] = {}
        for place, key in enumerate(keys):
            self.places.setdefault(key, deque()).append(place)
        self.next = 0
        self.progress = time.monotonic()
        self.waiting: dict[int, threading.Condition] = {}
        self._released: set[int] = set()

    def claim(self, key: str) -> int | None:
        places = self.places.get(key)
        return places.popleft() if places else None

    def release(self, place: int) -> None:
        self._released.add(place)
        while self.next in self._released:
            self._released.remove(self.next)
            self.next += 1
        self.progress = time.monotonic()
        self._wake()

    def give_up_before(self, place: int) -> None:
        self.next = max(self.next, place)

    def _wake(self) -> None:
        if self.next in self.waiting:
            self.waiting[self.next].notify()


class ReleaseOrder:
    """The order of one box.

    Args:
        recorded: (number of the adapter call, key) -> the keys of that call in their order; empty
            when the recording has no such call.
        patience_s: how long a turn is waited for without any other reply being let go.
        gap_s: see :data:`GAP_S`.
    """

    def __init__(
        self,
        recorded: Callable[[int, str], list[str]],
        patience_s: float = PATIENCE_S,
        gap_s: float = GAP_S,
    ) -> None:
        self._recorded = recorded
        self._patience_s, self._gap_s = patience_s, gap_s
        self._lock = threading.Lock()
        self._calls: dict[int, _Call] = {}

    def wait(self, call_no: int, key: str) -> bool:
        """Wait for the turn of a reply; returns whether it came.

        A reply that the recording does not have in this call has no turn and goes at once.
        """
        with self._lock:
            call = self._calls.get(call_no)
            if call is None or not call.places:
                call = self._calls[call_no] = _Call(self._recorded(call_no, key))
            mine = call.claim(key)
            if mine is None:
                return True
            in_turn = call.next >= mine or self._wait(call, mine)
            call.release(mine)
            return in_turn

    def _wait(self, call: _Call, mine: int) -> bool:
        turn = call.waiting[mine] = threading.Condition(self._lock)
        in_turn = True
        while call.next < mine:
            left = call.progress + self._patience_s - time.monotonic()
            if left > 0:
                turn.wait(left)
            else:
                # They were not asked for this time. Waited for once, not by every follower.
                in_turn = False
                call.give_up_before(mine)
        del call.waiting[mine]
        # Nobody is woken before this one is released, so nobody ends this early.
        turn.wait(self._gap_s)
        return in_turn
