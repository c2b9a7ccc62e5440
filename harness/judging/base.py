"""What every judge is: a kind of instrument, made from one preset file, that grades records.

The ``eval`` object of a session record, whatever the judge::

    {"judge": preset id,
     "gold": {"new": n, "update": n, "interference": n},      # of this session, always
     "recall": BLOCK, "update_recall": BLOCK, "correctness": BLOCK, "update": BLOCK,
     "interference": BLOCK,
     "points": [...], "items": [...]}                          # the findings behind, for explain

and of a question record::

    {"judge": preset id, "answer": BLOCK, "gold_found": BLOCK, "evidence": BLOCK,
     "retrieval": BLOCK}

A BLOCK is counts (``{"total": n, ...}``) or ``{"na": reason}``: the aggregate needs nothing else.
A judge grades *every* record. For a record without a result (a failed unit) the totals come from
the gold alone and nothing is found, so that the strict score can count it as wrong. A judge that
fails on a record sets ``status: failed_judge`` and ``failure`` in the eval object instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.adapter.records import Capabilities
from harness.records import QARecord, SessionRecord
from harness.samples import PointKind, Question, Sample

JSONObject = dict[str, Any]
Block = dict[str, Any]

NEEDS_MODEL = "needs a judge model"

#: Kinds of judge whose verdicts depend on nothing but record and gold: they can be repeated.
DETERMINISTIC = ("keyed", "gold_found")

#: Blocks of the two eval objects, in order.
SESSION_BLOCKS = ("recall", "update_recall", "correctness", "update", "interference")
QUESTION_BLOCKS = ("answer", "gold_found", "evidence", "retrieval")


@dataclass(frozen=True)
class Scope:
    """How a run is to be read. ``top_k`` is the depth scored.

    ``full_context``: the row returns its whole store by design, so all that it returned counts and
    it has no ranking. ``provenance``: the row says where its items come from; None is not known.
    ``snapshot`` ("full", "top-k", "none") and ``delta`` are what the row can report at all: what
    it cannot is N/A for its failed sessions too, where what it can and did not counts as wrong.
    """

    top_k: int = 5
    full_context: bool = False
    provenance: bool | None = None
    snapshot: str = "full"
    delta: bool = True

    @classmethod
    def of(cls, capabilities: Capabilities, top_k: int) -> Scope:
        """The scope of a row with these capabilities."""
        return cls(
            top_k=top_k,
            full_context=capabilities.full_context,
            provenance=capabilities.provenance,
            snapshot=capabilities.snapshot,
            delta=capabilities.delta_source != "none",
        )


class Judge(Protocol):
    """Grades one record at a time; safe to call from several threads."""

    def session(
        self,
        sample: Sample,
        record: SessionRecord,
        snapshot: Sequence[Mapping[str, Any]] | None,
        scope: Scope,
    ) -> JSONObject:
        """The eval object of a session, without ``judge`` and ``gold``."""

    def question(
        self, sample: Sample, question: Question, record: QARecord, scope: Scope
    ) -> JSONObject:
        """The eval object of a question, without ``judge`` and ``retrieval``."""


@dataclass(frozen=True)
class Preset:
    """A judge with its name. ``id`` is the name and a hash of file, code version and prompts.

    ``metrics`` maps "dimension.number" to the metric id that stands in tables.
    """

    name: str
    kind: str
    id: str
    title: str
    summary: str
    judge: Judge
    metrics: Mapping[str, str] = field(default_factory=dict)


def not_available(reason: str) -> Block:
    """A block that has no number, with the reason."""
    return {"na": reason}


def gold_counts(sample: Sample, session_id: str) -> dict[str, int]:
    """How many gold points of each kind a session has."""
    counts = {kind.value: 0 for kind in PointKind}
    for point in sample.points_of(session_id):
        counts[point.kind.value] += 1
    return counts
