"""Every name that a table prints: what it is called, and what it says in plain words.

One place for the column heads, the section on the page and ``memrig explain RUN NAME``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.aggregate.dimensions import NUMBERS

Aggregate = Mapping[str, Any]

#: Column heads in two lines, in the order of the six dimensions.
HEADS = {
    "memory_recall.avg_recall": ("Memory", "recall"),
    "memory_recall.avg_update_recall": ("Update", "recall"),
    "memory_correctness.avg_correctness": ("Memory", "correct"),
    "memory_correctness.avg_hallucination": ("Memory", "halluc."),
    "update_handling.score": ("Update", "handling"),
    "interference_rejection.score": ("Interf.", "rejected"),
    "question_answering.correct_ratio": ("QA", "correct"),
    "question_answering.hallucination_ratio": ("QA", "halluc."),
    "question_answering.omission_ratio": ("QA", "omitted"),
    "question_answering.failed_ratio": ("QA", "failed"),
    "question_answering.gold_found": ("QA gold", "found"),
    "evidence_coverage.hit_rate": ("Evidence", "coverage"),
}

#: What each number says.
ABOUT = {
    "memory_recall.avg_recall": "of a session's gold points (hearsay apart), the share that an "
    "added or updated memory states; mean over sessions",
    "memory_recall.avg_update_recall": "the same over a session's update points only",
    "memory_correctness.avg_correctness": "precision: of the added and updated memories, the share "
    "that states a gold point so far. A verbatim turn that states none counts as not supported, so "
    "a store of whole turns scores low",
    "memory_correctness.avg_hallucination": "of the added and updated memories, the share that "
    "states something never said; only a judge model can tell",
    "update_handling.score": "per update, in the store after the session: only the new value 1, "
    "both values 1/2, the old one or neither 0",
    "update_handling.updated_ratio": "updates of which only the new value is in the store",
    "update_handling.both_ratio": "updates of which both values are in the store",
    "update_handling.outdated_ratio": "updates of which the old value or neither is in the store",
    "interference_rejection.score": "of what was only hearsay, the share that is not in the store",
    "question_answering.correct_ratio": "of all planned questions, those answered right",
    "question_answering.hallucination_ratio": "of all planned questions, those answered with "
    "something false; a failed question is not among them",
    "question_answering.omission_ratio": "of all planned questions, those without the answer, and "
    "without a false one; a failed question is not among them",
    "question_answering.failed_ratio": "of all planned questions, those that broke off; with "
    "correct, hallucinated and omitted they add up to 1",
    "question_answering.gold_found": "of all planned questions, those whose answer contains the "
    "gold answer word for word: a lower bound",
    "evidence_coverage.hit_rate": "of the gold points that the questions cite, the share that the "
    "top k memories state, by their text",
}

SHORT = {
    "memory_recall.avg_recall": ["recall"],
    "memory_recall.avg_update_recall": ["update recall"],
    "memory_correctness.avg_correctness": ["correctness", "support", "precision"],
    "memory_correctness.avg_hallucination": ["memory hallucination"],
    "update_handling.score": ["update", "updates"],
    "interference_rejection.score": ["interference", "interference rejected", "rejected"],
    "question_answering.correct_ratio": ["qa", "correct"],
    "question_answering.hallucination_ratio": ["hallucination", "halluc", "qa hallucination"],
    "question_answering.omission_ratio": ["omission", "omitted", "qa omission"],
    "question_answering.failed_ratio": ["failed questions"],
    "evidence_coverage.hit_rate": ["evidence", "coverage"],
}

#: The numbers beside the dimensions: heads in two lines, other names, what they say.
MEASURED: dict[str, tuple[tuple[str, str], tuple[str, ...], str]] = {
    "retrieve": (
        ("retrieve ms", "p50 / p95"),
        ("latency", "retrieve"),
        "time of one retrieval, seen from outside the sandbox",
    ),
    "box": (
        ("in the box", "p50 ms"),
        ("box", "box latency"),
        "time of one retrieval inside the adapter, without the way into the sandbox",
    ),
    "ingest": (
        ("ingest ms", "p50 / p95"),
        ("ingest",),
        "time to hand over one session's turns, seen from outside the sandbox",
    ),
    "context": (
        ("context", "tokens p50"),
        ("tokens", "context tokens"),
        "tokens of the memories that one answer is read from (the top k, or all of a FullContext)",
    ),
    "memories": (
        ("memories", "at the end"),
        ("memories", "items"),
        "memories in the store after the last session; mean over samples",
    ),
    "state": (
        ("state", "KiB"),
        ("size", "state bytes"),
        "files under the state folder (/state) after the last session; what is kept in memory "
        "counts 0",
    ),
    "degraded": (
        ("degr./", "failed"),
        ("degr", "degraded", "failed", "degr failed"),
        "sessions and questions that went through with something amiss, and those that broke off",
    ),
}

_RETRIEVAL = {
    "recall": "of the source turns that a question cites, the share among the sources of the "
    "top {k} memories, by id; mean over questions",
    "ndcg": "of the source turns that a question cites, those among the sources of the top {k} "
    "memories, weighted by their rank (1 if all come first); mean over questions",
}
WHY_DIFFERENT = (
    "It differs from evidence coverage, which looks for the fact in a memory's text and needs keys."
)


@dataclass(frozen=True)
class Name:
    """A number. ``kind`` is "number" (a dimension's), "retrieval" or "measured"."""

    kind: str
    key: str
    head: str
    about: str
    also: tuple[str, ...] = ()


def names_of(aggregate: Aggregate) -> list[Name]:
    """All numbers of an aggregate, with what they are called."""
    found = []
    seen: set[str] = set()
    for number in NUMBERS:
        cell = aggregate["dimensions"].get(number.dimension, {}).get(number.name)
        metric = str((cell or {}).get("metric_id", "")).partition("/")[0]
        head = " ".join(HEADS.get(number.key, (number.key,)))
        ids = (metric, metric.partition("@")[0]) if metric else ()
        also = (number.key, number.name, *ids, *SHORT.get(number.key, ()))
        if number.dimension not in seen:  # a dimension's own name stands for its first number
            seen.add(number.dimension)
            also = (*also, number.dimension)
        found.append(Name("number", number.key, head, ABOUT[number.key], also))
    for key in aggregate.get("retrieval", {}):
        kind, _, depth = key.partition("@")
        head = f"{'nDCG' if kind == 'ndcg' else kind}@{depth} by source"
        about = f"{_RETRIEVAL[kind].format(k=depth)}. {WHY_DIFFERENT}"
        found.append(Name("retrieval", key, head, about, (key, f"retrieval.{key}")))
    for key, (heads, also, about) in MEASURED.items():
        head = " ".join(heads).replace("/ ", "/") if key == "degraded" else " ".join(heads)
        found.append(Name("measured", key, head, about, (heads[0], key, *also)))
    return found


def find(names: Iterable[Name], wanted: str) -> Name | None:
    """The number that someone typed the name of; None if no number is called so."""
    by_name: dict[str, Name] = {}
    for name in names:
        for called in (name.head, *name.also):
            by_name.setdefault(plain(called), name)
    return by_name.get(plain(wanted))


def plain(name: str) -> str:
    """A name without case, dots at the end of words, and what stands between words."""
    return " ".join(re.sub(r"[_\-/.]", " ", name.casefold()).split())


def listed(names: Iterable[Name]) -> list[str]:
    """One name for each, that can be typed."""
    return [name.key if name.kind == "retrieval" else name.head for name in names]


def counted(count: int, what: str) -> str:
    """``1 conversation``, ``2 memories``; ``what`` is the plural."""
    if count == 1:
        what = f"{what[:-3]}y" if what.endswith("ies") else what.removesuffix("s")
    return f"{count} {what}"
