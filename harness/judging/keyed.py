"""The keyed judge: grades by keys that the data's author wrote, without a model.

Sessions. "Carries" means: one item's text holds *all* keys of a set (``match.all_found``).

- **recall**: of the session's gold points (interference apart), those that an added or updated
  item of the session's delta carries. **update_recall**: the same over its update points.
- **correctness** (``keyed_support``): of the session's added and updated items, those that carry
  the keys of some gold point of this or an earlier session. An item that carries an interference
  point's keys leaves this denominator: it is graded once, under interference. The hallucination
  share is N/A: an item without a known key may be true and unlisted.
- **update**: for each update point that names an original, on the active items of the snapshot
  after the session: the new value (``must``) there and the old (``gone``) not: ``updated`` = 1;
  both there: ``both`` = .5; the new one not there: 0, as ``outdated`` where the old one is and
  ``lost`` where neither is (a dropped update is no handled update). ``lost`` counts as outdated.
- **interference**: rejected unless an active item of that snapshot carries its keys.

A superseded or invalidated item is not believed and counts on no side of the last two. An item
that ``embeds_history`` counts for a new value and not for an old or a hearsay one.

Questions.

- **answer**: Correct = every key of one alternative and no forbidden key; Hallucination = a
  forbidden key; else Omission. Where refusal is right, the answerer's refusal text is Correct too.
  Where no other question of the sample has keys, refusals alone are no measure of it: N/A.
- **evidence**: of the resolved gold points that the question cites, those that one of the top k
  items carries, whatever its status (an old value is evidence for a question about the past).

Every number needs keyed gold in its denominator: without any it is N/A (:data:`NO_KEYS`), never 0.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging import match
from harness.judging.base import Block, JSONObject, Scope, not_available
from harness.judging.refusal import Refusals
from harness.records import QARecord, SessionRecord
from harness.samples import (
    AnswerKind,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    PointKind,
    Question,
    Sample,
)

#: Counts up whenever a verdict could change.
VERSION = 2

NO_DELTA = "the system reports no delta"
NO_SNAPSHOT = "the system cannot list its store"
PART_SNAPSHOT = "the system lists only part of its store; absence cannot be shown"
NO_ITEMS = "no items were added or updated"
NO_KEYS = "the data carry no keys"

Item = Mapping[str, Any]


@dataclass(frozen=True)
class _Point:
    gold: GoldPoint
    must: match.KeySet
    gone: match.KeySet
    position: int


@dataclass
class _SampleKeys:
    """One sample's gold, compiled. ``sample`` is held so that its id stays taken."""

    sample: Sample
    points: list[_Point] = field(default_factory=list)
    by_id: dict[str, _Point] = field(default_factory=dict)
    by_session: dict[str, list[_Point]] = field(default_factory=dict)
    keyed_facts: bool = False
    keyed_questions: bool = False


def _compile(sample: Sample) -> _SampleKeys:
    made = _SampleKeys(sample)
    position = {session.id: session.position for session in sample.sessions}
    for gold in sample.points:
        keys = gold.keys
        point = _Point(
            gold=gold,
            must=match.compile_keys(keys.must) if keys else match.NO_KEYS,
            gone=match.compile_keys(keys.gone) if keys else match.NO_KEYS,
            # A point of no session of the sample (S00) was there before all of them.
            position=position.get(gold.session_id, -1),
        )
        made.points.append(point)
        made.by_id[gold.id] = point
        made.by_session.setdefault(gold.session_id, []).append(point)
        made.keyed_facts |= bool(point.must) and gold.kind is not PointKind.INTERFERENCE
    asked = [q for checkpoint in sample.checkpoints for q in checkpoint.questions]
    others = [q for q in asked if q.answer_kind is not AnswerKind.REFUSAL]
    # Questions that have a refusal for an answer need no keys; alone they are keyed data.
    made.keyed_questions = not others or any(q.keys is not None for q in asked)
    return made


