"""A scripted OpenAI-compatible server on loopback, for every test that needs a model.

Deterministic: a reply depends on the request alone (or, with ``counter``, on how many came before).
Prompt families are recognised by the request; each test adds its own. Faults are queued and used
up one request at a time. What was asked is kept in ``requests``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]

#: Faults by name. ``times`` of them are queued by :meth:`ScriptedServer.fail`.
FAULTS = (
    "rate_limited",  # 429; retry_after=SECONDS adds the header
    "server_error",  # 500
    "overloaded",  # 503
    "unauthorized",  # 401
    "quota",  # 429 insufficient_quota
    "unknown_model",  # 404
    "bad_request",  # 400; message=TEXT
    "hang",  # no byte until released or seconds=SECONDS passed
    "drip",  # a byte of the headers now and then, for ever
    "reset",  # the connection breaks in the middle of the body
    "short",  # the body is shorter than its Content-Length
    "truncated",  # whole HTTP, half a JSON
    "empty",  # 200 without a body
    "html",  # 200 text/html
    "huge",  # a reply of megabytes=N
    "error_in_200",  # an error object with status 200
    "refuse_field",  # 400 unless the body lacks field=NAME
    "half_character",  # a lone surrogate in the text
)


@dataclass(frozen=True)
class Fault:
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A kind of prompt: ``matches`` sees the request's body, ``reply`` makes the text."""

    name: str
    matches: Callable[[Body], bool]
    reply: Callable[[Body], str]


@dataclass
class Asked:
    path: str
    body: Body
    headers: dict[str, str]
    family: str | None = None


def words(text: str) -> int:
    """The server's own count of tokens: a word, or a Chinese character, is one."""
    wide = 0 if text.isascii() else sum(1 for letter in text if ord(letter) > 0x2E7F)
    return len(text.split()) + wide


def texts_of(body: Body) -> str:
    """All text of a request."""
    found = []
    for message in body.get("messages", []) + (
        body["input"] if isinstance(body.get("input"), list) else []
    ):
        content = message.get("content") if isinstance(message, dict) else message
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [part.get("text", "") for part in content if isinstance(part, dict)]
    if isinstance(body.get("input"), str):
        found.append(body["input"])
    return "\n".join(found)


def echo(body: Body) -> str:
    """A reply whose words and length depend on the request."""
    text = texts_of(body)
    digest = hashlib.sha256(
        json.dumps(
            {k: v for k, v in body.items() if k not in ("stream", "stream_options")}, sort_keys=True
        ).encode()
    ).hexdigest()
    said = " ".join(text.split()[-8:])
    if isinstance(body.get("response_format"), dict):
        return json.dumps({"echo": said, "digest": digest[:8]})
    return f"reply {digest[:8]} to: {said}" + " more" * (int(digest[:2], 16) % 7)


def vector_of(text: str, dimension: int) -> list[float]:
    """A unit vector that depends on the text alone."""
    raw = hashlib.shake_256(text.encode()).digest(4 * dimension)
    numbers = [n / 2**31 - 1 for n in struct.unpack(f"<{dimension}I", raw)]
    length = sum(n * n for n in numbers) ** 0.5
    return [n / length for n in numbers]


