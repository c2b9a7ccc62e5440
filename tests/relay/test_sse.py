"""Streams made of whole replies, put together again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapter.sse import PIECE, chat_events, response_events
from harness.models.streams import collapse
from relay.rig import completion, responded, said

TEXT = st.text(max_size=4 * PIECE)
CALLS = st.lists(st.tuples(st.text(min_size=1, max_size=9), TEXT), max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.none() | TEXT, CALLS, st.none() | TEXT, st.sampled_from(["stop", "length"]))
def test_the_host_s_own_reader_of_streams_gives_the_reply_back(
    text: str | None, calls: list[tuple[str, str]], thought: str | None, reason: str
) -> None:
    """Two programs written apart: what one takes to pieces the other one puts together."""
    reply = completion(text)
    message = reply["choices"][0]["message"]
    if calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)
        ]
    if thought:
        message["reasoning_content"] = thought
    reply["choices"][0]["finish_reason"] = reason
    joined = collapse("/chat/completions", chat_events(reply, include_usage=True))
    del reply["choices"][0]["logprobs"]
    assert joined == reply


@settings(max_examples=100, deadline=None)
@given(TEXT)
def test_a_stream_of_responses_ends_in_the_reply_and_its_pieces_make_its_text(text: str) -> None:
    reply = responded(said(text))
    data = response_events(reply)
    assert collapse("/responses", data) == reply
    events = [json.loads(block.split("data: ", 1)[1]) for block in data.decode().split("\n\n")[:-1]]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(pieces) == text


def test_no_event_holds_a_character_that_some_take_for_the_end_of_a_line() -> None:
    data = chat_events(completion("a\u2028b\u2029c\x85d\x0be\r\nf"), include_usage=False)
    for line in data.decode().split("\n\n")[:-1]:
        assert len(line.splitlines()) == 1
    assert collapse("/chat/completions", data)["choices"][0]["message"]["content"] == (
        "a\u2028b\u2029c\x85d\x0be\r\nf"
    )


def chunks(reply: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = chat_events(reply, include_usage=False).decode().split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block[len("data: ") :])["choices"][0] for block in blocks[:-2]]


def test_log_probabilities_come_once_with_the_first_piece() -> None:
    reply = completion("x" * 3 * PIECE)
    reply["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -0.1}]}
    assert ["logprobs" in chunk for chunk in chunks(reply)] == [False, True, False, False, False]


def test_log_probabilities_of_an_empty_text_are_not_lost() -> None:
    reply = completion("")
    reply["choices"][0]["logprobs"] = {"content": []}
    assert chunks(reply)[-1]["logprobs"] == {"content": []}


def test_an_old_function_call_and_fields_that_nobody_knows() -> None:
    call = {"name": "add", "arguments": "y" * (PIECE + 1)}
    deltas = [c["delta"] for c in chunks(completion(None, function_call=call, annotations=[1]))]
    assert deltas[0] == {"role": "assistant", "content": None, "annotations": [1]}
    calls = [delta["function_call"] for delta in deltas if "function_call" in delta]
    assert calls[0] == {"name": "add", "arguments": ""}
    assert "".join(call["arguments"] for call in calls) == call["arguments"]


def test_a_custom_tool() -> None:
    tool = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "z" * (PIECE + 1)}}
    deltas = [c["delta"] for c in chunks(completion(None, tool_calls=[tool]))]
    made = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert made[0] == {**tool, "index": 0, "custom": {"name": "run", "input": ""}}
    assert "".join(piece["custom"]["input"] for piece in made) == tool["custom"]["input"]


def test_a_failed_response_says_so_last() -> None:
    reply = responded(status="failed", error={"code": "server_error", "message": "boom"})
    kinds = [
        line.removeprefix("event: ")
        for line in response_events(reply).decode().splitlines()
        if line.startswith("event: ")
    ]
    assert kinds == ["response.created", "response.in_progress", "response.failed"]
