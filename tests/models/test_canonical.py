"""Keys: what makes two requests one, over everything that JSON can say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.canonical import Occurrences, canonical, dumps
from harness.models.failures import Refused
from harness.models.policy import Request, admit
from models.rig import route_to

ROUTE = route_to("http://127.0.0.1:1/v1", models=("*",))

numbers = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def key(body: dict[str, Any], sample: str = "s1", repeat: int = 0, path: str = "") -> str:
    path = path or "/chat/completions"
    return canonical(admit(Request("openai", "POST", path, body), ROUTE), sample, repeat).key(0)


def request(extra: Any = None, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hi", "extra": extra}]
    return {"model": "m", "messages": messages, **fields}


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(list(value))}
    return [shuffled(entry) for entry in value] if isinstance(value, list) else value


@given(values)
def test_order_of_keys_and_a_way_over_json_change_nothing(extra: Any) -> None:
    body = request(extra)
    assert key(body) == key(shuffled(body)) == key(json.loads(json.dumps(body)))


@given(values, values)
def test_two_bodies_have_one_key_only_if_they_are_equal(left: Any, right: Any) -> None:
    assert (key(request(left)) == key(request(right))) == (_typed(left) == _typed(right))


def _typed(value: Any) -> Any:
    """Equality as JSON has it: true is not 1, and 1.0 is 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {name: _typed(entry) for name, entry in value.items()}
    return [_typed(entry) for entry in value] if isinstance(value, list) else value


@given(values)
def test_canonical_text_is_a_fixed_point(value: Any) -> None:
    assert dumps(json.loads(dumps(value))) == dumps(value)


@given(st.sampled_from(["stream", "stream_options", "user", "store", "metadata", "seed"]))
def test_what_says_nothing_about_the_reply_is_not_in_the_key(name: str) -> None:
    value = {"stream": True, "stream_options": {}, "user": "u", "store": True, "metadata": {}}
    assert key(request(**{name: value.get(name)})) == key(request())


def test_everything_else_is() -> None:
    base = request()
    different = [
        key(base),
        key(base, sample="s2"),
        key(base, repeat=1),
        key(request(temperature=0)),
        key(request(temperature=1)),
        key(request(max_tokens=5)),
        key(request(n=2)),
        key({**base, "model": "other"}),
        key({"model": "m", "input": "hi"}, path="/embeddings"),
        key({"model": "m", "input": "hi"}, path="/responses"),
        canonical(admit(Request("x", "POST", "/chat/completions", base), ROUTE), "s1").key(1),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("fields", "deterministic"),
    [
        ({}, False),
        ({"temperature": None}, False),
        ({"temperature": 1}, False),
        ({"temperature": 0.01}, False),
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": -0.0}, True),
        ({"temperature": False}, False),
    ],
)
def test_only_an_explicit_zero_is_deterministic(
    fields: dict[str, Any], deterministic: bool
) -> None:
    admitted = admit(Request("openai", "POST", "/chat/completions", request(**fields)), ROUTE)
    made = canonical(admitted, "s1")
    assert made.deterministic is deterministic
    seen = Occurrences()
    indices = [seen.next(made) for _ in range(3)]
    assert indices == ([0, 0, 0] if deterministic else [0, 1, 2])


def test_embeddings_are_deterministic() -> None:
    admitted = admit(Request("openai", "POST", "/embeddings", {"model": "m", "input": "hi"}), ROUTE)
    assert canonical(admitted, "s1").deterministic


@pytest.mark.parametrize("extra", [float("nan"), float("inf"), "\ud83d", b"x"])
def test_what_is_no_json_is_refused(extra: Any) -> None:
    with pytest.raises(Refused):
        key(request(extra))
