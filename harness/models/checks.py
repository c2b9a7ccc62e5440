"""Replies that are whole but wrong: another embedding model, a cut prompt, text for JSON."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from typing import Any

from harness.models.cassette import Cassette
from harness.models.failures import UpstreamFailure
from harness.models.policy import Admitted
from harness.models.routes import EMBEDDINGS
from harness.models.usage import Tokens, prompt_was_cut


class Checks:
    """Looks at fresh replies. Remembers the dimension of each embedding model in the cassette."""

    def __init__(self, cassette: Cassette | None) -> None:
        self._cassette = cassette
        self._lock = threading.Lock()
        self._dimensions: dict[tuple[str, str, str], int] = {}

    def check(self, request: Admitted, body: Any, tokens: Tokens) -> None:
        """Raise what is wrong with a reply.

        Raises:
            UpstreamFailure: TRUNCATED_PROMPT or EMBEDDING_DIMENSION.
        """
        if request.route.kind != "openai":
            return
        if cut := prompt_was_cut(request, tokens):
            raise UpstreamFailure("TRUNCATED_PROMPT", cut, billed=True)
        if request.path == EMBEDDINGS:
            self._dimension(request, body)

    def _dimension(self, request: Admitted, body: Mapping[str, Any]) -> None:
        lengths = {_length(entry) for entry in body["data"]}
        if len(lengths) != 1 or None in lengths:
            raise UpstreamFailure(
                "MODEL_BAD_REPLY", f"route {request.route.name}: embeddings of unequal lengths"
            )
        length = lengths.pop()
        assert length is not None
        before = self._remembered(request, length)
        if before != length:
            raise UpstreamFailure(
                "EMBEDDING_DIMENSION",
                f"{request.model} on route {request.route.name} gave vectors of {before} numbers "
                f"before, and gives {length} now: another model answers under this name",
                billed=True,
            )

    def _remembered(self, request: Admitted, length: int) -> int:
        name = f"dimension:{request.body.get('dimensions', 'default')}"
        place = (request.route.name, request.model or "", name)
        with self._lock:
            if place not in self._dimensions:
                known = self._cassette.fact(*place) if self._cassette else None
                if known is None and self._cassette and not self._cassette.read_only:
                    self._cassette.learn(*place, length)
                self._dimensions[place] = length if known is None else known
            return self._dimensions[place]


def _length(entry: Any) -> int | None:
    """Numbers in one vector: a list, or little-endian float32 in base64."""
    vector = entry.get("embedding") if isinstance(entry, Mapping) else None
    if isinstance(vector, list):
        return len(vector)
    if isinstance(vector, str):
        try:
            return len(base64.b64decode(vector, validate=True)) // 4
        except ValueError:
            return None
    return None


def unparsed(request: Admitted, body: Any) -> bool:
    """Whether JSON was asked for and a text is none.

    Some systems take that for "nothing to remember", so the gateway counts it.
    """
    wanted = request.body.get("response_format")
    if not isinstance(wanted, Mapping) or wanted.get("type") not in ("json_object", "json_schema"):
        return False
    for choice in body.get("choices", []):
        message = choice.get("message") if isinstance(choice, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and not _is_json(content):
            return True
    return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
