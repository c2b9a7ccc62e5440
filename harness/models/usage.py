"""Tokens: what the upstream reported, what we estimate where it did not, and lies about prompts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.models.policy import Admitted
from harness.models.routes import EMBEDDINGS

#: Per message and per tool the wire form costs a few tokens that are not in the text.
_OVERHEAD = 16

#: Reserved for an image; providers differ, so nothing that rests on it is exact.
_IMAGE_TOKENS = 3_000

#: A prompt shorter than this is not held against the reported count: too little to tell.
_MIN_CHARACTERS = 2_000

_DATA_URL = re.compile(r"data:image/[^,]*,")
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


@dataclass(frozen=True)
class Tokens:
    """Tokens of one call.

    ``cached`` is a part of ``prompt``, ``reasoning`` of ``completion``. ``estimated``: the upstream
    said nothing and we counted ourselves.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt + self.completion

    def to_json(self) -> dict[str, Any]:
        """For the ledger and the cassette."""
        return {**asdict(self), "total": self.total}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tokens:
        """What :meth:`to_json` wrote."""
        return cls(**{name: value[name] for name in value if name != "total"})


def tokens_of(request: Admitted, reply: Any) -> Tokens:
    """Tokens that a reply reports, else our estimate, flagged."""
    usage = reply.get("usage") if isinstance(reply, Mapping) else None
    if isinstance(usage, Mapping):
        prompt = _count(usage, "prompt_tokens", "input_tokens")
        completion = _count(usage, "completion_tokens", "output_tokens")
        if prompt is not None or completion is not None:
            details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
            spent = (
                usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
            )
            return Tokens(
                prompt or 0,
                completion or 0,
                _count(details, "cached_tokens") or 0,
                _count(spent, "reasoning_tokens") or 0,
            )
    completion = 0 if request.path == EMBEDDINGS else _likely(_texts(reply))
    return Tokens(_likely(_texts(request.body)), completion, estimated=True)


def most_tokens(request: Admitted) -> Tokens:
    """The most that a call can use: what the budget reserves.

    Every known tokenizer makes at most one token of a byte, so bytes bound the prompt. The
    completion is bounded by what was asked for, else by the route's cap.
    """
    body = request.body
    texts = json.dumps(body, ensure_ascii=False)
    images = len(_DATA_URL.findall(texts))
    if images:
        texts = json.dumps(_without_images(body), ensure_ascii=False)
    prompt = len(texts.encode("utf-8")) + images * _IMAGE_TOKENS + _OVERHEAD
    if request.path == EMBEDDINGS:
        return Tokens(prompt, 0, estimated=True)
    asked = [
        body[name]
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
        if isinstance(body.get(name), int)
    ]
    each = max(asked) if asked else request.route.max_tokens
    return Tokens(prompt, each * int(body.get("n", 1)), estimated=True)


def prompt_was_cut(request: Admitted, tokens: Tokens) -> str | None:
    """Why the reported prompt count cannot be true of what was sent, or ``None``.

    Servers with a small window cut the front of a long prompt off and say nothing. Nine characters
    a token is beyond what tokenizers reach on text (Latin script about four, Chinese about one and
    a half); runs of one character, which they fold, are folded first.
    """
    if tokens.estimated or tokens.prompt == 0:
        return None
    text = _RUN.sub(r"\1", "".join(_texts(_without_images(request.body))))
    if len(text) < _MIN_CHARACTERS:
        return None
    ascii_count = _ascii(text)
    least = math.floor(ascii_count / 9 + (len(text) - ascii_count) / 4)
    if tokens.prompt >= least:
        return None
    return (
        f"{len(text)} characters were sent, and the upstream counted {tokens.prompt} prompt tokens "
        f"(at least {least} expected): it cut the prompt. Give the server a longer context"
    )


def _count(usage: Any, *names: str) -> int | None:
    for name in names:
        value = usage.get(name) if isinstance(usage, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _ascii(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("ascii", "ignore"))


def _likely(texts: Iterator[str]) -> int:
    """Four characters a token in ASCII, one and a half elsewhere."""
    ascii_count = other = 0
    for text in texts:
        plain = _ascii(text)
        ascii_count += plain
        other += len(text) - plain
    return math.ceil(ascii_count / 4 + other / 1.5)


_NOT_TEXT = {"model", "role", "type", "id", "object", "usage", "embedding", "encoding_format"}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if key not in _NOT_TEXT:
                yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _without_images(value: Any) -> Any:
    if isinstance(value, str):
        return "" if value.startswith("data:image/") else value
    if isinstance(value, Mapping):
        return {key: _without_images(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_images(entry) for entry in value]
    return value
