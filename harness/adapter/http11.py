"""As much of HTTP/1.1 as a server on loopback needs: requests out of bytes, as they come in.

Nothing here knows of sockets or of models. Bodies come with a length or in chunks; what stands
behind a request (pipelining) stays in the reader for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

MAX_HEAD = 64 * 1024
_MAX_CHUNK_LINE = 4096

REASONS = {
    100: "Continue",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpError(Exception):
    """A request that cannot be served; ``status`` is what its client is told.

    ``fatal``: where the next request begins is not known, so the connection must end.
    """

    def __init__(self, status: int, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.fatal = fatal


@dataclass(frozen=True)
class HttpRequest:
    """One request, whole. ``headers`` have lower-case names; the last of equal ones counts."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    keep_alive: bool = True


class RequestReader:
    """Takes bytes, gives requests.

    Args:
        max_body: a longer body is refused before it is read.
    """

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        self._scanned = 0
        self._head: Optional[HttpRequest] = None
        self._needed: Optional[int] = None  # bytes of the body, or of the chunk; None: in no body
        self._chunks: Optional[bytearray] = None
        self._in_trailer = False
        self._continue = False

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._buffer += data

    def wants_continue(self) -> bool:
        """The client waits for ``100 Continue`` before it sends its body. True once a request."""
        wants, self._continue = self._continue, False
        return wants

    def next(self) -> HttpRequest | None:
        """The next request, if all of it is here.

        Raises:
            HttpError: it is not HTTP, too large, or of a kind that is not spoken here.
        """
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        if self._chunks is not None:
            if not self._read_chunks():
                return None
            body = bytes(self._chunks)
        else:
            needed = self._needed or 0
            if len(self._buffer) < needed:
                return None
            with memoryview(self._buffer) as view:
                body = bytes(view[:needed])
            self._drop(needed)
        head, self._head, self._needed, self._chunks = self._head, None, None, None
        self._continue = False
        return HttpRequest(head.method, head.target, head.headers, body, head.keep_alive)

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._scanned = 0

    def _line(self, end: bytes, limit: int, what: str) -> bytes | None:
        """What stands before ``end``, taken out of the buffer with it."""
        at = self._buffer.find(end, max(self._scanned - len(end), 0))
        if at < 0:
            self._scanned = len(self._buffer)
            if len(self._buffer) > limit:
                raise HttpError(431, f"{what} of more than {limit} bytes", fatal=True)
            return None
        if at > limit:
            raise HttpError(431, f"{what} of more than {limit} bytes", fatal=True)
        line = bytes(self._buffer[:at])
        self._drop(at + len(end))
        return line

    def _read_head(self) -> bool:
        while self._buffer[:2] == b"\r\n":  # some clients end a body with a line too many
            self._drop(2)
        head = self._line(b"\r\n\r\n", MAX_HEAD, "a head")
        if head is None:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[0].isalpha():
            raise HttpError(400, "this is not HTTP/1.1", fatal=True)
        headers = _headers(lines)
        said = headers.get("connection", "").lower()
        keep_alive = "keep-alive" in said if parts[2] == "HTTP/1.0" else "close" not in said
        self._head = HttpRequest(parts[0].upper(), parts[1], headers, b"", keep_alive)
        self._frame(headers)
        self._continue = headers.get("expect", "").lower() == "100-continue"
        return True

    def _frame(self, headers: Mapping[str, str]) -> None:
        """How the body's end is known."""
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if length is not None:
                raise HttpError(400, "both a length and a transfer coding", fatal=True)
            if coding.lower() != "chunked":
                raise HttpError(501, f"the transfer coding {coding!r}", fatal=True)
            self._chunks = bytearray()
            self._needed, self._in_trailer = None, False
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise HttpError(400, f"the length {length[:40]!r}", fatal=True)
            self._needed = self._allowed(int(length))

    def _allowed(self, size: int) -> int:
        if size > self._max_body:
            message = f"a body of more than {self._max_body} bytes does not fit through the pipe"
            raise HttpError(413, message, fatal=True)
        return size

    def _read_chunks(self) -> bool:
        """Take what there is of a chunked body; true at its end."""
        assert self._chunks is not None
        while not self._in_trailer:
            if self._needed is None:
                line = self._line(b"\r\n", _MAX_CHUNK_LINE, "the size of a chunk")
                if line is None:
                    return False
                self._needed = _chunk_size(line)
                self._allowed(len(self._chunks) + self._needed)
                if self._needed == 0:
                    self._in_trailer = True
                    break
            if len(self._buffer) < self._needed + 2:
                return False
            if self._buffer[self._needed : self._needed + 2] != b"\r\n":
                raise HttpError(400, "a chunk that does not end where it says", fatal=True)
            with memoryview(self._buffer) as view:
                self._chunks += view[: self._needed]
            self._drop(self._needed + 2)
            self._needed = None
        while True:  # trailers say nothing that is used here
            line = self._line(b"\r\n", MAX_HEAD, "a trailer")
            if line is None:
                return False
            if not line:
                return True


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(400, f"the header {line[:80]!r}", fatal=True)
        name, value = name.lower(), value.strip()
        if name == "content-length" and headers.get(name, value) != value:
            raise HttpError(400, "two lengths", fatal=True)
        headers[name] = value
    return headers


def _chunk_size(line: bytes) -> int:
    text = line.split(b";", 1)[0].strip()
    if not 0 < len(text) <= 16 or text.strip(b"0123456789abcdefABCDEF"):
        raise HttpError(400, f"the size {line[:40]!r} of a chunk", fatal=True)
    return int(text, 16)


def response(
    status: int, headers: Mapping[str, str], body: bytes, *, keep_alive: bool = True
) -> list[bytes]:
    """A response as pieces to be sent one after the other; the length is added."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"content-length: {len(body)}")
    if not keep_alive:
        lines.append("connection: close")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    # One piece where it is small: one system call, one segment.
    return [head + body] if len(body) < 65536 else [head, body]
