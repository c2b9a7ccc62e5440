"""No secret leaves: every string that is logged, recorded or shown goes through one redactor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MARK = "***"

#: Shorter values ("none", "ollama", "EMPTY") are placeholders that local servers ask for. The
#: minimum is longer than the mark, so that each replacement makes a text shorter.
MIN_SECRET = 6

#: What keys look like. Catches those that are in no settings of ours, such as one that an
#: upstream's error message quotes.
_SHAPES = re.compile(
    r"""(?aix)
      \b (?: sk | rk | pk | gsk | hf | xai | ghp | gho | glpat ) [-_] [a-z0-9] [-_a-z0-9*.]{6,}
    | (?<= bearer \s ) [-._~+/a-z0-9=]{6,}
    """
)


#: What a text must hold, in lower case, if it holds a shape.
_MAKERS = ("sk", "rk", "pk", "hf", "xai", "ghp", "gho", "glpat")
_SUSPECT = ("bearer", *(maker + dash for maker in _MAKERS for dash in "-_"))


class Redactor:
    """Replaces known secrets, and what has the shape of one, by ``***``.

    Args:
        secrets: the values themselves. Those shorter than ``MIN_SECRET`` are taken for
            placeholders and ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({s for s in secrets if len(s) >= MIN_SECRET}, key=len, reverse=True)
        self._known = known
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None
        #: Known secrets as they stand in a text and in JSON.
        self._spelled = {*known, *(json.dumps(s, ensure_ascii=False)[1:-1] for s in known)}

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = self.known(text)
        # A shape may hide a neighbour that, put together, spells a known secret again.
        return self.known(_SHAPES.sub(MARK, text))

    def known(self, text: str) -> str:
        """The text without the known secrets; shapes are left alone (for replies of models)."""
        while self._pattern is not None and self._pattern.search(text):
            text = self._pattern.sub(MARK, text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without secrets, in strings and in keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(entry) for entry in value]
        return value

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """As :meth:`value`, for the many rows that hold nothing secret and need one look."""
        text = json.dumps(row, ensure_ascii=False)
        lower = text.lower()
        if any(mark in lower for mark in _SUSPECT) or any(s in text for s in self._spelled):
            clean: dict[str, Any] = self.value(row)
            return clean
        return row

    def known_in(self, value: Any) -> Any:
        """A JSON value without the known secrets; the same object where there are none."""
        if isinstance(value, str):
            return self.known(value)
        if isinstance(value, dict):
            return {self.known(key): self.known_in(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.known_in(entry) for entry in value]
        return value

    def holds_secret(self, data: bytes) -> bool:
        """Whether a known secret stands in these bytes as it is."""
        return any(secret.encode() in data for secret in self._known)
