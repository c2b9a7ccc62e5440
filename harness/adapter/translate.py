"""From HTTP to ``model.call`` and back: what the relay says, without its sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Union

from . import sse
from .http11 import HttpError, HttpRequest, response
from .modelport import Answer, ModelCallFailed, value_of

#: What the host calls the route behind ``/v1``.
DEFAULT_ROUTE = "openai"

#: The HTTP status of failures without one of their own; the host's table holds the same.
HTTP_STATUS = {
    "MODEL_REFUSED": 403,
    "BUDGET_EXHAUSTED": 402,
    "PRICE_UNKNOWN": 402,
    "REPLAY_MISS": 404,
    "MODEL_AUTH": 401,
    "MODEL_TIMEOUT": 504,
    "MODEL_UNREACHABLE": 502,
    "MODEL_BAD_REPLY": 502,
    "MODEL_REPLY_TOO_LARGE": 502,
    "EMBEDDING_DIMENSION": 502,
    "TRUNCATED_PROMPT": 502,
    "STORE_FULL": 507,
    "GATEWAY_CLOSED": 503,
    "UNAVAILABLE": 503,
    "MESSAGE_TOO_LARGE": 502,
}

#: How a request ended: the host's answer, or a fault on the way to it.
Outcome = Union[Answer, HttpError]

_OWN_HEADERS = {"content-length", "transfer-encoding", "connection", "keep-alive"}
_STREAMED = {"/chat/completions": "choices", "/responses": "output"}


def params_of(request: HttpRequest) -> dict[str, Any]:
    """The parameters of the ``model.call``: ``{route, method, path, body?}``.

    Headers stay behind: the host needs none, and the box's token is nobody else's affair.

    Raises:
        HttpError: no path, or a body that is no JSON object.
    """
    path = request.target
    if path.startswith("http://"):  # what a client says to a proxy
        path = "/" + path[len("http://") :].partition("/")[2]
    route = DEFAULT_ROUTE
    if path.startswith("/r/"):
        route, slash, rest = path[len("/r/") :].partition("/")
        path = "/" + rest
        if not route or not slash:
            raise HttpError(404, "a vendor route is /r/NAME/PATH")
    if not path.startswith("/") or not path.isascii():
        raise HttpError(400, f"{path[:200]!r} is no path")
    params = {"route": route, "method": request.method, "path": path}
    return params if not request.body else {**params, "body": _json(request)}


def _json(request: HttpRequest) -> dict[str, Any]:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpError(415, "compressed bodies are not understood")
    if kind != "application/json" and not kind.endswith("+json"):
        raise HttpError(415, f"only JSON goes through the pipe, not {kind[:80]!r}")
    try:
        value = json.loads(request.body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def reply_of(params: dict[str, Any], outcome: Outcome, *, keep_alive: bool = True) -> list[bytes]:
    """The response that an outcome makes; ``params`` as :func:`params_of` gave them."""
    try:
        return _reply(params, outcome, keep_alive)
    except Exception as error:
        # A reply of a shape that nobody expected. Its client is told; the relay lives on.
        fault = HttpError(500, f"the host's answer is no reply: {type(error).__name__}: {error}")
        return error_reply(fault, "PROTOCOL", keep_alive=keep_alive)


def _reply(params: dict[str, Any], outcome: Outcome, keep_alive: bool) -> list[bytes]:
    if isinstance(outcome, HttpError):
        return error_reply(outcome, keep_alive=keep_alive)
    try:
        reply = value_of(outcome)
    except ModelCallFailed as failed:
        fault = HttpError(HTTP_STATUS.get(failed.kind, 500), failed.message)
        return error_reply(fault, failed.kind, keep_alive=keep_alive)
    status, body = int(reply["status"]), reply.get("body")
    if not 200 <= status <= 599:
        raise ValueError(f"the status {status}")
    headers = _passed_on(reply.get("headers"))
    if status >= 400:
        headers["x-should-retry"] = "false"
    stream = _stream(params, body) if status == 200 else None
    if stream is not None:
        headers["content-type"] = "text/event-stream; charset=utf-8"
        headers["cache-control"] = "no-cache"
        return response(status, headers, stream, keep_alive=keep_alive)
    data = b"" if body is None else _dump(body)
    return response(status, headers, data, keep_alive=keep_alive)


def _passed_on(given: Any) -> dict[str, str]:
    """The host's headers, without those that are the relay's own affair."""
    headers = {"content-type": "application/json"}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        name, value = str(name).lower(), str(value)
        if name not in _OWN_HEADERS and name.isascii() and (name + value).isprintable():
            headers[name] = value
    return headers


def _stream(params: dict[str, Any], body: Any) -> bytes | None:
    """The reply as a stream, if one was asked for and the reply is of a kind that streams."""
    asked = params.get("body") or {}
    path = params["path"].partition("?")[0].rstrip("/")
    holds = next((field for end, field in _STREAMED.items() if path.endswith(end)), None)
    if asked.get("stream") is not True or holds is None or not isinstance(body, dict):
        return None
    if not isinstance(body.get(holds), list):
        return None
    if holds == "output":
        return sse.response_events(body)
    options = asked.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return sse.chat_events(body, include_usage=usage)


def error_reply(error: HttpError, kind: str | None = None, *, keep_alive: bool) -> list[bytes]:
    """An OpenAI error object. ``code`` is the kind of the failure, where it has one."""
    code = kind or f"RELAY_{error.status}"
    inner = {"message": error.message, "type": code, "param": None, "code": code}
    headers = {"content-type": "application/json", "x-should-retry": "false"}
    return response(error.status, headers, _dump({"error": inner}), keep_alive=keep_alive)


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
