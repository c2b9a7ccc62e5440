"""Framing: what goes in comes out, and what is no message is named as such."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapter import records, wire

#: Every character that UTF-8 can hold, line ends and controls included.
texts = st.text(st.characters(exclude_categories=("Cs",)))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
finite = scalars.filter(lambda value: value not in (float("inf"), float("-inf")))
values = st.recursive(
    finite, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)
objects = st.dictionaries(texts, values)
ids = st.integers(min_value=0, max_value=2**53)
results = st.builds(wire.Result, ids, values.filter(lambda value: value is not None), objects)
failures = st.builds(
    wire.Failure,
    ids,
    st.integers(-40000, 0),
    texts,
    kind=texts,
    retry_safe=st.booleans(),
    cause=st.none() | texts,
    traceback=st.none() | texts,
)
messages = st.builds(wire.Request, ids, texts, objects) | results | failures


@given(messages)
def test_a_message_survives_the_wire(message: wire.Message) -> None:
    line = wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert wire.decode(line) == message


turns = st.builds(
    records.NormalizedTurn,
    sample_id=texts,
    session_id=texts,
    turn_index=st.integers(0, 10**6),
    role=st.sampled_from(["user", "assistant"]),
    text=texts,
    name=st.none() | texts,
    timestamp=st.none() | texts,
    time=st.none() | texts,
    attachments=st.lists(
        st.builds(records.Attachment, caption=st.none() | texts, data=st.none() | texts)
    ).map(tuple),
)


@given(turns)
def test_a_record_survives_the_wire(turn: records.NormalizedTurn) -> None:
    line = wire.encode(wire.Request(1, "ingest_turns", {"turns": records.to_wire([turn])}))
    message = wire.decode(line)
    assert isinstance(message, wire.Request)
    assert records.from_wire(records.NormalizedTurn, message.params["turns"][0]) == turn


@given(st.binary(max_size=200))
def test_junk_is_a_protocol_error_and_nothing_else(junk: bytes) -> None:
    try:
        wire.decode(junk + b"\n")
    except wire.ProtocolError:
        return
    raise AssertionError(f"taken for a message: {junk!r}")


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), values))
def test_json_of_another_shape_is_a_protocol_error(value: dict[str, Any]) -> None:
    line = json.dumps(value).encode() + b"\n"
    try:
        message = wire.decode(line)
    except wire.ProtocolError:
        return
    assert value["jsonrpc"] == "2.0"
    assert wire.decode(wire.encode(message)) == message


HEAD = '{"jsonrpc":"2.0","id":1,'


@pytest.mark.parametrize(
    "line",
    [
        HEAD + '"result":null}',
        HEAD + '"result":{"value":null,"meta":{}}}',
        HEAD + '"result":{"value":1}}',
        HEAD + '"result":{"value":1,"meta":{},"more":1}}',
        HEAD + '"result":{"value":NaN,"meta":{}}}',
        HEAD + '"result":{"value":1e999,"meta":{}}}',
        HEAD + '"result":{"value":-1e999,"meta":{}}}',
        HEAD + '"result":{"value":"\\ud800","meta":{}}}',
        HEAD + '"result":{"value":1,"meta":{"\\uDFFF":1}}}',
        HEAD + '"result":{"value":1,"meta":{}},"error":null}',
        HEAD + '"error":{"code":1,"message":"x"}}',
        HEAD + '"error":{"code":true,"message":"x","data":{"kind":"A"}}}',
        HEAD + '"error":{"code":1,"message":"x","data":{"kind":1}}}',
        HEAD + '"error":{"code":1,"message":"x","data":{"kind":"A","retry_safe":"yes"}}}',
        HEAD + '"error":{"code":1,"message":"x","data":{"kind":"A","cause":1}}}',
        HEAD + '"error":{"code":1,"message":"x","data":{"kind":"A","other":1}}}',
        HEAD + '"method":"reset"}',
        HEAD + '"method":"reset","params":[]}',
        HEAD + '"method":1,"params":{}}',
        '{"jsonrpc":"2.0","id":true,"method":"reset","params":{}}',
        '{"jsonrpc":"2.0","id":"1","method":"reset","params":{}}',
        '{"jsonrpc":"1.0","id":1,"method":"reset","params":{}}',
        '{"jsonrpc":"2.0","method":"reset","params":{}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        "null",
        "",
    ],
)
def test_what_is_refused(line: str) -> None:
    with pytest.raises(wire.ProtocolError):
        wire.decode(line.encode() + b"\n")


def test_half_a_character_in_two_escapes_is_whole() -> None:
    line = HEAD + '"result":{"value":"\\ud83d\\ude00","meta":{}}}'
    message = wire.decode(line.encode() + b"\n")
    assert isinstance(message, wire.Result)
    assert message.value == "😀"


def test_a_torn_line_is_no_message() -> None:
    whole = wire.encode(wire.Result(1, {}, {}))
    with pytest.raises(wire.ProtocolError, match="without an end"):
        wire.decode(whole[:-1])


@pytest.mark.parametrize(
    "value", [None, float("nan"), float("inf"), "\ud800", {1, 2}, b"x", {"a": object()}]
)
def test_what_cannot_be_sent_is_named(value: Any) -> None:
    with pytest.raises(wire.NotJson):
        wire.encode(wire.Result(1, value, {}))


def test_a_circle_cannot_be_sent() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(wire.NotJson):
        wire.encode(wire.Result(1, circle, {}))


def test_the_limit_counts_bytes_and_holds_on_both_sides() -> None:
    line = wire.encode(wire.Result(1, "你" * 100, {}))
    assert wire.encode(wire.Result(1, "你" * 100, {}), limit=len(line)) == line
    with pytest.raises(wire.MessageTooLarge, match=f"{len(line)} bytes"):
        wire.encode(wire.Result(1, "你" * 100, {}), limit=len(line) - 1)
    assert wire.decode(line, limit=len(line))
    with pytest.raises(wire.ProtocolError, match="over the limit"):
        wire.decode(line, limit=len(line) - 1)
