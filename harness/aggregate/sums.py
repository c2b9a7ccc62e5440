"""Sums over streamed record lines: exact, in any order, and mergeable.

Per conversation and number one pair (numerator, denominator), twice: *strict* over all units, a
failed one counting as wrong, and *valid* over units that have a result and come after no failure.
Numerators are integers or fractions, so that neither the order of lines nor the way a run was cut
into shards changes the last digit.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from harness.adapter.text import tokens
from harness.aggregate.dimensions import QUESTION_NUMBERS, SESSION_NUMBERS, Number, values
from harness.judging.sources import ndcg_at
from harness.outcomes import RunError, Status
from harness.records import SCHEMA_VERSION, qa_from_json, session_from_json, to_json

JSONObject = Mapping[str, Any]

#: The token count of contexts, by name: ``harness.adapter.text`` over what is answered from.
CONTEXT_TOKENS = "context_tokens/memrig-text-1"


class Pairs:
    """Numerator and denominator for each conversation."""

    def __init__(self) -> None:
        self.by_conversation: dict[str, tuple[int | Fraction, int]] = {}

    def add(self, conversation: str, numerator: int | Fraction, denominator: int) -> None:
        """Add one unit."""
        y, x = self.by_conversation.get(conversation, (0, 0))
        self.by_conversation[conversation] = (y + numerator, x + denominator)

    def merge(self, other: Pairs) -> None:
        """Add another's sums."""
        for conversation, (y, x) in other.by_conversation.items():
            self.add(conversation, y, x)

    @property
    def denominator(self) -> int:
        """The sum of the denominators."""
        return sum(x for _, x in self.by_conversation.values())

    @property
    def value(self) -> float | None:
        """The number, exact until this division; None without a denominator."""
        total = self.denominator
        if not total:
            return None
        return float(Fraction(sum(y for y, _ in self.by_conversation.values())) / total)

    def lists(self, conversations: Sequence[str]) -> tuple[list[float], list[int]]:
        """Numerators and denominators in the order of ``conversations``; 0, 0 for a missing one."""
        pairs = [self.by_conversation.get(name, (0, 0)) for name in conversations]
        return [float(y) for y, _ in pairs], [x for _, x in pairs]


class Scores:
    """Real-valued scores of units (nDCG), kept so that their sum does not depend on the order."""

    def __init__(self) -> None:
        self.by_conversation: dict[str, array[float]] = {}

    def add(self, conversation: str, score: float) -> None:
        """Add one unit."""
        self.by_conversation.setdefault(conversation, array("d")).append(score)

    def merge(self, other: Scores) -> None:
        """Add another's scores."""
        for conversation, scores in other.by_conversation.items():
            self.by_conversation.setdefault(conversation, array("d")).extend(scores)

    @property
    def denominator(self) -> int:
        """The number of units."""
        return sum(len(scores) for scores in self.by_conversation.values())

    @property
    def value(self) -> float | None:
        """The mean, correctly rounded; None without units."""
        every = [score for scores in self.by_conversation.values() for score in scores]
        return math.fsum(every) / len(every) if every else None

    def lists(self, conversations: Sequence[str]) -> tuple[list[float], list[int]]:
        """As :meth:`Pairs.lists`."""
        found = [self.by_conversation.get(name, ()) for name in conversations]
        return [math.fsum(scores) for scores in found], [len(scores) for scores in found]


