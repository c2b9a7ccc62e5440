"""Retrieval by source ids: did the top k come from where the gold evidence stands?

Gold units of a question are its resolved evidence ids of kind turn, session and image, and the
source turns of its cited gold points. An item brings a unit when one of its ``sources`` (turn ids
``SESSION:INDEX`` or session ids) lies in it; a source that is a whole session covers its turns.

Definitions (``reference`` peers 8.5), with G gold units and r_u the first rank that brings unit u:

- recall@k = #{u : r_u <= k} / G
- nDCG@k = min(1, DCG/IDCG), DCG = sum over i <= k of new_i / log2(i + 1), where new_i counts the
  units first brought at rank i (a unit counts once), IDCG = sum over i <= min(G, k) of
  1 / log2(i + 1): ideal over the gold count, not over what was retrieved. The cap matters only for
  items that bring several units at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging.base import Block, Scope, not_available
from harness.records import QARecord
from harness.samples import Evidence, EvidenceKind, EvidenceState, Question, Sample

#: Counts up whenever a score could change; part of the metric ids.
VERSION = 1

Place = tuple[str, int]  # dataset session id, turn index
#: Digits that int() reads: str.isdigit() is true of a superscript two, which it does not.
_INDEX = re.compile(r"[0-9]{1,9}")


class SourceMap:
    """Where the ids of one sample stand. Built once a sample."""

    def __init__(self, sample: Sample) -> None:
        self.sessions: dict[str, frozenset[Place]] = {}
        self._turns: dict[str, set[Place]] = {}
        self._images: dict[str, set[Place]] = {}
        for session in sample.sessions:
            places = []
            for turn in session.turns:
                place = (session.id, turn.index)
                places.append(place)
                for source in turn.source_ids:
                    self._turns.setdefault(source, set()).add(place)
                for image in turn.images:
                    if image.image_id is not None:
                        self._images.setdefault(image.image_id, set()).add(place)
            self.sessions[session.id] = frozenset(places)
        self._points = {point.id: point for point in sample.points}

    def units(self, question: Question) -> list[frozenset[Place]]:
        """The gold units of a question, each as the turns that it stands in; none twice."""
        units: dict[tuple[str, str], frozenset[Place]] = {}
        for evidence in question.evidence:
            if evidence.state is EvidenceState.RESOLVED:
                for kind, name in self._names(evidence):
                    places = self._places(kind, name)
                    if places:
                        units.setdefault((kind, name), places)
        return list(units.values())

    def _names(self, evidence: Evidence) -> list[tuple[str, str]]:
        if evidence.kind is EvidenceKind.POINT:
            point = self._points.get(evidence.id)
            return [("turn", source) for source in point.source_ids] if point else []
        return [(evidence.kind.value, evidence.id)]

    def _places(self, kind: str, name: str) -> frozenset[Place]:
        if kind == "session":
            return self.sessions.get(name, frozenset())
        table = self._images if kind == "image" else self._turns
        return frozenset(table.get(name, ())) or (
            self.covered(name) if kind == "turn" else frozenset()
        )

    def covered(self, source: str) -> frozenset[Place]:
        """The turns that an item's source stands for; none if it names nothing."""
        if source in self.sessions:
            return self.sessions[source]
        session, _, index = source.rpartition(":")
        if session in self.sessions and _INDEX.fullmatch(index):
            return frozenset({(session, int(index))}) & self.sessions[session]
        return frozenset(self._turns.get(source, ()))


def judge_retrieval(places: SourceMap, question: Question, record: QARecord, scope: Scope) -> Block:
    """``{"total": G, "first": [rank or null for each unit]}`` or N/A."""
    units = places.units(question)
    if not units:
        return not_available("no question cites turns, sessions or images")
    if scope.full_context:
        return not_available("returns its whole store; there is no ranking")
    items = record.retrieved or ()
    if scope.provenance is False:
        return not_available("the system does not say where its memories come from")
    if scope.provenance is None and items and not any(item.get("sources") for item in items):
        return not_available("the system does not say where its memories come from")
    first = _first_ranks(places, units, items)
    return {"total": len(units), "first": first}


def _first_ranks(
    places: SourceMap, units: Sequence[frozenset[Place]], items: Sequence[Mapping[str, Any]]
) -> list[int | None]:
    first: list[int | None] = [None] * len(units)
    for rank, item in enumerate(items, start=1):
        brought: set[Place] = set()
        for source in item.get("sources") or ():
            brought |= places.covered(source)
        for index, unit in enumerate(units):
            if first[index] is None and unit & brought:
                first[index] = rank
    return first


def recall_at(first: Sequence[int | None], k: int) -> float:
    """Share of the gold units that the top ``k`` brought."""
    return sum(1 for rank in first if rank is not None and rank <= k) / len(first)


def ndcg_at(first: Sequence[int | None], k: int) -> float:
    """nDCG@k over the first ranks of the gold units (module docstring)."""
    gain = math.fsum(1 / math.log2(rank + 1) for rank in first if rank is not None and rank <= k)
    ideal = math.fsum(1 / math.log2(i + 1) for i in range(1, min(len(first), k) + 1))
    return min(1.0, gain / ideal)
