"""Whether an answer is the answerer's refusal: equality, never a guess at phrasings."""

from __future__ import annotations

from collections.abc import Iterable

from harness.adapter.text import tokens
from harness.judging.match import canonical


class Refusals:
    """The texts that an answerer gives when it finds nothing, compared by their tokens."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._known = frozenset(tuple(tokens(canonical(text))) for text in texts)

    def is_refusal(self, answer: str | None) -> bool:
        """Whether the whole answer is one of the refusal texts."""
        return answer is not None and tuple(tokens(canonical(answer))) in self._known
