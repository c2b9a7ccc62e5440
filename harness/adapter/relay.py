"""The box's own model server: plain OpenAI HTTP on loopback, each request a ``model.call``.

Unmodified SDKs (Python, node) are pointed at it by ``OPENAI_BASE_URL`` and open it with a token
that is this box's own. ``/v1/...`` is the route ``openai``; ``/r/NAME/...`` is the vendor route
``NAME``. What may be asked is for the host to say: nothing is filtered here, so that every refusal
stands in the host's ledger.

Two threads, whatever the number of clients. One serves all sockets and never waits for the host;
the other puts requests on the pipe and waits there for a free slot. A stream is made of the whole
reply. A client that hangs up before its reply came is noted for the adapter call that is open.
An idle connection is never closed from this side: pooled ones would break in the client's hands.

Faults that never reached an upstream come as OpenAI error objects whose ``code`` is the kind of the
failure. All errors say ``x-should-retry: false``: the host has retried already.
"""

from __future__ import annotations

import functools
import hmac
import os
import queue
import secrets
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from . import wire
from .http11 import CONTINUE, HttpError, HttpRequest, RequestReader
from .modelport import ModelPort
from .translate import Outcome, error_reply, params_of, reply_of

#: What a call is marked with when a client hung up on one of its requests.
CLIENT_TIMEOUT = "client_timeout"

_CHUNK = 256 * 1024


@dataclass(eq=False)
class _Exchange:
    """A request that waits for the host. ``gone``: its client has hung up."""

    client: _Client
    params: dict[str, Any]
    method: str
    keep_alive: bool
    gone: bool = False


@dataclass(eq=False)
class _Client:
    """A connection. ``closing``: it ends when ``out`` is empty; ``draining``: it has ended on our
    side, and what still comes is thrown away.
    """

    socket: socket.socket
    reader: RequestReader
    exchange: Optional[_Exchange] = None
    out: deque[memoryview] = field(default_factory=deque)
    writing: bool = False
    closing: bool = False
    draining: bool = False


