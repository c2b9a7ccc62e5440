"""The relay's HTTP, byte by byte: framing, connections, keys. No SDK, no box."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapter import wire
from harness.adapter.http11 import HttpError, HttpRequest, RequestReader
from harness.adapter.modelport import ModelPort
from harness.adapter.relay import Relay

LIMIT = 100_000


class Near:
    """A relay in this process, and a host that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[wire.Request] = queue.SimpleQueue()
        self.port = ModelPort(self._sent)
        self.failures: list[BaseException] = []
        self.relay = Relay(self.port, self.failures.append, max_body=LIMIT)

    def _sent(self, message: wire.Message) -> None:
        assert isinstance(message, wire.Request)
        wire.encode(message)
        self.asked.put(message)

    def answer(self, body: Any, status: int = 200, **headers: str) -> dict[str, Any]:
        """Answer the oldest request; returns what it asked."""
        request = self.asked.get(timeout=10)
        value = {"status": status, "headers": headers, "body": body}
        self.port.deliver(wire.Result(request.id, value))
        return request.params

    def connect(self) -> Line:
        port = int(self.relay.url.split(":")[2].partition("/")[0])
        return Line(socket.create_connection(("127.0.0.1", port), timeout=10), self.relay.token)


class Line:
    """A client's connection."""

    def __init__(self, held: socket.socket, token: str) -> None:
        self.socket, self.token = held, token
        self.file = held.makefile("rb")

    def send(
        self, body: bytes = b"{}", *headers: str, method: str = "POST", path: str = "/v1/x"
    ) -> None:
        self.raw(
            head(self.token, f"content-length: {len(body)}", *headers, method=method, path=path)
        )
        self.raw(body)

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = value
        length = 0 if head_only else int(headers.get("content-length", 0))
        return status, headers, self.file.read(length)

    def said(self) -> Any:
        return json.loads(self.read()[2])

    def ended(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return self.file.read(1) == b""
        return True

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def head(token: str, *headers: str, method: str = "POST", path: str = "/v1/x") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: box", f"authorization: Bearer {token}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture(scope="module")
def near() -> Near:
    return Near()


@pytest.fixture
def line(near: Near) -> Iterator[Line]:
    made = near.connect()
    yield made
    made.close()
    assert near.failures == []
    assert near.asked.empty()


def test_a_connection_serves_one_request_after_the_other(near: Near, line: Line) -> None:
    for i in range(3):
        line.send(json.dumps({"i": i}).encode())
        assert near.answer({"got": i})["body"] == {"i": i}
        status, headers, body = line.read()
        assert (status, json.loads(body)) == (200, {"got": i})
        assert headers["content-type"] == "application/json"
        assert "connection" not in headers


def test_an_idle_connection_is_kept(near: Near, line: Line) -> None:
    """Clients pool connections for minutes; nothing here counts how long one was idle."""
    line.send()
    near.answer({})
    line.read()
    time.sleep(1.5)
    line.send()
    near.answer({"still": "here"})
    assert line.said() == {"still": "here"}


def test_pipelined_requests_are_answered_in_order(near: Near, line: Line) -> None:
    one = head(line.token, "content-length: 8")
    line.raw(one + b'{"i": 1}' + one + b'{"i": 2}')
    assert near.answer({"got": 1})["body"] == {"i": 1}
    assert near.answer({"got": 2})["body"] == {"i": 2}
    assert [line.said(), line.said()] == [{"got": 1}, {"got": 2}]


def test_a_body_in_chunks(near: Near, line: Line) -> None:
    line.raw(head(line.token, "transfer-encoding: chunked"))
    for piece in (b'5;note="x"\r\n{"a":\r\n', b"4\r\n 12}\r\n", b"0\r\nx-trailer: 1\r\n\r\n"):
        line.raw(piece)
        time.sleep(0.01)
    assert near.answer({})["body"] == {"a": 12}
    assert line.said() == {}


def test_a_client_that_waits_for_100_continue(near: Near, line: Line) -> None:
    line.raw(head(line.token, "expect: 100-continue", "content-length: 2"))
    assert line.file.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert line.file.readline() == b"\r\n"
    line.raw(b"{}")
    near.answer({"ok": True})
    assert line.said() == {"ok": True}


def test_a_client_that_ends_its_connection_after_the_reply(near: Near, line: Line) -> None:
    line.send(b"{}", "connection: close")
    near.answer({"ok": True})
    status, headers, _ = line.read()
    assert (status, headers["connection"]) == (200, "close")
    assert line.ended()


def test_http_1_0_ends_too(near: Near, line: Line) -> None:
    line.raw(f"GET /v1/models HTTP/1.0\r\nx-api-key: {line.token}\r\n\r\n".encode())
    assert near.answer({"data": []}) == {"route": "openai", "method": "GET", "path": "/v1/models"}
    assert line.said() == {"data": []}
    assert line.ended()


def test_a_reply_to_head_is_a_head(near: Near, line: Line) -> None:
    line.raw(head(line.token, method="HEAD"))
    near.answer({"error": {}}, 403)
    status, headers, _ = line.read(head_only=True)
    assert status == 403
    assert int(headers["content-length"]) > 0
    line.send()
    near.answer({"next": 1})
    assert line.said() == {"next": 1}


@pytest.mark.parametrize(
    ("header", "opens"),
    [
        ("authorization: Bearer {}", True),
        ("authorization: bearer  {}", True),
        ("api-key: {}", True),
        ("x-vendor: Token {}", True),
        ("authorization: Bearer {}x", False),
        ("authorization: Bearer", False),
        ("x: y", False),
    ],
)
def test_which_keys_open_it(near: Near, line: Line, header: str, opens: bool) -> None:
    line.raw(f"GET /v1/models HTTP/1.1\r\n{header.format(line.token)}\r\n\r\n".encode())
    if opens:
        near.answer({"data": []})
        assert line.read()[0] == 200
        return
    status, headers, body = line.read()
    assert (status, headers["x-should-retry"]) == (401, "false")
    assert json.loads(body)["error"]["code"] == "RELAY_401"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", ("openai", "/v1/chat/completions")),
        ("/v1/models?limit=2", ("openai", "/v1/models?limit=2")),
        ("/other", ("openai", "/other")),
        ("/r/zep/api/v2/x?y=/r/z", ("zep", "/api/v2/x?y=/r/z")),
        ("/r/zep/", ("zep", "/")),
        ("http://127.0.0.1:1/v1/x", ("openai", "/v1/x")),
    ],
)
def test_paths_and_routes(near: Near, line: Line, path: str, asked: tuple[str, str]) -> None:
    line.send(path=path)
    params = near.answer({})
    assert (params["route"], params["path"]) == asked
    line.read()


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/r/zep", (), b"{}", 404),
        ("x", (), b"{}", 400),
        ("/v1/x", (), b"[]", 400),
        ("/v1/x", (), b'{"a": NaN}', 400),
        ("/v1/x", (), b'{"a": "\xff"}', 400),
        ("/v1/x", (), b'{"a"', 400),
        ("/v1/x", (), b'{"a": "\\ud83d"}', 400),
        ("/v1/x", (), b"[" * 50_000, 400),
        ("/v1/x", ("content-type: multipart/form-data; boundary=x",), b"--x--", 415),
        ("/v1/x", ("content-encoding: gzip",), b"\x1f\x8b", 415),
    ],
)
def test_what_is_refused_and_leaves_the_connection_open(
    near: Near, line: Line, path: str, headers: tuple[str, ...], body: bytes, status: int
) -> None:
    line.send(body, *headers, path=path)
    got, said, text = line.read()
    assert (got, said["x-should-retry"]) == (status, "false")
    assert set(json.loads(text)["error"]) == {"message", "type", "param", "code"}
    line.send()
    near.answer({"next": 1})
    assert line.said() == {"next": 1}
    assert near.relay.queued() == near.port.pending() == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nfolded: x\r\n y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc", 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n", 413),
        (b"POST / HTTP/1.1\r\ncontent-length: 100001\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
    ],
)
def test_what_is_no_http_ends_the_connection(line: Line, data: bytes, status: int) -> None:
    line.raw(data)
    got, headers, body = line.read()
    assert (got, headers["connection"]) == (status, "close")
    assert json.loads(body)["error"]["message"]
    line.raw(b"more of it, which nobody reads" * 1000)
    assert line.ended()