class ScriptedServer:
    """See the module. Use as a context manager.

    Args:
        key: the key that requests must carry; ``None`` takes any.
        latency_s: how long each reply takes.
        dimension: length of vectors.
        counter: replies end in the number of requests so far, so that no two are equal.
    """

    def __init__(
        self,
        *,
        key: str | None = None,
        latency_s: float = 0.0,
        dimension: int = 8,
        counter: bool = False,
        families: tuple[Family, ...] = (),
    ) -> None:
        self.key, self.latency_s = key, latency_s
        self.dimension, self.counter = dimension, counter
        self.families = list(families)
        self.requests: list[Asked] = []
        self.tokens = {"prompt": 0, "completion": 0}
        self.open = self.peak = 0
        self.released = threading.Event()
        self._faults: deque[Fault] = deque()
        self._standing: Fault | None = None
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"script": self})
        self._http = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """Base URL, with ``/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def fail(self, name: str, times: int = 1, **options: Any) -> None:
        """The next ``times`` requests meet this fault."""
        assert name in FAULTS, name
        with self._lock:
            self._faults.extend([Fault(name, options)] * times)

    @contextmanager
    def always(self, name: str, **options: Any) -> Iterator[None]:
        """Every request meets this fault."""
        assert name in FAULTS, name
        self._standing = Fault(name, options)
        try:
            yield
        finally:
            self._standing = None

    def count(self, path: str = "") -> int:
        """How many requests came, of one path."""
        with self._lock:
            return sum(asked.path.endswith(path) for asked in self.requests)

    def _came(self, asked: Asked) -> tuple[int, Fault | None]:
        with self._lock:
            self.requests.append(asked)
            self.open += 1
            self.peak = max(self.peak, self.open)
            fault = self._faults.popleft() if self._faults else self._standing
            return len(self.requests), fault

    def _gone(self) -> None:
        with self._lock:
            self.open -= 1

    def _used(self, prompt: int, completion: int) -> None:
        with self._lock:
            self.tokens["prompt"] += prompt
            self.tokens["completion"] += completion

    def text(self, asked: Asked, number: int) -> str:
        family = next((f for f in self.families if f.matches(asked.body)), None)
        asked.family = family.name if family else None
        made = family.reply(asked.body) if family else echo(asked.body)
        return f"{made} #{number}" if self.counter else made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: ScriptedServer

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        self._serve(json.loads(data) if data else {})

    def _serve(self, body: Body) -> None:
        script = self.script
        asked = Asked(self.path, body, {k.lower(): v for k, v in self.headers.items()})
        number, fault = script._came(asked)
        try:
            if script.key is not None:
                given = asked.headers.get("authorization", "")
                if given != f"Bearer {script.key}":
                    self._error(401, f"Incorrect API key provided: {given[7:]}", "invalid_api_key")
                    return
            if fault is not None and _FAULTS[fault.name](self, asked, fault.options):
                return
            if script.latency_s:
                time.sleep(script.latency_s)
            self._reply(asked, number)
        finally:
            script._gone()

    def _reply(self, asked: Asked, number: int) -> None:
        path, script = asked.path.removeprefix("/v1"), self.script
        if path == "/models":
            self._json({"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        elif path == "/embeddings":
            self._embeddings(asked.body)
        elif path == "/chat/completions":
            n = asked.body.get("n", 1)
            texts = [script.text(asked, number) + (f" ({i})" if i else "") for i in range(n)]
            self._chat(asked.body, texts)
        elif path == "/responses":
            self._response(asked.body, script.text(asked, number))
        else:
            self._json({"path": path, "body": asked.body})

    def _usage(self, body: Body, texts: list[str]) -> dict[str, int]:
        prompt, completion = words(texts_of(body)), sum(map(words, texts))
        self.script._used(prompt, completion)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _chat(self, body: Body, texts: list[str]) -> None:
        head = {"id": "chatcmpl-1", "created": 1700000000, "model": f"{body['model']}-scripted"}
        usage = self._usage(body, texts)
        if not body.get("stream"):
            choices = [
                {
                    "index": i,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
                for i, text in enumerate(texts)
            ]
            self._json({**head, "object": "chat.completion", "choices": choices, "usage": usage})
            return
        events: list[Any] = []
        chunk = {**head, "object": "chat.completion.chunk"}
        for i, text in enumerate(texts):
            pieces = [{"role": "assistant", "content": ""}]
            pieces += [{"content": text[at : at + 5]} for at in range(0, len(text), 5)]
            for delta in pieces:
                events.append(
                    {**chunk, "choices": [{"index": i, "delta": delta, "finish_reason": None}]}
                )
            events.append(
                {**chunk, "choices": [{"index": i, "delta": {}, "finish_reason": "stop"}]}
            )
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append({**chunk, "choices": [], "usage": usage})
        self._events([json.dumps(event) for event in events] + ["[DONE]"])

    def _response(self, body: Body, text: str) -> None:
        usage = self._usage(body, [text])
        whole = {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "model": f"{body['model']}-scripted",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                }
            ],
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "total_tokens": usage["total_tokens"],
            },
        }
        if body.get("stream"):
            events = [
                {"type": "response.created", "response": {**whole, "output": []}},
                {"type": "response.output_text.delta", "delta": text},
                {"type": "response.completed", "response": whole},
            ]
            self._events([json.dumps(event) for event in events])
        else:
            self._json(whole)

    def _embeddings(self, body: Body) -> None:
        source = body["input"]
        texts = source if isinstance(source, list) else [source]
        dimension = body.get("dimensions", self.script.dimension)
        data = []
        for index, text in enumerate(texts):
            vector: Any = vector_of(str(text), dimension)
            if body.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{dimension}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        prompt = sum(words(str(text)) for text in texts)
        self.script._used(prompt, 0)
        usage = {"prompt_tokens": prompt, "total_tokens": prompt}
        self._json({"object": "list", "data": data, "model": body["model"], "usage": usage})

    def _events(self, payloads: list[str]) -> None:
        data = "".join(f"data: {payload}\n\n" for payload in payloads).encode()
        self._send(200, data, "text/event-stream; charset=utf-8")

    def _json(self, value: Any, status: int = 200, **headers: str) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", **headers)

    def _error(self, status: int, message: str, code: str, **headers: str) -> None:
        self._json({"error": {"message": message, "type": code, "code": code}}, status, **headers)

    def _send(self, status: int, data: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _break_off(self, declared: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(declared))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        self.close_connection = True


def _rate_limited(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    after = {"retry_after": str(options["retry_after"])} if "retry_after" in options else {}
    handler._error(429, "slow down", "rate_limit_exceeded", **after)
    return True


def _status(status: int, message: str, code: str) -> Callable[..., bool]:
    def act(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
        handler._error(status, options.get("message", message), code)
        return True

    return act


def _hang(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler.script.released.wait(options.get("seconds", 60))
    handler.close_connection = True
    return True


def _drip(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not handler.script.released.wait(0.02):
        handler.wfile.write(b"a")
    handler.close_connection = True
    return True


def _reset(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    if asked.body.get("stream"):
        event = {"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": None}]}
        handler._break_off(9_999, f"data: {json.dumps(event)}\n\n".encode(), "text/event-stream")
    else:
        handler._break_off(9_999, b'{"choices": [')
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(1, 13, linger)  # SOL_SOCKET, SO_LINGER: close() resets
    return True


def _short(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._break_off(9_999, b'{"choices": []}')
    return True


def _truncated(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._send(200, b'{"choices": [{"index": 0, "mess', "application/json")
    return True


def _empty(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._send(200, b"", "application/json")
    return True


def _html(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._send(200, b"<html><body>Sign in to the network</body></html>", "text/html")
    return True


def _huge(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._chat(asked.body, ["x" * int(options.get("megabytes", 50) * 1_000_000)])
    return True


def _error_in_200(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    handler._json({"error": {"message": "the provider is down", "code": 502}})
    return True


def _refuse_field(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    name = options["field"]
    if name not in asked.body:
        return False
    message = options.get("message", f"Unsupported parameter: '{name}' is not supported.")
    error = {"message": message, "type": "invalid_request_error", "param": name}
    handler._json({"error": error}, 400)
    return True


def _half_character(handler: _Handler, asked: Asked, options: Mapping[str, Any]) -> bool:
    message = '{"role": "assistant", "content": "\\ud83d"}'
    text = '{"choices": [{"index": 0, "finish_reason": "stop", "message": ' + message + "}]}"
    handler._send(200, text.encode(), "application/json")
    return True


_FAULTS: dict[str, Callable[[_Handler, Asked, Mapping[str, Any]], bool]] = {
    "rate_limited": _rate_limited,
    "server_error": _status(500, "boom", "server_error"),
    "overloaded": _status(503, "overloaded", "overloaded"),
    "unauthorized": _status(401, "Incorrect API key provided", "invalid_api_key"),
    "quota": _status(429, "You exceeded your current quota", "insufficient_quota"),
    "unknown_model": _status(404, "The model does not exist", "model_not_found"),
    "bad_request": _status(400, "That makes no sense", "invalid_request_error"),
    "hang": _hang,
    "drip": _drip,
    "reset": _reset,
    "short": _short,
    "truncated": _truncated,
    "empty": _empty,
    "html": _html,
    "huge": _huge,
    "error_in_200": _error_in_200,
    "refuse_field": _refuse_field,
    "half_character": _half_character,
}
assert set(_FAULTS) == set(FAULTS)
