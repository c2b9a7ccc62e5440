"""What crosses the pipe, and nothing else.

None of these records has a field for gold, category, evidence, answer or checkpoint: a baseline
cannot be told what it will be graded on. Ids are opaque ordinals (``s0001``, ``S03``, ``S03:7``)
that the host maps back to the data set's own.

Every record turns into plain JSON with :func:`to_wire` and back with :func:`from_wire`, which
refuses unknown and missing fields by name.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, TypeVar

#: States of a stored memory. Only "active" is what the system believes now.
MEMORY_STATUSES = ("active", "superseded", "invalidated")
DELTA_OPS = ("add", "update", "delete")


@dataclass(frozen=True)
class Attachment:
    """An image of a turn or of a question.

    ``data`` is the file in base64 and ``media_type`` its type, both absent when the run gives
    captions only. ``image_id`` is there only where the data set shows it to the reader.
    """

    type: str = "image"
    caption: str | None = None
    image_id: str | None = None
    media_type: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class NormalizedTurn:
    """One turn of a session.

    ``role`` is "user", "assistant", "system" or "tool"; ``name`` the speaker's name if the data
    gives one. ``timestamp`` is the data set's own text; ``time`` the same as ISO 8601 (without a
    zone where the data names none), or absent when it could not be read.
    """

    sample_id: str
    session_id: str
    turn_index: int
    role: str
    text: str
    name: str | None = None
    timestamp: str | None = None
    time: str | None = None
    attachments: tuple[Attachment, ...] = ()

    @property
    def turn_id(self) -> str:
        """The id to give as a source of a memory: ``S03:7``."""
        return f"{self.session_id}:{self.turn_index}"


@dataclass(frozen=True)
class Query:
    """A question, as a system may see it. ``time`` is the ISO 8601 moment at which it is asked."""

    text: str
    time: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class MemorySnapshotRecord:
    """One stored memory.

    ``sources`` are turn ids (``S03:7``) or session ids it came from, where the system knows them.
    ``kind`` is "text" or "triple".
    """

    memory_id: str
    text: str
    status: str = "active"
    session_id: str | None = None
    sources: tuple[str, ...] = ()
    kind: str = "text"

    def __post_init__(self) -> None:
        if self.status not in MEMORY_STATUSES:
            raise ValueError(f"status {self.status!r} is none of {MEMORY_STATUSES}")


@dataclass(frozen=True)
class MemoryDeltaRecord:
    """One change of the store during a session: what was added, updated or deleted.

    ``text`` is the text after the change ("" for a delete), ``previous_text`` the one before.
    """

    op: str
    memory_id: str
    text: str
    previous_text: str | None = None
    session_id: str | None = None
    sources: tuple[str, ...] = ()
    kind: str = "text"

    def __post_init__(self) -> None:
        if self.op not in DELTA_OPS:
            raise ValueError(f"op {self.op!r} is none of {DELTA_OPS}")


@dataclass(frozen=True)
class RetrievedItem:
    """One memory that the system returned for a query, best first.

    ``embeds_history`` says that the text also holds superseded values, so that an outdated fact
    found in it is not counted as believed.
    """

    memory_id: str
    text: str
    score: float | None = None
    sources: tuple[str, ...] = ()
    status: str = "active"
    kind: str = "text"
    embeds_history: bool = False

    def __post_init__(self) -> None:
        if self.status not in MEMORY_STATUSES:
            raise ValueError(f"status {self.status!r} is none of {MEMORY_STATUSES}")


@dataclass(frozen=True)
class RetrievalRecord:
    """What ``retrieve`` returns: items, best first. No items is an answer, not an error."""

    items: tuple[RetrievedItem, ...] = ()


@dataclass(frozen=True)
class Capabilities:
    """What a system can do. What it cannot do becomes N/A with a reason in the table, never 0."""

    snapshot: str = "full"  # full | top-k | none
    delta_source: str = "snapshot_difference"  # native | log | snapshot_difference | none
    update_semantics: str = "append"  # append | update | supersede | rewrite | none
    images: str = "none"  # none | caption | file
    speakers: str = "text_only"  # native | text_only | none
    time: str = "text_only"  # native | store_only | text_only | none
    scores: bool = False
    provenance: bool = False
    unit: str = "turn"  # turn | round | session
    retrieve_mutates: bool = False
    temperature_controllable: bool = False
    full_context: bool = False  # retrieve ignores top_k by design and returns all it has
    runs_model_output: bool = False
    degraded_lanes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # of: chat, embeddings, vision
    available: bool = True
    unavailable_reason: str | None = None
    notes: tuple[str, ...] = field(default=())


_ALLOWED = {
    "snapshot": ("full", "top-k", "none"),
    "delta_source": ("native", "log", "snapshot_difference", "none"),
    "update_semantics": ("append", "update", "supersede", "rewrite", "none"),
    "images": ("none", "caption", "file"),
    "speakers": ("native", "text_only", "none"),
    "time": ("native", "store_only", "text_only", "none"),
    "unit": ("turn", "round", "session"),
}


def capabilities_from(value: dict[str, Any]) -> Capabilities:
    """Read what ``get_capabilities`` returned; an unknown name or value is a ``ValueError``."""
    capabilities = from_wire(Capabilities, value)
    for name, allowed in _ALLOWED.items():
        if getattr(capabilities, name) not in allowed:
            raise ValueError(f"capability {name} is {getattr(capabilities, name)!r}, not {allowed}")
    return capabilities


Record = TypeVar("Record")


#: What :func:`_annotations` found, by class: a store of a thousand memories crosses the pipe after
#: every session.
_KNOWN: dict[Any, dict[str, str] | None] = {}


def _annotations(cls: Any) -> dict[str, str] | None:
    """Field name -> annotation of a record class; ``None`` for any other class."""
    try:
        return _KNOWN[cls]
    except KeyError:
        names = None
        if dataclasses.is_dataclass(cls):
            names = {entry.name: str(entry.type) for entry in dataclasses.fields(cls)}
        return _KNOWN.setdefault(cls, names)


def to_wire(record: Any) -> Any:
    """Turn a record into plain JSON values; absent (``None``) fields are left out."""
    cls = type(record)
    if cls is str or record is None:
        return record
    if isinstance(record, (list, tuple)):
        return [to_wire(value) for value in record]
    names = _annotations(cls)
    if names is None:
        return record
    wire = {}
    for name in names:
        value = getattr(record, name)
        if value is not None:
            wire[name] = value if type(value) is str else to_wire(value)
    return wire


def from_wire(cls: type[Record], value: Any) -> Record:
    """Build a record of type ``cls`` from plain JSON.

    Raises:
        ValueError: for a value that is no object, an unknown or missing field, or a wrong type.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{cls.__name__}: expected an object, got {type(value).__name__}")
    annotations = _annotations(cls)
    if annotations is None:
        raise TypeError(f"{cls.__name__} is no record")
    made = {}
    for name, raw in value.items():
        annotation = annotations.get(name)
        if annotation is None:
            raise ValueError(f"{cls.__name__}: unknown field {name!r}")
        if annotation == "str" and type(raw) is str:  # the most frequent case, told apart first
            made[name] = raw
        else:
            made[name] = _field_from_wire(cls.__name__, name, annotation, raw)
    try:
        return cls(**made)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


#: Annotation text -> (accepted JSON types, element record). Annotations are text because of the
#: ``annotations`` future import, which keeps this file readable on Python 3.9.
_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "float | None": (float, int, type(None)),
    "bool": (bool,),
}


def _field_from_wire(owner: str, name: str, annotation: str, raw: Any) -> Any:
    if annotation in _SCALARS:
        accepted = _SCALARS[annotation]
        if not isinstance(raw, accepted) or (isinstance(raw, bool) and bool not in accepted):
            raise ValueError(f"{owner}.{name}: {type(raw).__name__} is not {annotation}")
        return raw
    if not isinstance(raw, (list, tuple)):
        raise ValueError(f"{owner}.{name}: expected a list, got {type(raw).__name__}")
    element = annotation[len("tuple[") : -len(", ...]")]
    if element == "str":
        if not all(isinstance(entry, str) for entry in raw):
            raise ValueError(f"{owner}.{name}: every entry must be text")
        return tuple(raw)
    return tuple(from_wire(_NESTED[element], entry) for entry in raw)


_NESTED: dict[str, type] = {"Attachment": Attachment, "RetrievedItem": RetrievedItem}