class Relay:
    """Serves the box's clients from its creation to the box's end.

    Args:
        port: the way to the host.
        on_failure: told when a thread of it fails, which ends its service.
        max_body: the longest body of a request, in bytes.
    """

    def __init__(
        self,
        port: ModelPort,
        on_failure: Callable[[BaseException], object],
        max_body: int = wire.MAX_LINE,
    ) -> None:
        self.token = "memrig-" + secrets.token_hex(24)
        self._port = port
        self._max_body = max_body
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_in, selectors.EVENT_READ, None)
        self._clients: set[_Client] = set()
        self._outbox: queue.SimpleQueue[_Exchange] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[_Exchange, Outcome]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: set[_Exchange] = set()
        self._queued = 0
        self._hang_ups = 0
        os.register_at_fork(after_in_child=self._abandon)
        for name, work in (("memrig-relay", self._serve), ("memrig-relay-out", self._forward)):
            guarded = functools.partial(_guard, work, on_failure)
            threading.Thread(target=guarded, name=name, daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL for OpenAI clients, with ``/v1``."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def environment(self) -> dict[str, str]:
        """The variables by which SDKs find it."""
        return {
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_BASE": self.url,
            "OPENAI_API_KEY": self.token,
        }

    def queued(self) -> int:
        """Requests that came and are not with the port yet."""
        return self._queued

    def take_degraded(self) -> list[str]:
        """``["client_timeout"]`` if clients hung up since this was last asked, else nothing.

        Looks at the connections itself: the call that a client gave up in may end before the
        relay's own thread has seen the end of its connection.
        """
        with self._lock:
            waiting = list(self._waiting)
        for exchange in waiting:
            if _hung_up(exchange.client.socket):
                self._note_gone(exchange)
        with self._lock:
            count, self._hang_ups = self._hang_ups, 0
        return [CLIENT_TIMEOUT] if count else []

    def _note_gone(self, exchange: _Exchange) -> None:
        with self._lock:
            if exchange in self._waiting and not exchange.gone:
                exchange.gone = True
                self._hang_ups += 1

    def _abandon(self) -> None:
        """In a forked child: let go of the sockets, so that they end when the relay ends them."""
        for held in (self._listener, self._wake_in, self._wake_out, self._selector):
            held.close()
        for client in list(self._clients):
            client.socket.close()

    # The thread that asks the host

    def _forward(self) -> None:
        while True:
            exchange = self._outbox.get()
            deliver = functools.partial(self._answered, exchange)
            try:
                self._port.start(exchange.params, deliver, functools.partial(_is_wanted, exchange))
            except wire.MessageTooLarge as error:
                deliver(HttpError(413, f"the request: {error}"))
            except wire.NotJson as error:
                deliver(HttpError(400, f"the body cannot be passed on: {error}"))
            except OSError as error:  # the host is gone, and the box ends any moment
                deliver(HttpError(503, f"the pipe to the host broke: {error}"))
            with self._lock:
                self._queued -= 1

    def _answered(self, exchange: _Exchange, outcome: Outcome) -> None:
        """Called by the thread that reads the pipe, which must not wait."""
        self._outcomes.put((exchange, outcome))
        try:
            self._wake_out.send(b"\0")
        except BlockingIOError:
            return  # so full of wake-ups that one more changes nothing

    # The thread that serves the clients

    def _serve(self) -> None:
        while True:
            for key, events in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_in:
                    self._deliver()
                else:
                    self._on_client(key.data, events)

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = _Client(made, RequestReader(self._max_body))
            self._clients.add(client)
            self._selector.register(made, selectors.EVENT_READ, client)

    def _on_client(self, client: _Client, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush(client)
        if not events & selectors.EVENT_READ or client not in self._clients:
            return
        try:
            data = client.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            if client.exchange is not None:
                self._note_gone(client.exchange)
                self._forget(client.exchange)
            self._close(client)
        elif not client.draining:
            client.reader.feed(data)
            self._advance(client)

    def _advance(self, client: _Client) -> None:
        """Take up a client's next request, if it is whole and the one before is answered."""
        while client.exchange is None and not client.closing and client in self._clients:
            request = None
            try:
                request = client.reader.next()
                if request is None:
                    if client.reader.wants_continue():
                        self._send(client, [CONTINUE])
                    return
                self._check_token(request)
                params = params_of(request)
            except HttpError as error:
                keep = not error.fatal and request is not None and request.keep_alive
                pieces = error_reply(error, keep_alive=keep)
                if request is not None:
                    pieces = _for_method(request.method, pieces)
                self._send(client, pieces, last=not keep)
                continue
            exchange = _Exchange(client, params, request.method, request.keep_alive)
            client.exchange = exchange
            with self._lock:
                self._waiting.add(exchange)
                self._queued += 1
            self._outbox.put(exchange)

    def _check_token(self, request: HttpRequest) -> None:
        """In any header and after any word (``Bearer``, ``Token``): vendors have their own."""
        expected = self.token.encode("latin-1")
        for value in request.headers.values():
            words = value.split()
            if words and hmac.compare_digest(words[-1].encode("latin-1"), expected):
                return
        raise HttpError(401, "this is no key of this box: use OPENAI_API_KEY as it is set in it")

    def _deliver(self) -> None:
        """Hand out the answers that came."""
        try:
            while self._wake_in.recv(4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                exchange, outcome = self._outcomes.get_nowait()
            except queue.Empty:
                return
            client = exchange.client
            if client.exchange is not exchange:
                continue  # hung up, noted and closed
            if _hung_up(client.socket):
                self._note_gone(exchange)
            self._forget(exchange)
            if exchange.gone:
                self._close(client)
                continue
            keep = exchange.keep_alive
            pieces = reply_of(exchange.params, outcome, keep_alive=keep)
            self._send(client, _for_method(exchange.method, pieces), last=not keep)
            self._advance(client)

    def _forget(self, exchange: _Exchange) -> None:
        with self._lock:
            self._waiting.discard(exchange)
        exchange.client.exchange = None

    def _send(self, client: _Client, pieces: list[bytes], *, last: bool = False) -> None:
        client.out.extend(memoryview(piece) for piece in pieces if piece)
        client.closing = client.closing or last
        self._flush(client)

    def _flush(self, client: _Client) -> None:
        try:
            while client.out:
                sent = client.socket.send(client.out[0])
                if sent < len(client.out[0]):
                    client.out[0] = client.out[0][sent:]
                else:
                    client.out.popleft()
        except BlockingIOError:
            self._watch(client, writing=True)
            return
        except OSError:  # it left while its reply was sent: it has what it wanted of it
            self._close(client)
            return
        self._watch(client, writing=False)
        if client.closing and not client.draining:
            # Not closed at once: bytes that still come would make the kernel take back the reply.
            client.draining = True
            try:
                client.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._close(client)

    def _watch(self, client: _Client, *, writing: bool) -> None:
        if client.writing != writing:
            client.writing = writing
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self._selector.modify(client.socket, events, client)

    def _close(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.discard(client)
            self._selector.unregister(client.socket)
            client.socket.close()


def _guard(work: Callable[[], None], on_failure: Callable[[BaseException], object]) -> None:
    try:
        work()
    except BaseException as error:
        on_failure(error)


def _is_wanted(exchange: _Exchange) -> bool:
    """Asked when a slot is free: nothing is paid for that nobody waits for."""
    return not exchange.gone


def _hung_up(held: socket.socket) -> bool:
    """Whether the other end of a connection is gone; takes nothing from it."""
    try:
        return held.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    except OSError:  # closed on our side meanwhile, so it is known
        return False


def _for_method(method: str, pieces: list[bytes]) -> list[bytes]:
    """A reply to ``HEAD`` is a head only."""
    if method != "HEAD":
        return pieces
    return [pieces[0].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"]
