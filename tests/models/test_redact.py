"""No secret leaves: over random texts, keys with awkward letters, and JSON of any shape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.dotenv import Secrets
from harness.models.redact import MIN_SECRET, Redactor

#: Stars and letters, so that a mark and its surroundings can spell a secret again.
awkward = st.text('ab*"\\ /', min_size=MIN_SECRET, max_size=10)
secrets = st.lists(awkward | st.text(min_size=MIN_SECRET, max_size=20), min_size=1, max_size=4)


@given(secrets, st.data())
def test_no_known_secret_stays_in_a_text(known: list[str], data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from(known) | st.text('ab*" ', max_size=6), max_size=8))
    redacted = Redactor(known).text("".join(pieces))
    assert not any(secret in redacted for secret in known)


@given(
    st.text(min_size=MIN_SECRET, max_size=12),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)
def test_no_known_secret_stays_in_json(secret: str, value: object) -> None:
    redactor = Redactor([secret])
    holder = {"a": [secret, value, {f"key {secret}": f"x{secret}y"}], "b": value}
    text = json.dumps(redactor.value(holder), ensure_ascii=False)
    assert secret not in _strings(json.loads(text))


@given(st.text(min_size=MIN_SECRET, max_size=12), st.text(max_size=6), st.text(max_size=6))
def test_the_quick_look_at_a_row_misses_nothing(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    for text in (secret, "bearer\n" + "a" * 9, "SK-" + "b" * 9):
        row = {"x": {f"{before}{text}{after}": [before + text + after]}, "n": 1}
        assert redactor.row(row) == redactor.value(row)


def _strings(value: object) -> str:
    if isinstance(value, dict):
        return "\x00".join([*map(_strings, value), *map(_strings, value.values())])
    if isinstance(value, list):
        return "\x00".join(map(_strings, value))
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abcd1234efgh5678.",
        "Authorization: Bearer abcdef123456",
        "key hf_abcdefghijkl was refused",
        "sk-abc***************xyz9",
    ],
)
def test_what_has_the_shape_of_a_key_is_hidden(text: str) -> None:
    redacted = Redactor().text(text)
    assert "***" in redacted
    for part in ("abcd1234", "abcdef123456", "abcdefghijkl", "xyz9"):
        assert part not in redacted


def test_ordinary_text_and_placeholders_stay() -> None:
    text = "the task was asked on a risk-free basis; key ollama"
    assert Redactor(["ollama", "x"][1:]).text(text) == text


def test_printing_secrets_shows_names_only() -> None:
    held = Secrets({"OPENAI_API_KEY": "sk-very-secret-value", "OPENAI_MODEL": "gpt"})
    assert "very-secret" not in f"{held!r} {held}"
    assert "OPENAI_API_KEY" in repr(held)
    assert held.secret_values() == ["sk-very-secret-value"]
