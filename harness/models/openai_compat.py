"""What a model cannot take, learned from its own refusals and remembered.

Endpoints that call themselves compatible differ: newer models want ``max_completion_tokens`` where
older ones know ``max_tokens`` only; some refuse any temperature but their own; many local servers
know no ``json_schema``. The first request that is refused for such a reason is the probe: it costs
nothing, the body is changed, and the answer is kept as a fact about (route, model). The key of a
request is made before any of this, so a recording does not depend on it. Every change stands in the
ledger as a rewrite.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from harness.models.policy import Admitted

#: What may be learned, and what is done about it.
FACTS = {
    "max_tokens": "is sent as max_completion_tokens",
    "max_completion_tokens": "is sent as max_tokens",
    "temperature": "is left out: the model has its own",
    "top_p": "is left out: the model has its own",
    "seed": "is left out: the model has none",
    "json_schema": "is asked for as json_object",
    "response_format": "is left out: the server has none",
    "stream_options": "is left out: the server has none",
    "cache_prompt": "is left out: the server has none",
}

_REFUSED = re.compile(
    r"unsupported|not supported|does not support|unknown|unrecogni[sz]ed|unexpected|not permitted"
    r"|extra (?:inputs|fields)|invalid|must be|only the default|not available|unavailable",
    re.IGNORECASE,
)

#: Reads and writes facts: (route, model, name) -> value or None.
ReadFact = Callable[[str, str, str], Any]
WriteFact = Callable[[str, str, str, Any], None]


class Compat:
    """Facts about models, kept by ``write`` and read once by ``read``."""

    def __init__(self, read: ReadFact | None = None, write: WriteFact | None = None) -> None:
        self._read, self._write = read, write
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], set[str]] = {}

    def adapt(self, request: Admitted, body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The body that the model takes, and what was changed for it."""
        changed, notes = dict(body), []
        for fact in FACTS:
            if fact in self._facts(request) and _apply(fact, changed):
                notes.append(f"{fact} {FACTS[fact]}")
        return changed, notes

    def learn(self, request: Admitted, sent: Mapping[str, Any], error: Any) -> str | None:
        """Learn from a refusal (HTTP 400 or 422); returns the new fact, or ``None``.

        Args:
            request: what was asked for.
            sent: the body that was refused.
            error: the upstream's error object or text.
        """
        fact = _blamed(sent, error)
        if fact is None or fact in self._facts(request):
            return None
        route, model = request.route.name, request.model or ""
        with self._lock:
            self._known[(route, model)].add(fact)
        if self._write is not None:
            self._write(route, model, f"refuses:{fact}", True)
        return fact

    def _facts(self, request: Admitted) -> set[str]:
        place = (request.route.name, request.model or "")
        with self._lock:
            if place not in self._known:
                read = self._read
                self._known[place] = {
                    fact for fact in FACTS if read is not None and read(*place, f"refuses:{fact}")
                }
            return set(self._known[place])


def _apply(fact: str, body: dict[str, Any]) -> bool:
    if fact == "json_schema":
        if _format_type(body) != "json_schema":
            return False
        body["response_format"] = {"type": "json_object"}
        return True
    if fact not in body:
        return False
    value = body.pop(fact)
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(fact)
    if other is not None:
        body.setdefault(other, value)
    return True


def _format_type(body: Mapping[str, Any]) -> Any:
    wanted = body.get("response_format")
    return wanted.get("type") if isinstance(wanted, Mapping) else None


def _blamed(sent: Mapping[str, Any], error: Any) -> str | None:
    """Which field an error is about, among those that were sent."""
    inner = error.get("error", error) if isinstance(error, Mapping) else error
    param = inner.get("param") if isinstance(inner, Mapping) else None
    text = str(inner.get("message", inner)) if isinstance(inner, Mapping) else str(inner)
    if not _REFUSED.search(text):
        return None
    # "Use 'max_completion_tokens' instead" names the cure, too; the blamed one stands first.
    named = [(text.find(fact), fact) for fact in FACTS if fact in text and fact != "json_schema"]
    first = param if param in FACTS else min(named)[1] if named else None
    if _format_type(sent) == "json_schema" and (
        first == "response_format" or "json_schema" in text or "response_format" in str(param)
    ):
        return "json_schema"
    if first in ("max_tokens", "max_completion_tokens") and _is_about_size(text):
        return None
    return first if first in sent else None


def _is_about_size(text: str) -> bool:
    """Whether a value is too large: a mistake of the request, not of the field's name."""
    return bool(re.search(r"too (?:large|long|many)|at most|less than|exceed|maximum", text, re.I))
