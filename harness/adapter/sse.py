"""Whole replies as the server-sent events that a client would have got, had the upstream streamed.

The host always asks for, records and hands over the whole reply; a client in the box that asked for
a stream gets one made of it. Joined together again the events give the reply they were made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

#: Characters in one piece of text.
PIECE = 64

#: Fields of a chat message that are text and come piece by piece.
_CHAT_TEXTS = ("reasoning_content", "reasoning", "content", "refusal")

_Event = dict[str, Any]


def chat_events(reply: dict[str, Any], *, include_usage: bool) -> bytes:
    """The stream of ``/chat/completions``, its ``[DONE]`` included.

    Args:
        reply: a whole chat completion.
        include_usage: the client asked for a last chunk with the token counts.
    """
    head = {name: value for name, value in reply.items() if name not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    if include_usage:
        head["usage"] = None
    lines = []
    for choice in reply["choices"]:
        for fields in _of_choice(choice):
            entry = {"index": choice.get("index", 0), "finish_reason": None, **fields}
            lines.append(_data({**head, "choices": [entry]}))
    if include_usage:
        lines.append(_data({**head, "choices": [], "usage": reply.get("usage")}))
    lines.append(b"data: [DONE]\n\n")
    return b"".join(lines)


def _of_choice(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each chunk of one choice says: ``delta``, in the end with the reason."""
    message = dict(choice.get("message") or {})
    calls, call = message.pop("tool_calls", None) or [], message.pop("function_call", None)
    texts = {name: message.pop(name, None) for name in _CHAT_TEXTS}
    first = {"role": message.pop("role", "assistant"), **message}
    first["content"] = None if texts["content"] is None else ""
    yield {"delta": first}
    logprobs = choice.get("logprobs")
    for name, text in texts.items():
        for piece in _pieces(text):
            fields: dict[str, Any] = {"delta": {name: piece}}
            if logprobs is not None and name in ("content", "refusal"):
                fields["logprobs"], logprobs = logprobs, None
            yield fields
    for index, made in enumerate(calls):
        yield from _of_tool_call(index, made)
    if call is not None:
        yield {"delta": {"function_call": {**call, "arguments": ""}}}
        for piece in _pieces(call.get("arguments")):
            yield {"delta": {"function_call": {"arguments": piece}}}
    last: dict[str, Any] = {"delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
    if logprobs is not None:
        last["logprobs"] = logprobs
    yield last


def _of_tool_call(index: int, made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A function's arguments, or a custom tool's input, piece by piece."""
    inside, text = ("custom", "input") if "custom" in made else ("function", "arguments")
    body = dict(made.get(inside) or {})
    whole = body.pop(text, None)
    yield {"delta": {"tool_calls": [{**made, "index": index, inside: {**body, text: ""}}]}}
    for piece in _pieces(whole):
        yield {"delta": {"tool_calls": [{"index": index, inside: {text: piece}}]}}


def response_events(reply: dict[str, Any]) -> bytes:
    """The stream of ``/responses``: created, its output item by item, completed."""
    lines = []
    for number, event in enumerate(_of_response(reply)):
        event = {"type": event.pop("type"), "sequence_number": number, **event}
        lines.append(b"event: " + event["type"].encode() + b"\n" + _data(event))
    return b"".join(lines)


def _of_response(reply: dict[str, Any]) -> Iterator[_Event]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    begun.update({name: None for name in ("error", "incomplete_details") if name in reply})
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(reply.get("output") or []):
        yield from _of_item(index, item)
    status = reply.get("status")
    last = status if status in ("incomplete", "failed") else "completed"
    yield {"type": f"response.{last}", "response": reply}


def _of_item(index: int, item: dict[str, Any]) -> Iterator[_Event]:
    """One item of the output: added, its parts, done."""
    kind, item_id = item.get("type"), item.get("id") or f"item_{index}"
    at = {"item_id": item_id, "output_index": index}
    begun = dict(item)
    if "status" in begun:
        begun["status"] = "in_progress"
    for name, empty in (("content", []), ("summary", []), ("arguments", ""), ("input", "")):
        if begun.get(name) is not None:
            begun[name] = empty
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if kind == "function_call":
        yield from _text("response.function_call_arguments", "arguments", item, at)
    elif kind == "custom_tool_call":
        yield from _text("response.custom_tool_call_input", "input", item, at)
    for place, part in enumerate(item.get("summary") or []):
        yield from _of_summary(part, {**at, "summary_index": place})
    for place, part in enumerate(item.get("content") or []):
        yield from _of_part(part, {**at, "content_index": place})
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _of_summary(part: dict[str, Any], at: dict[str, Any]) -> Iterator[_Event]:
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
    yield from _text("response.reasoning_summary_text", "text", part, at)
    yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _of_part(part: dict[str, Any], at: dict[str, Any]) -> Iterator[_Event]:
    kind = part.get("type")
    begun = dict(part)
    for name, empty in (("text", ""), ("refusal", ""), ("annotations", []), ("logprobs", [])):
        if begun.get(name) is not None:
            begun[name] = empty
    yield {"type": "response.content_part.added", **at, "part": begun}
    if kind == "output_text":
        logprobs = part.get("logprobs") or []
        for piece in _pieces(part.get("text")):
            event = {"type": "response.output_text.delta", **at, "delta": piece}
            yield {**event, "logprobs": logprobs}
            logprobs = []
        for number, annotation in enumerate(part.get("annotations") or []):
            event = {"type": "response.output_text.annotation.added", **at}
            yield {**event, "annotation_index": number, "annotation": annotation}
        done = {"type": "response.output_text.done", **at, "text": part.get("text") or ""}
        yield {**done, "logprobs": part.get("logprobs") or []}
    elif kind == "refusal":
        yield from _text("response.refusal", "refusal", part, at)
    elif kind == "reasoning_text":
        yield from _text("response.reasoning_text", "text", part, at)
    yield {"type": "response.content_part.done", **at, "part": part}


def _text(event: str, field: str, holder: dict[str, Any], at: dict[str, Any]) -> Iterator[_Event]:
    """The deltas of a text and then the whole of it."""
    for piece in _pieces(holder.get(field)):
        yield {"type": f"{event}.delta", **at, "delta": piece}
    yield {"type": f"{event}.done", **at, field: holder.get(field) or ""}


def _pieces(text: Any) -> Iterator[str]:
    if isinstance(text, str):
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]


def _data(event: _Event) -> bytes:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    # Three characters end a line for some readers of events; JSON spells them as escapes.
    for character, escape in _LINE_ENDS:
        text = text.replace(character, escape)
    return b"data: " + text.encode("utf-8") + b"\n\n"


_LINE_ENDS = (("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\x85", "\\u0085"))
