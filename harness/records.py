"""The lines of a run's stage files. One line is one planned unit of work with one final status.

``pipeline_sessions.jsonl`` holds :class:`SessionRecord`, ``pipeline_qa.jsonl`` :class:`QARecord`;
``session_records.jsonl`` and ``qa_records.jsonl`` hold the same with an ``eval`` object beside.
Ids are the data set's own. Numbers of milliseconds are floats. A reader accepts every schema
version up to :data:`SCHEMA_VERSION` and upgrades it with pure functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.outcomes import Status

SCHEMA_VERSION = 1

JSONObject = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why a unit did not end ``ok``. ``kind`` is a key of ``outcomes.POLICIES``."""

    kind: str
    message: str
    call: str | None = None
    cause: str | None = None
    log: str | None = None  # relative to the run directory


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot as the difference to the one before it, in one sample.

    ``sha256`` is over the canonical JSON of the whole snapshot, ``count`` its length. ``changed``
    are the wire records that are new or differ, ``removed`` ids that are gone, ``order`` the ids in
    order when the order is not "survivors, then new ones". ``items`` is the whole snapshot, at
    checkpoints only.
    """

    count: int
    sha256: str
    changed: tuple[JSONObject, ...] = ()
    removed: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None
    items: tuple[JSONObject, ...] | None = None


@dataclass(frozen=True)
class SessionRecord:
    """One session of one sample, fed and looked at.

    ``position`` is the session's place in the sample, from 0. ``delta`` are wire delta records;
    absent (``None``) where the system has none to give or the call failed. ``after_failure``: an
    earlier session of this sample failed. ``timings_ms``: ingest, end_session, delta, snapshot
    (host side); ``box_ms`` the same inside the adapter. ``box`` is the last reply's meta.
    """

    sample_id: str
    session_id: str
    position: int
    status: Status
    turns_sent: int = 0
    turns_empty: int = 0
    delta: tuple[JSONObject, ...] | None = None
    snapshot: SnapshotRecord | None = None
    failure: Failure | None = None
    degraded: tuple[str, ...] = ()
    after_failure: bool = False
    attempt: int = 1
    timings_ms: dict[str, float] = field(default_factory=dict)
    box_ms: dict[str, float] = field(default_factory=dict)
    box: JSONObject = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class QARecord:
    """One question, asked once.

    ``position`` counts the sample's questions from 0 in the order they are asked. ``retrieved`` are
    wire items at the largest k; ``answer`` the text given; ``answer_from`` the 0-based rank of the
    item it was taken from, where the answerer can say.
    """

    sample_id: str
    checkpoint_id: str
    session_id: str
    question_id: str
    position: int
    status: Status
    question: str = ""
    retrieved: tuple[JSONObject, ...] | None = None
    top_k: int = 0
    answer: str | None = None
    answer_from: int | None = None
    failure: Failure | None = None
    degraded: tuple[str, ...] = ()
    after_failure: bool = False
    attempt: int = 1
    timings_ms: dict[str, float] = field(default_factory=dict)
    box_ms: dict[str, float] = field(default_factory=dict)
    box: JSONObject = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


#: Fields that two equal runs may differ in (DESIGN 7): times, attempts, measurements, log paths.
VOLATILE = frozenset({"timings_ms", "box_ms", "box", "attempt", "log"})


def to_json(record: SessionRecord | QARecord) -> JSONObject:
    """Plain JSON of a record, all fields in order, absent ones as null.

    Shares the wire records inside with the record (``dataclasses.asdict`` would copy a whole store
    for every question): the result is for writing, not for changing.
    """
    data = _shallow(record)
    for name in ("snapshot", "failure"):
        part = data.get(name)
        if part is not None:
            data[name] = _shallow(part)
    return data


def _shallow(record: Any) -> JSONObject:
    return {entry.name: getattr(record, entry.name) for entry in dataclasses.fields(record)}


def session_from_json(line: JSONObject) -> SessionRecord:
    """Read a line of ``pipeline_sessions.jsonl`` (an ``eval`` object beside it is ignored)."""
    data = _upgraded(line)
    snapshot = data.get("snapshot")
    data["snapshot"] = SnapshotRecord(**_tuples(snapshot)) if snapshot else None
    return SessionRecord(**_common(data))


def qa_from_json(line: JSONObject) -> QARecord:
    """Read a line of ``pipeline_qa.jsonl`` (an ``eval`` object beside it is ignored)."""
    return QARecord(**_common(_upgraded(line)))


#: From version n to n + 1. Pure: they return a new object.
UPGRADES: dict[int, Callable[[JSONObject], JSONObject]] = {}


def _upgraded(line: JSONObject) -> JSONObject:
    data = dict(line)
    data.pop("eval", None)
    version = data.get("schema_version", 1)
    if version > SCHEMA_VERSION:
        raise ValueError(f"record of schema version {version}; this memrig reads {SCHEMA_VERSION}")
    while version < SCHEMA_VERSION:
        data = UPGRADES[version](data)
        version += 1
    data["schema_version"] = SCHEMA_VERSION
    return data


def _common(data: JSONObject) -> JSONObject:
    data = _tuples(data)
    data["status"] = Status(data["status"])
    failure = data.get("failure")
    data["failure"] = Failure(**failure) if failure else None
    return data


def _tuples(data: JSONObject) -> JSONObject:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
