"""The lower bound for data without keys: does the gold answer stand in the answer?

``gold_found`` is 1 when the gold answer's tokens (folded as in ``match``, without a, an, the) stand
in the answer's tokens side by side and in order; any one of several variants does. Where refusal is
right, the answer must be the answerer's refusal text. For a choice, the right option must stand in
the answer and no other option that is not part of the right one. A rubric has no answer to look
for.

It says nothing about what is not found, so it gives no verdicts, and every judged dimension is N/A.
Known error (40 fresh items): what it finds is nearly always right, half of the right answers are
not found; a swapped direction ("from A to B") is found all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.adapter.text import tokens
from harness.judging.base import NEEDS_MODEL, SESSION_BLOCKS, JSONObject, Scope, not_available
from harness.judging.match import canonical
from harness.judging.refusal import Refusals
from harness.records import QARecord, SessionRecord
from harness.samples import AnswerKind, Question, Sample

#: Counts up whenever a verdict could change.
VERSION = 1

_ARTICLES = frozenset({"a", "an", "the"})


def content_tokens(text: str) -> list[str]:
    """Folded tokens without articles."""
    return [token for token in tokens(canonical(text)) if token not in _ARTICLES]


def contains(answer: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether ``gold`` stands in ``answer`` side by side and in order; never for an empty gold."""
    size = len(gold)
    return size > 0 and any(
        list(answer[start : start + size]) == list(gold) for start in range(len(answer) - size + 1)
    )


class GoldFoundJudge:
    """Stateless but for the refusal texts."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def session(
        self,
        sample: Sample,
        record: SessionRecord,
        snapshot: Sequence[Mapping[str, Any]] | None,
        scope: Scope,
    ) -> JSONObject:
        """Nothing of a session can be graded without keys or a model."""
        return {name: not_available(NEEDS_MODEL) for name in SESSION_BLOCKS}

    def question(
        self, sample: Sample, question: Question, record: QARecord, scope: Scope
    ) -> JSONObject:
        """``gold_found`` as the module's docstring says; the rest N/A."""
        return {
            "answer": not_available(NEEDS_MODEL),
            "gold_found": self._found(question, record),
            "evidence": not_available(NEEDS_MODEL),
        }

    def _found(self, question: Question, record: QARecord) -> JSONObject:
        kind = question.answer_kind
        if kind is AnswerKind.RUBRIC:
            return not_available("a rubric has no answer to look for")
        golds = [content_tokens(text) for text in question.answers]
        if kind is not AnswerKind.REFUSAL and not any(golds):
            return not_available("the gold answer is empty")
        if not record.status.has_result:
            return {"total": 1, "found": 0}
        if kind is AnswerKind.REFUSAL:
            return {"total": 1, "found": int(self._refusals.is_refusal(record.answer))}
        answer = content_tokens(record.answer or "")
        found = any(contains(answer, gold) for gold in golds)
        if kind is AnswerKind.CHOICE and found:
            found = not self._names_another(question, answer, golds[0])
        return {"total": 1, "found": int(found)}

    @staticmethod
    def _names_another(question: Question, answer: Sequence[str], right: Sequence[str]) -> bool:
        others = [content_tokens(choice) for choice in question.choices]
        return any(
            contains(answer, o) for o in others if o != list(right) and not contains(right, o)
        )
