"""One message a line: JSON-RPC 2.0 in UTF-8, strict in both directions.

Three things travel: a :class:`Request` (either side may send one), a :class:`Result` and a
:class:`Failure`. A result is always ``{"value": ..., "meta": {...}}`` and its value is never
``null``, so that "no answer" cannot be taken for "nothing remembered". A line that is none of these
is a :class:`ProtocolError`; nothing is skipped. A message longer than :data:`MAX_LINE` is refused
by name (:class:`MessageTooLarge`) where it would be sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Union

#: Version of what is spoken; ``initialize`` refuses another.
PROTOCOL = 1

#: Longest line in bytes, its newline included. Images travel inside of messages.
MAX_LINE = 64 * 1024 * 1024

#: JSON-RPC error codes: two of its own, three of ours. ``error.data.kind`` says more.
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
ADAPTER_FAILED = -32000
MODEL_FAILED = -32001
TOO_LARGE = -32002

#: Exit codes by which a box says why it ended itself.
EXIT_DISK_LIMIT = 113
EXIT_PROTOCOL = 114


class ProtocolError(Exception):
    """The other side sent something that is no legal message."""


class MessageTooLarge(Exception):
    """A message is longer than the limit and was not sent."""


class NotJson(ValueError):
    """A message holds something that JSON in UTF-8 cannot carry (NaN, half a character, bytes)."""


@dataclass(frozen=True)
class Request:
    """A call from one side to the other."""

    id: int
    method: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What a call returned, and what was measured meanwhile."""

    id: int
    value: Any
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A call that failed, by name.

    ``kind`` is one of ``contract.ERROR_KINDS``, or MESSAGE_TOO_LARGE, or that of a model failure.
    """

    id: int
    code: int
    message: str
    kind: str
    retry_safe: bool = False
    cause: str | None = None
    traceback: str | None = None


Message = Union[Request, Result, Failure]


def encode(message: Message, limit: int = MAX_LINE) -> bytes:
    """Write a message as one line, newline included.

    Raises:
        MessageTooLarge: longer than ``limit`` bytes.
        NotJson: a value that JSON in UTF-8 cannot carry, or a result without a value.
    """
    try:
        line = _ENCODER.encode(_to_object(message)).encode("utf-8") + b"\n"
    except UnicodeEncodeError as error:
        raise NotJson(f"text with half a character (lone surrogate): {error.reason}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    if len(line) > limit:
        raise MessageTooLarge(f"a message of {len(line)} bytes is over the limit of {limit}")
    return line


def _to_object(message: Message) -> dict[str, Any]:
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": message.id}
    if isinstance(message, Request):
        return {**head, "method": message.method, "params": message.params}
    if isinstance(message, Result):
        if message.value is None:
            raise NotJson("null is no legal result")
        return {**head, "result": {"value": message.value, "meta": message.meta}}
    data = {"kind": message.kind, "retry_safe": message.retry_safe}
    for name in ("cause", "traceback"):
        if getattr(message, name) is not None:
            data[name] = getattr(message, name)
    return {**head, "error": {"code": message.code, "message": message.message, "data": data}}


def decode(line: bytes, limit: int = MAX_LINE) -> Message:
    """Read one line; its newline is required, so that a torn line is not taken for a message.

    Raises:
        ProtocolError: for anything but a whole, legal message.
    """
    if len(line) > limit:
        raise ProtocolError(f"a line over the limit of {limit} bytes")
    if not line.endswith(b"\n"):
        raise ProtocolError("a line without an end")
    try:
        value = _DECODER.decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}: {_excerpt(line)}") from None
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_half_characters(value)
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise ProtocolError(f"not a JSON-RPC 2.0 object: {_excerpt(line)}")
    if not _is_int(value.get("id")):
        raise ProtocolError(f"a message without an integer id: {_excerpt(line)}")
    return _from_object(value, line)


def _from_object(value: dict[str, Any], line: bytes) -> Message:
    names = set(value) - {"jsonrpc", "id"}
    if names == {"method", "params"} and isinstance(value["method"], str):
        if isinstance(value["params"], dict):
            return Request(value["id"], value["method"], value["params"])
    elif names == {"result"}:
        result = value["result"]
        whole = isinstance(result, dict) and set(result) == {"value", "meta"}
        if whole and result["value"] is not None and isinstance(result["meta"], dict):
            return Result(value["id"], result["value"], result["meta"])
    elif names == {"error"}:
        failure = _failure(value["id"], value["error"])
        if failure is not None:
            return failure
    raise ProtocolError(f"a message of an unknown shape: {_excerpt(line)}")


def _failure(message_id: int, error: Any) -> Failure | None:
    if not isinstance(error, dict) or set(error) != {"code", "message", "data"}:
        return None
    code, message, data = error["code"], error["message"], error["data"]
    if not _is_int(code) or not isinstance(message, str) or not isinstance(data, dict):
        return None
    if set(data) - {"kind", "retry_safe", "cause", "traceback"}:
        return None
    kind, retry_safe = data.get("kind"), data.get("retry_safe", False)
    cause, traceback = data.get("cause"), data.get("traceback")
    texts = [text for text in (cause, traceback) if text is not None]
    if not isinstance(kind, str) or not isinstance(retry_safe, bool):
        return None
    if not all(isinstance(text, str) for text in texts):
        return None
    return Failure(message_id, code, message, kind, retry_safe, cause, traceback)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _excerpt(line: bytes) -> str:
    """The start of a line, for a message to a person."""
    return repr(line[:200])


def _refuse_half_characters(value: Any) -> None:
    """JSON can spell half a surrogate pair as an escape; UTF-8 cannot hold it later."""
    todo = [value]
    while todo:
        entry = todo.pop()
        if isinstance(entry, dict):
            todo.extend(entry)
            todo.extend(entry.values())
        elif isinstance(entry, list):
            todo.extend(entry)
        elif isinstance(entry, str):
            try:
                entry.encode("utf-8")
            except UnicodeEncodeError:
                raise ProtocolError("text with half a character (lone surrogate)") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """``1e999`` is legal JSON, but reads as infinity, which could not be written again."""
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return number


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