class KeyedJudge:
    """Holds the compiled keys of the few samples that are being judged now."""

    _KEPT = 4

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._compiled: OrderedDict[int, _SampleKeys] = OrderedDict()
        self._lock = threading.Lock()

    def _keys(self, sample: Sample) -> _SampleKeys:
        with self._lock:
            found = self._compiled.get(id(sample))
            if found is None:
                found = self._compiled[id(sample)] = _compile(sample)
                while len(self._compiled) > self._KEPT:
                    self._compiled.popitem(last=False)
            return found

    # -- sessions ---------------------------------------------------------------------------

    def session(
        self,
        sample: Sample,
        record: SessionRecord,
        snapshot: Sequence[Item] | None,
        scope: Scope,
    ) -> JSONObject:
        """See the module's docstring; ``snapshot`` is the store after the session."""
        keys = self._keys(sample)
        here = keys.by_session.get(record.session_id, ())
        points = [p for p in here if p.must]
        missing = [p for p in here if not p.must]
        failed = not record.status.has_result
        findings: list[JSONObject] = []
        delta = () if failed and scope.delta else record.delta
        stored = () if failed and scope.snapshot == "full" else snapshot
        result = self._recall(points, missing, delta, findings)
        result["correctness"], items = self._correctness(keys, record, delta)
        if scope.snapshot == "top-k":
            result |= dict.fromkeys(("update", "interference"), not_available(PART_SNAPSHOT))
        else:
            result |= _on_snapshot(here, stored, failed, findings)
        result["points"], result["items"] = findings, items
        if missing:
            result["unkeyed"] = len(missing)
        return result

    def _recall(
        self,
        points: Sequence[_Point],
        missing: Sequence[_Point],
        delta: Sequence[Item] | None,
        findings: list[JSONObject],
    ) -> JSONObject:
        if delta is None:
            return {name: not_available(NO_DELTA) for name in ("recall", "update_recall")}
        changed = _changed(delta)
        counts = {"recall": [0, 0], "update_recall": [0, 0]}
        for point in points:
            if point.gold.kind is PointKind.INTERFERENCE:
                continue
            carrier = _carrier(point.must, changed)
            names = ["recall"]
            if point.gold.kind is PointKind.UPDATE:
                names.append("update_recall")
            for name in names:
                counts[name][0] += 1
                counts[name][1] += carrier is not None
            findings.append({"id": point.gold.id, "check": "recall", "in": carrier})
        unkeyed = {p.gold.kind for p in missing}
        lacking = {
            "recall": unkeyed - {PointKind.INTERFERENCE},
            "update_recall": unkeyed & {PointKind.UPDATE},
        }
        return {
            name: _share(pair, NO_KEYS if lacking[name] else "no gold points of this kind")
            for name, pair in counts.items()
        }

    def _correctness(
        self, keys: _SampleKeys, record: SessionRecord, delta: Sequence[Item] | None
    ) -> tuple[Block, list[JSONObject]]:
        if delta is None:
            return not_available(NO_DELTA), []
        if not keys.keyed_facts:
            return not_available(NO_KEYS), []
        if not record.status.has_result:
            # Nothing to look at; where there was something to store, strict counts it as wrong.
            here = keys.by_session.get(record.session_id, ())
            if any(p.must and p.gold.kind is not PointKind.INTERFERENCE for p in here):
                return {"total": 1, "supported": 0, "failed": True}, []
            return not_available(NO_ITEMS), []
        known = [p for p in keys.points if p.must and p.position <= record.position]
        rumours = [p for p in known if p.gold.kind is PointKind.INTERFERENCE]
        facts = [p for p in known if p.gold.kind is not PointKind.INTERFERENCE]
        total, supported, items = 0, 0, []
        for memory_id, text in _changed(delta):
            rumour = _first_carried(rumours, text)
            fact = None if rumour else _first_carried(facts, text)
            total += rumour is None
            supported += fact is not None
            items.append({"memory_id": memory_id, "supports": fact, "interference": rumour})
        if not total:
            return not_available(NO_ITEMS), items
        return {"total": total, "supported": supported, "hallucinated": None}, items

    # -- questions --------------------------------------------------------------------------

    def question(
        self, sample: Sample, question: Question, record: QARecord, scope: Scope
    ) -> JSONObject:
        """See the module's docstring."""
        keys = self._keys(sample)
        return {
            "answer": self._answer(keys, question, record),
            "gold_found": not_available("the keyed judge gives verdicts instead"),
            "evidence": _evidence(keys, question, record, scope),
        }

    def _answer(self, keys: _SampleKeys, question: Question, record: QARecord) -> Block:
        refusal = question.answer_kind is AnswerKind.REFUSAL
        if question.keys is None and not (refusal and keys.keyed_questions):
            return not_available(NO_KEYS)
        if not record.status.has_result:
            return {"total": 1, "verdict": None}
        text = match.folded(record.answer or "")
        forbidden, found = None, None
        if question.keys is not None:
            banned = match.compile_keys(question.keys.forbidden)
            forbidden = next((key.label for key in banned.keys if key.found_in(text)), None)
            for index, alternative in enumerate(question.keys.alternatives):
                if match.all_found(match.compile_keys(alternative), text):
                    found = index
                    break
        correct = found is not None or (refusal and self._refusals.is_refusal(record.answer))
        verdict = "Hallucination" if forbidden else "Correct" if correct else "Omission"
        return {"total": 1, "verdict": verdict, "alternative": found, "forbidden": forbidden}