def test_a_long_reply_to_a_slow_reader_holds_up_nobody(near: Near, line: Line) -> None:
    line.send()
    near.answer({"long": "x" * 30_000_000})
    other = near.connect()
    other.send()
    near.answer({"quick": 1})
    assert other.said() == {"quick": 1}
    other.close()
    assert len(line.said()["long"]) == 30_000_000
    line.send()
    near.answer({"next": 1})
    assert line.said() == {"next": 1}


def test_the_host_s_headers_pass_but_not_those_of_the_connection(near: Near, line: Line) -> None:
    line.send()
    near.answer(
        {},
        **{
            "X-Memrig-Cache": "hit",
            "Content-Length": "9",
            "Connection": "close",
            "evil": "a\r\nb: c",
        },
    )
    _, headers, body = line.read()
    assert headers["x-memrig-cache"] == "hit"
    assert (headers["content-length"], body) == ("2", b"{}")
    assert not {"connection", "evil", "b"} & set(headers)


def test_a_client_that_leaves_is_seen_by_who_asks(near: Near) -> None:
    assert near.relay.take_degraded() == []
    leaver = near.connect()
    leaver.send()
    request = near.asked.get(timeout=10)
    assert near.relay.take_degraded() == []
    leaver.close()
    assert near.relay.take_degraded() == ["client_timeout"]
    assert near.relay.take_degraded() == []
    near.port.deliver(wire.Result(request.id, {"status": 200, "headers": {}, "body": {}}))
    assert near.port.pending() == 0


