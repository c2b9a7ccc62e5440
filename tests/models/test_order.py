"""Recorded orders: kept whatever the order of the askers, given up once where they cannot be."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.models.order import ReleaseOrder


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), st.randoms())
def test_any_order_of_askers_gives_the_recorded_order(recorded: list[str], draw: object) -> None:
    order = ReleaseOrder(lambda number, key: list(recorded), patience_s=10, gap_s=0.02)
    let_go: list[str] = []
    askers = list(recorded)
    draw.shuffle(askers)  # type: ignore[attr-defined]

    def ask(key: str) -> bool:
        in_turn = order.wait(1, key)
        let_go.append(key)
        return in_turn

    with ThreadPoolExecutor(len(askers)) as pool:
        assert all(pool.map(ask, askers))
    assert let_go == recorded


def test_sequential_requests_never_wait() -> None:
    keys = [str(n) for n in range(5_000)]
    order = ReleaseOrder(lambda number, key: keys)
    began = time.monotonic()
    assert all(order.wait(1, key) for key in keys)
    assert time.monotonic() - began < 1


def test_what_is_not_asked_for_is_waited_for_once() -> None:
    order = ReleaseOrder(lambda number, key: list("abcde"), patience_s=0.2)
    began = time.monotonic()
    assert not order.wait(1, "c")
    assert order.wait(1, "d")
    assert order.wait(1, "e")
    assert 0.2 <= time.monotonic() - began < 0.5
    assert order.wait(1, "z"), "not of this call: it has no turn"


def test_other_calls_do_not_hurry_a_wait() -> None:
    order = ReleaseOrder(lambda number, key: ["a", "b"], patience_s=0.5)
    done = threading.Event()

    def noise() -> None:
        number = 2
        while not done.is_set():
            order.wait(number, "a")
            number += 1
            time.sleep(0.01)

    thread = threading.Thread(target=noise)
    thread.start()
    began = time.monotonic()
    assert not order.wait(1, "b")
    assert time.monotonic() - began >= 0.5
    done.set()
    thread.join()
