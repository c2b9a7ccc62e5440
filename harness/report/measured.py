"""What was measured rather than judged, down to the records: times, tokens, sizes, failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.adapter.text import tokens
from harness.outcomes import Status
from harness.report.names import Name

Line = Mapping[str, Any]
Aggregate = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """A measurement: what it says, its summary, and its records, the largest first."""

    key: str
    head: str
    about: str
    summary: tuple[str, ...]
    unit: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Record:
    """One record's value, and what is known besides."""

    sample_id: str
    where: str
    value: float
    told: str = ""


def measured(
    name: Name, aggregate: Aggregate, sessions: Iterable[Line], questions: Iterable[Line]
) -> Measured:
    """Trace a measurement to its records."""
    summary, unit, records = _SOURCES[name.key](aggregate, sessions, questions)
    ordered = sorted(records, key=lambda record: -record.value)
    return Measured(name.key, name.head, name.about, tuple(summary), unit, tuple(ordered))


_Found = tuple[list[str], str, Iterator[Record]]


def _spread(found: Mapping[str, Any] | None) -> list[str]:
    if not found or found.get("p50") is None:
        return ["N/A: no record has it"]
    return [
        f"p50 {found['p50']:.4g}, p95 {found['p95']:.4g}, mean {found['mean']:.4g}, n {found['n']}"
    ]


def _times(prefix: str, call: str, field: str) -> Any:
    def found(aggregate: Aggregate, sessions: Iterable[Line], questions: Iterable[Line]) -> _Found:
        lines = questions if call == "retrieve" else sessions
        spread = aggregate["measurements"]["latency_ms"].get(f"{prefix}.{call}")
        records = (
            _record(line, line[field][call])
            for line in lines
            if Status(line["status"]).has_result and (line.get(field) or {}).get(call) is not None
        )
        return _spread(spread), "ms", records

    return found


def _context(aggregate: Aggregate, _sessions: Iterable[Line], questions: Iterable[Line]) -> _Found:
    top = None if aggregate.get("full_context") else int(aggregate["top_k"])
    records = (
        _record(line, sum(len(tokens(item["text"])) for item in line["retrieved"][:top]))
        for line in questions
        if Status(line["status"]).has_result and line.get("retrieved") is not None
    )
    spread = aggregate["measurements"]["context_tokens"]
    return [f"{spread['metric_id']}", *_spread(spread)], "tokens", records


def _last(sessions: Iterable[Line]) -> Iterator[Line]:
    """The last listing of every sample."""
    last: dict[str, Line] = {}
    for line in sessions:
        if line.get("snapshot") is not None:
            last[line["sample_id"]] = line
    yield from last.values()


def _growth(aggregate: Aggregate, field: str, scale: float) -> list[str]:
    steps = aggregate["measurements"]["memory_size"]
    told = [
        f"{step['position'] + 1}: {step[field] / scale:.4g}"
        for step in steps
        if step[field] is not None
    ]
    return [f"mean after session {', '.join(told)}"] if told else ["N/A: no record has it"]


def _memories(aggregate: Aggregate, sessions: Iterable[Line], _questions: Iterable[Line]) -> _Found:
    records = (_record(line, line["snapshot"]["count"]) for line in _last(sessions))
    return _growth(aggregate, "items_mean", 1), "memories", records


def _state(aggregate: Aggregate, sessions: Iterable[Line], _questions: Iterable[Line]) -> _Found:
    records = (
        _record(line, line["box"]["state_bytes"] / 1024)
        for line in _last(sessions)
        if (line.get("box") or {}).get("state_bytes") is not None
    )
    return _growth(aggregate, "state_bytes_mean", 1024), "KiB", records


def _amiss(aggregate: Aggregate, sessions: Iterable[Line], questions: Iterable[Line]) -> _Found:
    summary = [
        f"{what}: {', '.join(f'{n} {status}' for status, n in statuses.items())}"
        for what, statuses in aggregate["statuses"].items()
    ]
    reasons = aggregate["degraded"].get("reasons") or {}
    summary += [f"degraded {count} times: {reason}" for reason, count in reasons.items()]

    def records() -> Iterator[Record]:
        for line in (*sessions, *questions):
            status = Status(line["eval"].get("status") or line["status"])
            if status.is_failure or status is Status.DEGRADED:
                failure = line["eval"].get("failure") or line.get("failure")
                why = failure_words(failure) if failure else ", ".join(line.get("degraded") or ())
                yield _record(line, 1 + status.is_failure, f"{status.value}: {why}")

    return summary, "", records()


def failure_words(failure: Mapping[str, Any]) -> str:
    """A failure's kind and the first line of its message."""
    message = str(failure.get("message") or "").strip().splitlines()
    return f"{failure.get('kind')}: {message[0]}" if message else str(failure.get("kind"))


def _record(line: Line, value: float, told: str = "") -> Record:
    where = str(line.get("question_id") or line["session_id"])
    return Record(str(line["sample_id"]), where, float(value), told)


_SOURCES = {
    "retrieve": _times("host", "retrieve", "timings_ms"),
    "box": _times("box", "retrieve", "box_ms"),
    "ingest": _times("host", "ingest", "timings_ms"),
    "context": _context,
    "memories": _memories,
    "state": _state,
    "degraded": _amiss,
}