def test_a_client_that_resets_its_connection_is_seen_too(near: Near) -> None:
    leaver = near.connect()
    leaver.send()
    request = near.asked.get(timeout=10)
    leaver.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    leaver.close()
    assert near.relay.take_degraded() == ["client_timeout"]
    near.port.deliver(wire.Result(request.id, {"status": 200, "headers": {}, "body": {}}))


def test_a_client_that_leaves_with_its_reply_is_no_hang_up(near: Near) -> None:
    for _ in range(20):
        leaver = near.connect()
        leaver.send()
        near.answer({})
        leaver.read()
        leaver.close()
    assert near.relay.take_degraded() == []


def test_a_client_that_leaves_in_the_middle_of_its_request_asked_for_nothing(near: Near) -> None:
    leaver = near.connect()
    leaver.raw(head(leaver.token, "content-length: 100") + b"{")
    leaver.close()
    time.sleep(0.05)
    assert near.relay.take_degraded() == []
    assert near.asked.empty()


def test_a_forked_child_holds_no_connection_open(near: Near, line: Line) -> None:
    line.send(b"{}", "connection: close")
    ready, wake = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(0)
    try:
        near.answer({"ok": True})
        assert line.said() == {"ok": True}
        assert line.ended(), "the child still holds it"
    finally:
        os.write(wake, b"x")
        os.waitpid(child, 0)
        os.close(ready)
        os.close(wake)


def test_many_connections_need_no_threads(near: Near) -> None:
    before = threading.active_count()
    lines = [near.connect() for _ in range(200)]
    for one in lines:
        one.send()
    for _ in lines[:64]:
        near.answer({"ok": 1})
    assert threading.active_count() == before
    for _ in lines[64:]:
        near.answer({"ok": 1})
    for one in lines:
        assert one.said() == {"ok": 1}
        one.close()


# The reader of requests, over drawn input

REQUESTS = st.lists(st.tuples(st.binary(max_size=300), st.booleans()), min_size=1, max_size=4)


def spelled(body: bytes, chunked: bool) -> bytes:
    if not chunked:
        return b"POST /p HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    parts = [body[i : i + 7] for i in range(0, len(body), 7)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@settings(max_examples=150, deadline=None)
@given(REQUESTS, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_however_the_bytes_are_cut_the_requests_are_the_same(
    requests: list[tuple[bytes, bool]], cuts: list[int]
) -> None:
    stream = b"".join(spelled(body, chunked) for body, chunked in requests)
    reader, got, at, i = RequestReader(1000), list[HttpRequest](), 0, 0
    while at < len(stream):
        step = cuts[i % len(cuts)]
        reader.feed(stream[at : at + step])
        at, i = at + step, i + 1
        while (request := reader.next()) is not None:
            got.append(request)
    assert [request.body for request in got] == [body for body, _ in requests]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    reader = RequestReader(1000)
    reader.feed(b"POST / HTTP/1.1\r\n" + data)
    try:
        while reader.next() is not None:
            continue
    except HttpError as error:
        assert error.fatal
