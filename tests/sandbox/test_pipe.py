"""The host's end of the pipe, against boxes played by a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapter import wire
from harness.outcomes import AdapterFailure, ModelFailure, SandboxFailure
from harness.sandbox.base import ModelCall
from harness.sandbox.pipe import CallClock, Pipe, PipeEnded


class Played:
    """A transport over a pair of sockets whose other end is a function in a thread.

    The function gets this object: ``read()`` (one decoded message, ``None`` at the end) and
    ``put(bytes)``.
    """

    def __init__(self, play: Callable[[Played], None]) -> None:
        self._host, self._box = socket.socketpair()
        self._from_host = self._box.makefile("rb")
        self._from_box = self._host.makefile("rb")
        self._thread = threading.Thread(target=self._run, args=(play,), daemon=True)
        self._thread.start()

    def _run(self, play: Callable[[Played], None]) -> None:
        with contextlib.suppress(OSError):
            play(self)
        self.kill()

    # the box's side
    def read(self) -> wire.Message | None:
        line = self._from_host.readline()
        return wire.decode(line) if line else None

    def put(self, data: bytes) -> None:
        self._box.sendall(data)

    # the host's side
    def write(self, data: bytes) -> None:
        self._host.sendall(data)

    def readline(self) -> bytes:
        return self._from_box.readline(wire.MAX_LINE + 1)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._host.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """As with a killed process: whoever is blocked on either end goes on."""
        with contextlib.suppress(OSError):
            self._box.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.kill()
        self._thread.join(5)
        for end in (self._from_host, self._from_box, self._host, self._box):
            end.close()


@contextlib.contextmanager
def piped(
    play: Callable[[Played], None], model_call: ModelCall | None = None, **options: Any
) -> Iterator[Pipe]:
    transport = Played(play)
    pipe = Pipe(transport, model_call, **options)
    try:
        yield pipe
    finally:
        transport.hang_up()
        pipe.end(2.0)


def echo(box: Played) -> None:
    """A well-behaved box."""
    while isinstance(request := box.read(), wire.Request):
        box.put(wire.encode(wire.Result(request.id, request.params, {"ms": 1.0})))


def reply_with(*lines: bytes) -> Callable[[Played], None]:
    """A box that answers its first request with the given bytes and then waits for the end."""

    def play(box: Played) -> None:
        box.read()
        for line in lines:
            box.put(line)
        box.read()

    return play


def result(call_id: int, value: Any) -> bytes:
    return wire.encode(wire.Result(call_id, value, {}))


def test_calls_and_replies() -> None:
    with piped(echo) as pipe:
        for i in range(100):
            reply = pipe.call("retrieve", {"n": i}, 5)
            assert reply.value == {"n": i}
            assert reply.meta == {"ms": 1.0}


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(1, 7))
def test_chunks_may_be_cut_anywhere(text: str, size: int) -> None:
    def play(box: Played) -> None:
        while isinstance(request := box.read(), wire.Request):
            line = wire.encode(wire.Result(request.id, request.params, {}))
            for start in range(0, len(line), size):
                box.put(line[start : start + size])

    with piped(play) as pipe:
        assert pipe.call("retrieve", {"text": text}, 5).value == {"text": text}
        assert pipe.call("retrieve", {"text": text}, 5).value == {"text": text}


def test_messages_may_come_in_one_chunk() -> None:
    asked = wire.encode(wire.Request(1, "model.call", {"n": 1}))
    answers: list[wire.Message | None] = []

    def play(box: Played) -> None:
        box.read()
        box.put(asked + result(1, {"done": True}))
        answers.append(box.read())
        box.read()

    with piped(play, lambda params: {"n": params["n"] + 1}) as pipe:
        assert pipe.call("retrieve", {}, 5).value == {"done": True}
        wait_for(lambda: answers)
    assert answers == [wire.Result(1, {"n": 2}, {})]


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300).filter(lambda junk: b"\n" not in junk))
def test_junk_breaks_the_protocol_and_never_the_host(junk: bytes) -> None:
    with piped(reply_with(junk + b"\n")) as pipe:
        with pytest.raises(PipeEnded) as caught:
            pipe.call("retrieve", {}, 5)
        assert caught.value.reason == "PROTOCOL"
        with pytest.raises(PipeEnded, match="PROTOCOL"):
            pipe.call("retrieve", {}, 5)


@pytest.mark.parametrize(
    "lines",
    [
        (result(2, {}),),
        (b'{"jsonrpc":"2.0","id":1,"result":null}\n',),
        (wire.encode(wire.Request(1, "host.secrets", {})),),
        (wire.encode(wire.Failure(1, -32000, "x", kind="NEW_KIND")),),
        (wire.encode(wire.Failure(1, wire.INVALID_PARAMS, "x", kind="BASELINE_ERROR")),),
        (b"\n",),
    ],
    ids=["other id", "null", "unknown request", "unknown kind", "invalid params", "empty line"],
)
def test_what_breaks_the_protocol(lines: tuple[bytes, ...]) -> None:
    with piped(reply_with(*lines)) as pipe, pytest.raises(PipeEnded) as caught:
        pipe.call("retrieve", {}, 5)
    assert caught.value.reason == "PROTOCOL"
    assert caught.value.call == "retrieve"


def test_a_second_reply_breaks_the_protocol() -> None:
    def play(box: Played) -> None:
        box.read()
        box.put(result(1, {"n": 1}) + result(1, {"n": 2}))
        box.read()

    with piped(play) as pipe:
        with contextlib.suppress(PipeEnded):  # the second may overtake the caller
            assert pipe.call("retrieve", {}, 5).value == {"n": 1}
        wait_for(lambda: pipe.busy)
        with pytest.raises(PipeEnded, match="PROTOCOL"):
            pipe.call("retrieve", {}, 5)


def test_a_reply_without_a_call_breaks_the_protocol() -> None:
    def play(box: Played) -> None:
        box.put(result(0, {}))
        box.read()

    with piped(play) as pipe:
        wait_for(lambda: pipe.busy)
        with pytest.raises(PipeEnded, match="PROTOCOL"):
            pipe.call("retrieve", {}, 5)


def test_a_line_over_the_limit_breaks_the_protocol() -> None:
    with piped(reply_with(b"x" * (wire.MAX_LINE + 1))) as pipe:
        with pytest.raises(PipeEnded, match="over the limit") as caught:
            pipe.call("retrieve", {}, 30)
        assert caught.value.reason == "PROTOCOL"


def test_a_request_over_the_limit_is_not_sent_and_the_box_lives_on() -> None:
    with piped(echo) as pipe:
        with pytest.raises(SandboxFailure) as caught:
            pipe.call("ingest_turns", {"text": "x" * wire.MAX_LINE}, 5)
        assert caught.value.kind == "MESSAGE_TOO_LARGE"
        assert caught.value.call == "ingest_turns"
        assert pipe.call("retrieve", {"n": 1}, 5).value == {"n": 1}


def test_a_request_that_is_no_json_is_not_sent_and_the_box_lives_on() -> None:
    with piped(echo) as pipe:
        with pytest.raises(SandboxFailure, match="cannot be sent"):
            pipe.call("ingest_turns", {"text": "\ud800"}, 5)
        assert pipe.call("retrieve", {"n": 1}, 5).value == {"n": 1}


def test_typed_errors_keep_all_they_say() -> None:
    failure = wire.Failure(1, -32000, "no store", "STORE_FAILED", True, "LLM_ERROR", "Traceback")
    with piped(reply_with(wire.encode(failure))) as pipe, pytest.raises(AdapterFailure) as caught:
        pipe.call("end_session", {}, 5)
    error = caught.value
    assert (error.kind, error.message, error.retry_safe) == ("STORE_FAILED", "no store", True)
    assert (error.cause, error.traceback, error.call) == ("LLM_ERROR", "Traceback", "end_session")


def test_the_end_of_the_stream_ends_the_call() -> None:
    for lines in ((), (b'{"jsonrpc":"2.0","id":1,"resu',)):

        def play(box: Played, lines: tuple[bytes, ...] = lines) -> None:
            box.read()
            for line in lines:
                box.put(line)

        with piped(play) as pipe:
            with pytest.raises(PipeEnded) as caught:
                pipe.call("retrieve", {}, 5)
            assert caught.value.reason == "ENDED"
            with pytest.raises(PipeEnded, match="ENDED"):
                pipe.call("retrieve", {}, 5)


def test_a_call_has_a_deadline() -> None:
    with piped(reply_with()) as pipe:
        started = time.monotonic()
        with pytest.raises(PipeEnded) as caught:
            pipe.call("retrieve", {}, 0.3)
        assert caught.value.reason == "CALL_TIMEOUT"
        assert 0.3 <= time.monotonic() - started < 3


def test_the_deadline_also_ends_a_write_that_does_not_end() -> None:
    held = threading.Event()

    def play(box: Played) -> None:
        held.wait(20)  # reads nothing

    with piped(play) as pipe:
        with pytest.raises(PipeEnded) as caught:
            pipe.call("ingest_turns", {"text": "x" * 5_000_000}, 0.3)
        held.set()
        assert caught.value.reason == "CALL_TIMEOUT"


def test_no_deadline_runs_between_calls() -> None:
    with piped(echo) as pipe:
        pipe.call("retrieve", {}, 0.2)
        time.sleep(0.5)
        assert pipe.call("retrieve", {"n": 1}, 0.2).value == {"n": 1}


def test_a_process_that_is_gone_ends_a_stream_that_does_not() -> None:
    gone = threading.Event()

    def play(box: Played) -> None:
        box.read()
        gone.set()
        box.read()  # somebody else holds the stream open

    with piped(play, housekeeping=gone.is_set) as pipe, pytest.raises(PipeEnded) as caught:
        pipe.call("retrieve", {}, 60)
    assert caught.value.reason == "ENDED"


# -- model calls -----------------------------------------------------------------------------------


def asking(count: int) -> Callable[[Played], None]:
    """A box that asks ``count`` things at once during its call and returns what it was told."""

    def play(box: Played) -> None:
        while isinstance(request := box.read(), wire.Request):
            for i in range(count):
                box.put(wire.encode(wire.Request(i, "model.call", {"n": i})))
            answers = [box.read() for _ in range(count)]
            told = sorted(
                (a.id, a.value if isinstance(a, wire.Result) else a.kind)
                for a in answers
                if isinstance(a, (wire.Result, wire.Failure))
            )
            box.put(result(request.id, [value for _, value in told]))

    return play


def test_model_calls_run_while_a_call_is_open_and_at_once() -> None:
    barrier = threading.Barrier(16, timeout=10)

    def model(params: dict[str, Any]) -> dict[str, Any]:
        barrier.wait()
        return {"n": params["n"] * 2}

    with piped(asking(16), model) as pipe:
        assert pipe.call("retrieve", {}, 10).value == [{"n": 2 * i} for i in range(16)]


def test_sixty_four_model_calls_are_served_and_one_more_is_a_breach() -> None:
    release = threading.Event()

    def model(params: dict[str, Any]) -> dict[str, Any]:
        release.wait(10)
        return {"n": params["n"]}

    threading.Timer(0.5, release.set).start()
    with piped(asking(64), model) as pipe:
        assert len(pipe.call("retrieve", {}, 10).value) == 64
    release.clear()
    with piped(asking(65), model) as pipe, pytest.raises(PipeEnded, match="64 model calls"):
        pipe.call("retrieve", {}, 10)
    release.set()


def test_the_deadline_stands_still_while_a_model_call_is_open() -> None:
    def model(params: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1.0)
        return {"n": 0}

    with piped(asking(3), model) as pipe:
        assert pipe.call("end_session", {}, 0.4).value == [{"n": 0}] * 3


def test_a_failed_model_call_reaches_the_box_by_name() -> None:
    def model(params: dict[str, Any]) -> dict[str, Any]:
        if params["n"] == 0:
            raise ModelFailure("BUDGET_EXHAUSTED", "no money")
        if params["n"] == 1:
            raise KeyError("a fault of ours")
        if params["n"] == 2:
            return {"text": float("nan")}
        return {"text": "x" * wire.MAX_LINE}

    with piped(asking(4), model) as pipe:
        assert pipe.call("retrieve", {}, 30).value == [
            "BUDGET_EXHAUSTED",
            "HOST_ERROR",
            "HOST_ERROR",
            "MESSAGE_TOO_LARGE",
        ]
    with piped(asking(1)) as pipe:
        assert pipe.call("retrieve", {}, 5).value == ["UNAVAILABLE"]


def test_a_model_call_outside_of_a_call_is_served() -> None:
    answers: list[wire.Message | None] = []

    def play(box: Played) -> None:
        box.put(wire.encode(wire.Request(9, "model.call", {"n": 1})))
        answers.append(box.read())
        echo(box)

    with piped(play, lambda params: {"n": 5}) as pipe:
        wait_for(lambda: answers)
        assert answers == [wire.Result(9, {"n": 5}, {})]
        assert pipe.call("retrieve", {"n": 1}, 5).value == {"n": 1}


def test_the_clock() -> None:
    now = 100.0
    clock = CallClock(lambda: now)
    assert not clock.expired()
    clock.start(10)
    now = 109.0
    assert not clock.expired()
    clock.model_call_opened()
    clock.model_call_opened()
    now = 500.0
    assert not clock.expired()
    clock.model_call_answered()
    now = 600.0
    assert not clock.expired()
    clock.model_call_answered()
    now = 600.9
    assert not clock.expired()
    now = 601.1
    assert clock.expired()
    clock.stop()
    assert not clock.expired()
    clock.model_call_opened()  # in the background, before a call
    clock.start(10)
    now = 700.0
    assert not clock.expired()
    clock.model_call_answered()
    now = 709.0
    assert not clock.expired()
    now = 711.0
    assert clock.expired()


def wait_for(condition: Callable[[], object], patience_s: float = 5.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