def _on_snapshot(
    points: Sequence[_Point],
    snapshot: Sequence[Item] | None,
    failed: bool,
    findings: list[JSONObject],
) -> JSONObject:
    if snapshot is None:
        return {name: not_available(NO_SNAPSHOT) for name in ("update", "interference")}
    active = [item for item in snapshot or () if item.get("status", "active") == "active"]
    held = [(str(item["memory_id"]), match.folded(item["text"])) for item in active]
    believed = [pair for pair, item in zip(held, active, strict=True) if not _history(item)]
    verdicts = {"updated": 0, "both": 0, "outdated": 0, "lost": 0, "failed": 0}
    rumours, rejected = 0, 0
    lacking: set[str] = set()
    for point in points:
        rumour, update = point.gold.kind is PointKind.INTERFERENCE, point.gold.in_update_handling
        if not point.must or (update and not point.gone):
            lacking |= {"interference"} if rumour else {"update"} if update else set()
        elif rumour:
            rumours += 1
            carrier = _carrier(point.must, believed)
            rejected += carrier is None and not failed
            findings.append({"id": point.gold.id, "check": "interference", "in": carrier})
        elif update:
            new, old = _carrier(point.must, held), _carrier(point.gone, believed)
            verdict = "failed" if failed else _update_verdict(new, old)
            verdicts[verdict] += 1
            findings.append(
                {"id": point.gold.id, "check": "update", "in": new, "old": old, "is": verdict}
            )
    total = sum(verdicts.values())
    none = {"update": "no updates that name an original", "interference": "no interference points"}
    blocks: dict[str, Block] = {
        "update": {"total": total, **verdicts},
        "interference": {"total": rumours, "rejected": rejected},
    }
    return {
        name: block if block["total"] else not_available(NO_KEYS if name in lacking else none[name])
        for name, block in blocks.items()
    }


def _update_verdict(new: str | None, old: str | None) -> str:
    if new is not None:
        return "both" if old is not None else "updated"
    return "outdated" if old is not None else "lost"


def _evidence(keys: _SampleKeys, question: Question, record: QARecord, scope: Scope) -> Block:
    cited = [
        keys.by_id[evidence.id]
        for evidence in question.evidence
        if evidence.kind is EvidenceKind.POINT
        and evidence.state is EvidenceState.RESOLVED
        and evidence.id in keys.by_id
    ]
    if not cited:
        return not_available("no question cites a gold point")
    cited = [point for point in cited if point.must]
    if not cited:
        return not_available(NO_KEYS)
    items = list(record.retrieved or ()) if record.status.has_result else []
    if not scope.full_context:
        items = items[: scope.top_k]
    texts = [(str(item["memory_id"]), match.folded(item["text"])) for item in items]
    found = [{"id": point.gold.id, "in": _carrier(point.must, texts)} for point in cited]
    covered = sum(1 for entry in found if entry["in"] is not None)
    return {"total": len(found), "covered": covered, "points": found}


def _history(item: Item) -> bool:
    return bool(item.get("embeds_history"))


def _changed(delta: Sequence[Item] | None) -> list[tuple[str, str]]:
    """Memory id and canonical text of the items that were added or updated."""
    return [
        (str(entry["memory_id"]), match.folded(entry["text"]))
        for entry in delta or ()
        if entry["op"] != "delete"
    ]


def _carrier(keys: match.KeySet, items: Sequence[tuple[str, str]]) -> str | None:
    """The id of the first item that carries all keys."""
    needle = keys.needle  # a first look without a call: most items fail it
    for name, text in items:
        if needle in text and match.all_found(keys, text):
            return name
    return None


def _first_carried(points: Sequence[_Point], text: str) -> str | None:
    for point in points:
        if point.must.needle in text and match.all_found(point.must, text):
            return point.gold.id
    return None


def _share(counts: Sequence[int], reason: str) -> Block:
    total, covered = counts
    return {"total": total, "covered": covered} if total else not_available(reason)