class NumberSums:
    """One number: strict and valid sums, and why units had none."""

    def __init__(self, kind: type[Pairs] | type[Scores] = Pairs) -> None:
        self.strict: Any = kind()
        self.valid: Any = kind()
        self.reasons: Counter[str] = Counter()

    def merge(self, other: NumberSums) -> None:
        """Add another's sums."""
        self.strict.merge(other.strict)
        self.valid.merge(other.valid)
        self.reasons.update(other.reasons)

    @property
    def reason(self) -> str:
        """The most frequent reason for having no number; of equally frequent ones the first."""
        ranked = sorted(self.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        return ranked[0][0] if ranked else "nothing was planned"


class Units:
    """What became of the planned units of one kind ("sessions" or "questions")."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.statuses: Counter[str] = Counter()
        self.after_failure = 0
        self.degraded: Counter[str] = Counter()
        self._seen: set[tuple[str, int]] = set()

    def add(self, line: JSONObject, status: Status) -> None:
        """Count one line.

        Raises:
            RunError: the unit has a line already.
        """
        unit = (str(line["sample_id"]), int(line["position"]))
        if unit in self._seen:
            raise RunError(
                f"two records for one of the {self.what}: sample {unit[0]}, position {unit[1]}. "
                "The run directory was written to by something else than memrig."
            )
        self._seen.add(unit)
        self.statuses[status.value] += 1
        self.after_failure += bool(line.get("after_failure"))
        self.degraded.update(line.get("degraded") or ())

    def merge(self, other: Units) -> None:
        """Add another shard's counts; it may hold none of the same units."""
        twice = self._seen & other._seen
        if twice:
            raise RunError(f"{len(twice)} {self.what} are in two shards, such as {min(twice)}")
        self._seen |= other._seen
        self.statuses.update(other.statuses)
        self.after_failure += other.after_failure
        self.degraded.update(other.degraded)

    def prove(self, planned: int) -> None:
        """Planned = sum of statuses, or ``RunError``."""
        found = sum(self.statuses.values())
        if found != planned:
            shown = ", ".join(f"{name} {n}" for name, n in sorted(self.statuses.items())) or "none"
            raise RunError(
                f"{planned} {self.what} were planned and {found} have a record ({shown}). "
                "The run is unfinished (resume it with the same command) or was tampered with "
                "(memrig verify)."
            )


class Accumulator:
    """Everything that the aggregate needs, from lines in any order.

    Args:
        judge: the preset id that every line must have been graded by.
        top_k: the depth that is scored.
        depths: the k of recall@k and nDCG@k.
        whole_context: the row is read whole, whatever the depth (its context is all it returned).
    """

    def __init__(
        self,
        judge: str,
        top_k: int = 5,
        depths: Sequence[int] = (5,),
        *,
        whole_context: bool = False,
    ) -> None:
        self.whole_context = whole_context
        self.judge, self.top_k, self.depths = judge, top_k, tuple(depths)
        self.sessions, self.questions = Units("sessions"), Units("questions")
        every = (*SESSION_NUMBERS, *QUESTION_NUMBERS)
        self.numbers = {number.key: NumberSums() for number in every}
        self.retrieval: dict[str, NumberSums] = {}
        for k in self.depths:
            self.retrieval[f"recall@{k}"] = NumberSums()
            self.retrieval[f"ndcg@{k}"] = NumberSums(Scores)
        self.conversations: set[str] = set()
        self.gold: Counter[str] = Counter()
        self.times: dict[str, array[float]] = {}
        self.context = array("q")
        self.sizes: dict[int, list[int]] = {}

    # -- lines ------------------------------------------------------------------------------

    def add_session(self, line: JSONObject) -> None:
        """Add a line of ``session_records.jsonl``."""
        line = _current(line, session_from_json)
        status, graded = self._graded(line)
        self.sessions.add(line, status)
        self.conversations.add(line["sample_id"])
        kept = "left_out" if status is Status.LEFT_OUT else "planned"
        for kind, count in (graded.get("gold") or {}).items():
            self.gold[f"{kind}_{kept}"] += count
        self._add_numbers(SESSION_NUMBERS, line, status, graded)
        self._add_times(line, status)
        self._add_size(line)

    def add_question(self, line: JSONObject) -> None:
        """Add a line of ``qa_records.jsonl``."""
        line = _current(line, qa_from_json)
        status, graded = self._graded(line)
        self.questions.add(line, status)
        self.conversations.add(line["sample_id"])
        self._add_numbers(QUESTION_NUMBERS, line, status, graded)
        self._add_retrieval(line, status, graded.get("retrieval"))
        self._add_times(line, status)
        if status.has_result and line.get("retrieved") is not None:
            read = line["retrieved"] if self.whole_context else line["retrieved"][: self.top_k]
            texts = (item["text"] for item in read)
            self.context.append(sum(_token_count(text) for text in texts))

    def _graded(self, line: JSONObject) -> tuple[Status, JSONObject]:
        graded = line.get("eval")
        where = f"sample {line['sample_id']}, position {line['position']}"
        if not isinstance(graded, Mapping):
            raise RunError(f"{where} is not judged yet; run: memrig judge RUN")
        if graded.get("judge") != self.judge:
            raise RunError(
                f"{where} was judged by {graded.get('judge')!r}, not by {self.judge!r}; "
                "run: memrig judge RUN"
            )
        return Status(graded.get("status") or line["status"]), graded

    def _add_numbers(
        self, numbers: tuple[Number, ...], line: JSONObject, status: Status, graded: JSONObject
    ) -> None:
        if not (status.has_result or status.is_failure):
            skipped = _why_skipped(line, status)
            for number in numbers:
                self.numbers[number.key].reasons[skipped] += 1
            return
        valid = status.has_result and not line.get("after_failure")
        conversation = line["sample_id"]
        for number, value, reason in values(numbers, graded):
            sums = self.numbers[number.key]
            if value is None:
                sums.reasons[str(reason)] += 1
                continue
            sums.strict.add(conversation, *value)
            if valid:
                sums.valid.add(conversation, *value)

    def _add_retrieval(self, line: JSONObject, status: Status, block: JSONObject | None) -> None:
        counted = status.has_result or status.is_failure
        if not counted or block is None or "na" in block:
            reason = "left out of the run" if not counted else (block or {}).get("na", "not judged")
            for sums in self.retrieval.values():
                sums.reasons[reason] += 1
            return
        valid = status.has_result and not line.get("after_failure")
        first, conversation = block["first"], line["sample_id"]
        for k in self.depths:
            found = sum(1 for rank in first if rank is not None and rank <= k)
            recall, ndcg = self.retrieval[f"recall@{k}"], self.retrieval[f"ndcg@{k}"]
            gain = ndcg_at(first, k)
            for pairs, scores in ((recall.strict, ndcg.strict), (recall.valid, ndcg.valid))[
                : 1 + valid
            ]:
                pairs.add(conversation, Fraction(found, len(first)), 1)
                scores.add(conversation, gain)

    def _add_times(self, line: JSONObject, status: Status) -> None:
        if not status.has_result:
            return
        for prefix, field in (("host", "timings_ms"), ("box", "box_ms")):
            for name, ms in (line.get(field) or {}).items():
                self.times.setdefault(f"{prefix}.{name}", array("d")).append(ms)

    def _add_size(self, line: JSONObject) -> None:
        snapshot = line.get("snapshot")
        if snapshot is None:
            return
        entry = self.sizes.setdefault(int(line["position"]), [0, 0, 0, 0])
        entry[0] += 1
        entry[1] += int(snapshot["count"])
        state = (line.get("box") or {}).get("state_bytes")
        if state is not None:
            entry[2] += 1
            entry[3] += int(state)

    # -- shards -----------------------------------------------------------------------------

    def merge(self, other: Accumulator) -> None:
        """Add another shard.

        Raises:
            RunError: it was judged or scored otherwise, or holds some of the same units.
        """
        if (self.judge, self.top_k, self.depths) != (other.judge, other.top_k, other.depths):
            raise RunError(f"shards differ: judge {self.judge} and {other.judge}, or top k")
        self.sessions.merge(other.sessions)
        self.questions.merge(other.questions)
        for key, sums in other.numbers.items():
            self.numbers[key].merge(sums)
        for key, sums in other.retrieval.items():
            self.retrieval[key].merge(sums)
        self.conversations |= other.conversations
        self.gold.update(other.gold)
        for name, times in other.times.items():
            self.times.setdefault(name, array("d")).extend(times)
        self.context.extend(other.context)
        for position, entry in other.sizes.items():
            mine = self.sizes.setdefault(position, [0, 0, 0, 0])
            self.sizes[position] = [a + b for a, b in zip(mine, entry, strict=True)]


def _current(line: JSONObject, read: Any) -> JSONObject:
    """A line in the current schema; older ones go through the upgrade."""
    if line.get("schema_version", 1) == SCHEMA_VERSION:
        return line
    return {**to_json(read(dict(line))), "eval": line.get("eval")}


def _why_skipped(line: JSONObject, status: Status) -> str:
    if status is not Status.UNSUPPORTED:
        return "left out of the run"
    told = str((line.get("failure") or {}).get("message", "")).strip()
    return f"unsupported: {told.splitlines()[0]}" if told else "unsupported"


_COUNTED_LENGTH = 2000


@lru_cache(maxsize=2048)
def _cached_count(text: str) -> int:
    return len(tokens(text))


def _token_count(text: str) -> int:
    return _cached_count(text) if len(text) <= _COUNTED_LENGTH else len(tokens(text))


__all__ = ["CONTEXT_TOKENS", "Accumulator", "NumberSums", "Pairs", "Scores"]
