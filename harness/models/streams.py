"""Server-sent events of an upstream, put together into the reply that a plain request gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.models.routes import CHAT

#: Text fields of a delta that are joined piece by piece.
_JOINED = ("content", "refusal", "reasoning_content", "reasoning")


class StreamBroken(Exception):
    """The stream ended before its end, or holds what is no event."""


class StreamError(Exception):
    """The upstream reported an error inside the stream. ``error`` is its error object."""

    def __init__(self, error: Any) -> None:
        super().__init__("an error event")
        self.error = error


def collapse(path: str, data: bytes) -> dict[str, Any]:
    """The plain form of a streamed reply to chat completions or responses.

    Raises:
        StreamBroken: it ends early. StreamError: an error event.
    """
    events = list(_events(data))
    return _chat(events) if path == CHAT else _response(events)


def _events(data: bytes) -> Iterator[Any]:
    """The data of each event; ``None`` for the closing ``[DONE]``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise StreamBroken("the stream ends inside a character, or is not UTF-8") from None
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line[:5] == "data:"]
        payload = "\n".join(lines)
        if not payload:
            continue
        if payload.strip() == "[DONE]":
            yield None
            continue
        try:
            event = json.loads(payload)
        except ValueError:
            raise StreamBroken("an event is cut off") from None
        if isinstance(event, dict) and event.get("error"):
            raise StreamError(event["error"])
        yield event


def _chat(events: list[Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Any]] = {}
    done = False
    for event in events:
        if event is None:
            done = True
            continue
        for name in ("id", "created", "model", "system_fingerprint"):
            if event.get(name) is not None:
                reply.setdefault(name, event[name])
        if event.get("usage"):
            reply["usage"] = event["usage"]
        for piece in event.get("choices") or []:
            _add(choices, piece)
    finished = choices and all(choice["finish_reason"] for choice in choices.values())
    if not choices or not (done or finished):
        raise StreamBroken("the stream ends before its last event")
    reply["choices"] = [_closed(choices[index]) for index in sorted(choices)]
    return reply


def _add(choices: dict[int, dict[str, Any]], piece: dict[str, Any]) -> None:
    index = piece.get("index", 0)
    choice = choices.setdefault(
        index,
        {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None},
    )
    if piece.get("finish_reason"):
        choice["finish_reason"] = piece["finish_reason"]
    if isinstance(piece.get("logprobs"), dict):
        kept = choice.setdefault("logprobs", {"content": []})
        kept["content"] += piece["logprobs"].get("content") or []
    delta, message = piece.get("delta") or {}, choice["message"]
    if delta.get("role"):
        message["role"] = delta["role"]
    for name in _JOINED:
        if isinstance(delta.get(name), str):
            message[name] = (message.get(name) or "") + delta[name]
    for call in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", {})
        made = calls.setdefault(
            call.get("index", 0), {"type": "function", "function": {"name": "", "arguments": ""}}
        )
        if call.get("id"):
            made["id"] = call["id"]
        for name in ("name", "arguments"):
            made["function"][name] += (call.get("function") or {}).get(name) or ""


def _closed(choice: dict[str, Any]) -> dict[str, Any]:
    calls = choice["message"].get("tool_calls")
    if calls is not None:
        choice["message"]["tool_calls"] = [calls[index] for index in sorted(calls)]
    return choice


def _response(events: list[Any]) -> dict[str, Any]:
    for event in reversed(events):
        if isinstance(event, dict) and event.get("type") in (
            "response.completed",
            "response.incomplete",
        ):
            whole: dict[str, Any] = event["response"]
            return whole
        if isinstance(event, dict) and event.get("type") == "response.failed":
            raise StreamError((event.get("response") or {}).get("error"))
    raise StreamBroken("the stream ends before its last event")
