"""Tokens: reported, estimated, bounded; streams put together; hints; what a wait is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.hints import SchemaHint, apply_hints
from harness.models.policy import Request, admit
from harness.models.replies import retry_after_s
from harness.models.streams import StreamBroken, StreamError, collapse
from harness.models.usage import Tokens, most_tokens, prompt_was_cut, tokens_of
from models.rig import route_to

ROUTE = route_to("http://127.0.0.1:1/v1", max_tokens=500)


def admitted(text: str = "hi", path: str = "/chat/completions", **fields: Any) -> Any:
    body = {"model": "gpt-test", "messages": [{"role": "user", "content": text}], **fields}
    return admit(Request("openai", "POST", path, body), ROUTE)


def test_reported_tokens_win() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert tokens_of(admitted(), {"usage": usage}) == Tokens(10, 4, 6, 3)
    other = {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": None}
    assert tokens_of(admitted(), {"usage": other}) == Tokens(1, 2)


def test_missing_usage_is_estimated_and_says_so() -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "four score and seven"}}]}
    tokens = tokens_of(admitted("a question of words " * 10), reply)
    assert tokens.estimated
    assert 30 < tokens.prompt < 80
    assert 3 < tokens.completion < 12
    assert tokens_of(admitted("你好世界" * 10), {}).prompt > 20
    assert Tokens.from_json(tokens.to_json()) == tokens


@given(st.text(max_size=300))
def test_what_is_reserved_is_never_too_little(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    most = most_tokens(admitted(text))
    assert most.prompt >= len(text.encode())
    assert most.completion == 500
    assert most_tokens(admitted(text, max_tokens=7, n=3)).completion == 21


def test_an_image_is_not_counted_by_its_bytes() -> None:
    url = "data:image/png;base64," + "A" * 100_000
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"model": "gpt-test", "messages": [{"role": "user", "content": [part]}]}
    most = most_tokens(admit(Request("openai", "POST", "/chat/completions", body), ROUTE))
    assert 3_000 < most.prompt < 4_000


@pytest.mark.parametrize(
    ("text", "reported", "cut"),
    [
        ("the quick brown fox jumps over it. " * 1_000, 8_000, False),
        ("the quick brown fox jumps over it. " * 1_000, 2_048, True),
        ("成都的天气很温和。" * 1_000, 6_000, False),
        ("成都的天气很温和。" * 1_000, 2_000, True),
        ("short", 1, False),
        (" " * 50_000, 400, False),
        ("=" * 50_000, 800, False),
    ],
)
def test_a_prompt_that_cannot_be_whole(text: str, reported: int, cut: bool) -> None:
    found = prompt_was_cut(admitted(text), Tokens(reported, 1))
    assert (found is not None) is cut
    assert prompt_was_cut(admitted(text), Tokens(reported, 1, estimated=True)) is None


def stream(*events: Any) -> bytes:
    return "".join(
        f"data: {event if isinstance(event, str) else json.dumps(event)}\r\n\r\n"
        for event in events
    ).encode()


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def test_tool_calls_are_put_together() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "save", "arguments": ""}}
    data = stream(
        delta(role="assistant", tool_calls=[call]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]),
        delta(
            tool_calls=[{"index": 1, "id": "call_2", "function": {"name": "b", "arguments": "{}"}}]
        ),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]),
        delta(finish="tool_calls"),
        "[DONE]",
    )
    message = collapse("/chat/completions", data)["choices"][0]["message"]
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "save", "arguments": '{"a": 1}'},
        {"name": "b", "arguments": "{}"},
    ]
    assert message["content"] is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        stream(delta(content="half")),
        stream(delta(content="x"), delta(finish="stop"), delta(1, content="half")),
        stream(delta(content="x"))[:-9],
        "data: 成".encode()[:-1],
    ],
)
def test_a_stream_without_its_end_is_broken(data: bytes) -> None:
    with pytest.raises(StreamBroken):
        collapse("/chat/completions", data)
    with pytest.raises(StreamBroken):
        collapse("/responses", data)


def test_a_stream_with_an_error() -> None:
    with pytest.raises(StreamError):
        collapse("/chat/completions", stream(delta(content="x"), {"error": {"message": "boom"}}))
    with pytest.raises(StreamError):
        collapse("/responses", stream({"type": "response.failed", "response": {"error": {}}}))


def test_schema_hints_apply_to_their_prompt_only() -> None:
    hint = SchemaHint("memories", r"extract .* facts", {"type": "object"})
    body = dict(admitted("Please extract the facts.").body)
    request = Request("openai", "POST", "/chat/completions", body)
    made, notes = apply_hints(request, [hint])
    assert made.body is not None
    assert made.body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert notes == ("schema hint memories",)
    own = {**body, "response_format": {"type": "json_schema", "json_schema": {}}}
    for untouched in (
        Request("openai", "POST", "/chat/completions", own),
        Request("openai", "POST", "/chat/completions", dict(admitted("hello").body)),
        Request("openai", "POST", "/embeddings", body),
    ):
        assert apply_hints(untouched, [hint]) == (untouched, ())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=10.0) == seconds
