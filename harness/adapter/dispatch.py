"""From a method's name and plain JSON to the adapter and back.

The same code serves containers, virtual environments and adapters inside the host's own process,
so that all of them behave alike. Every exception of an adapter becomes a :class:`CallFailed` with a
kind; nothing is swallowed and nothing becomes an empty answer.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from . import records, wire
from .contract import AdapterError, MemoryAdapter
from .meter import Meter

#: Bound before an adapter is imported, for there are libraries that put others in its place.
_now = time.perf_counter


class CallFailed(Exception):
    """An adapter call failed; carries what the wire says about it."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure


class InvalidParams(ValueError):
    """The host sent parameters that the method does not take."""


@dataclass(frozen=True)
class Seeding:
    """How a box seeds itself anew: ``seed_of(sample)`` is a sample's seed, ``apply`` sets it."""

    sample: str
    seed_of: Callable[[str], int]
    apply: Callable[[int], None]


class Clock(Protocol):
    """What moves the box's clock; :class:`harness.adapter.clock.SessionClock` does."""

    def set(self, moment: str | None) -> None:
        """Go to a moment in ISO 8601, or stay where there is none."""

    def real(self) -> None:
        """Go back to the real time."""


class Answer(NamedTuple):
    """A method's value, as plain JSON, and what was measured."""

    value: Any
    meta: dict[str, Any]


class Dispatcher:
    """Calls one adapter by the names of its methods on the wire.

    Args:
        adapter: the memory system.
        meter: measures memory, kills and state; without one ``meta`` holds zeros for them.
        pending_calls: how many of the box's model calls are open now.
        seeding: given where the box's random generators are its own; they start anew at ``reset``,
            which may name another sample (``{"sample": "s0002"}``).
        clock: given where the box's clock follows the turns and the questions. Until the first
            of a sample that has a date it is real.
        take_degraded: why the call that ends now was degraded, by what happened beside it.
    """

    def __init__(
        self,
        adapter: MemoryAdapter,
        *,
        meter: Meter | None = None,
        pending_calls: Callable[[], int] = lambda: 0,
        seeding: Seeding | None = None,
        clock: Clock | None = None,
        take_degraded: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.adapter = adapter
        self._meter = meter or Meter(None)
        self._pending_calls = pending_calls
        self._seeding = seeding
        self._clock = clock
        self._take_degraded = take_degraded
        self._accepted: list[records.NormalizedTurn] = []
        self._methods: dict[str, Callable[[dict[str, Any]], Any]] = {
            "reset": self._reset,
            "ingest_turns": self._ingest_turns,
            "end_session": self._end_session,
            "export_memory_delta": self._export_memory_delta,
            "snapshot_memories": self._snapshot_memories,
            "retrieve": self._retrieve,
            "get_capabilities": self._get_capabilities,
        }

    def call(self, method: str, params: dict[str, Any], call_id: int = 0) -> Answer:
        """Make one call.

        Raises:
            CallFailed: whatever went wrong, typed.
        """
        run = self._methods.get(method)
        if run is None:
            message = f"unknown method {method!r}"
            raise CallFailed(
                wire.Failure(call_id, wire.METHOD_NOT_FOUND, message, kind="UNSUPPORTED")
            )
        started = _now()
        try:
            value = run(params)
        except BaseException as error:
            self._take_degraded()  # of this call, which has failed; not of the next one
            raise CallFailed(describe(error, call_id)) from error
        ms = (_now() - started) * 1000
        degraded = self._take_degraded()
        if method in ("end_session", "snapshot_memories"):
            self._meter.measure_state(nameless=False)
        meta = self.meta(ms)
        if degraded:
            meta["degraded"] = list(degraded)
        return Answer(value, meta)

    def meta(self, ms: float = 0.0) -> dict[str, Any]:
        """What every result carries beside its value."""
        return {
            "ms": round(ms, 3) if math.isfinite(ms) else 0.0,
            "rss": self._meter.rss(),
            "oom_kills": self._meter.oom_kills(),
            "state_bytes": self._meter.state_bytes,
            "pending_calls": self._pending_calls(),
        }

    def _reset(self, params: dict[str, Any]) -> dict[str, Any]:
        _take(params, optional={"sample": str})
        if self._seeding is not None:
            sample = params.get("sample", self._seeding.sample)
            seed = self._seeding.seed_of(sample)
            self._seeding.apply(seed)
            self.adapter.setup = replace(self.adapter.setup, seed=seed)
        self._accepted = []
        if self._clock is not None:
            self._clock.real()
        self.adapter.reset()
        self.adapter.forget_difference()
        return {}

    def _ingest_turns(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take a session's turns in order.

        When one fails, those before it are stored already. The same batch sent once more goes on
        at the turn that failed, which makes ``retry_safe`` true of the batch if it is of the turn.
        """
        _take(params, turns=list)
        turns = [_record(records.NormalizedTurn, raw) for raw in params["turns"]]
        done = len(self._accepted)
        if turns[:done] != self._accepted:
            done = 0
        self._accepted = turns[:done]
        for turn in turns[done:]:
            self._set_clock(turn.time)
            self.adapter.ingest_turn(turn)
            self._accepted.append(turn)
        self._accepted = []
        return {"accepted": len(turns)}

    def _end_session(self, params: dict[str, Any]) -> dict[str, Any]:
        _take(params, session_id=str)
        self._accepted = []
        self.adapter.end_session(params["session_id"])
        return {}

    def _export_memory_delta(self, params: dict[str, Any]) -> Any:
        _take(params, session_id=str)
        delta = self.adapter.export_memory_delta(params["session_id"])
        return _outgoing_list(records.MemoryDeltaRecord, delta)

    def _snapshot_memories(self, params: dict[str, Any]) -> Any:
        _take(params)
        return _outgoing_list(records.MemorySnapshotRecord, self.adapter.snapshot_memories())

    def _retrieve(self, params: dict[str, Any]) -> Any:
        _take(params, query=dict, top_k=int)
        if params["top_k"] < 1:
            raise InvalidParams(f"top_k is {params['top_k']}, not at least 1")
        query = _record(records.Query, params["query"])
        self._set_clock(query.time)
        found = self.adapter.retrieve(query, params["top_k"])
        if not isinstance(found, records.RetrievalRecord):
            raise _wrong_type("retrieve", "a RetrievalRecord", found)
        return {"items": _outgoing_list(records.RetrievedItem, found.items)}

    def _set_clock(self, moment: str | None) -> None:
        if self._clock is None:
            return
        try:
            self._clock.set(moment)
        except ValueError as error:
            raise InvalidParams(f"{moment!r} is no moment: {error}") from None

    def _get_capabilities(self, params: dict[str, Any]) -> Any:
        _take(params)
        return capabilities_of(self.adapter)


def capabilities_of(adapter: MemoryAdapter) -> dict[str, Any]:
    """All capabilities of an adapter as plain JSON, defaults filled in.

    Raises:
        AdapterError: the adapter names something that is no capability.
    """
    given = adapter.get_capabilities()
    try:
        whole: dict[str, Any] = records.to_wire(records.capabilities_from(given))
    except ValueError as error:
        raise AdapterError("BASELINE_ERROR", f"get_capabilities: {error}") from error
    return whole


def describe(error: BaseException, call_id: int = 0) -> wire.Failure:
    """The typed form of any exception. One without a type of its own is a BASELINE_ERROR."""
    if isinstance(error, InvalidParams):
        message = f"invalid params: {error}"
        return wire.Failure(call_id, wire.INVALID_PARAMS, message, kind="BASELINE_ERROR")
    trace = _printable(_trace(error))
    if isinstance(error, AdapterError):
        return wire.Failure(
            call_id,
            wire.ADAPTER_FAILED,
            _printable(error.message),
            kind=error.kind,
            retry_safe=error.retry_safe,
            cause=None if error.cause is None else _printable(error.cause),
            traceback=trace,
        )
    message = _printable(f"{type(error).__name__}: {_text(error)}")
    return wire.Failure(
        call_id, wire.ADAPTER_FAILED, message, kind="BASELINE_ERROR", traceback=trace
    )


#: A traceback of a deep recursion or of a message with a whole document in it is cut to this.
_MAX_TEXT = 64 * 1024


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception as broken:  # it asks the error for its text and its notes
        return f"{type(error).__name__}; no traceback, for that raised {type(broken).__name__}\n"


def _text(value: object) -> str:
    """``str`` of what an adapter raised, whose ``__str__`` is an adapter's code too."""
    try:
        return str(value)
    except Exception as broken:
        return f"(its text cannot be had: __str__ raised {type(broken).__name__})"


def _printable(text: object) -> str:
    """Text of an error that always fits on the wire; both ends of a long one are kept."""
    text = _text(text).encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= _MAX_TEXT:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"


def _take(
    params: dict[str, Any], optional: dict[str, type] | None = None, **required: type
) -> None:
    """Check that the parameters are the named ones and of their types."""
    known = {**required, **(optional or {})}
    for name in required:
        if name not in params:
            raise InvalidParams(f"{name} is missing")
    for name, value in params.items():
        if name not in known:
            raise InvalidParams(f"unknown parameter {name!r}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise InvalidParams(f"{name}: {type(value).__name__} is not {known[name].__name__}")


def _record(cls: type[records.Record], raw: Any) -> records.Record:
    try:
        return records.from_wire(cls, raw)
    except ValueError as error:
        raise InvalidParams(str(error)) from None


def _wrong_type(method: str, expected: str, got: Any) -> AdapterError:
    return AdapterError("BASELINE_ERROR", f"{method} returned {type(got).__name__}, not {expected}")


def _outgoing_list(cls: type, entries: Any) -> list[dict[str, Any]]:
    if not isinstance(entries, (list, tuple)):
        raise _wrong_type("the adapter", f"a list of {cls.__name__}", entries)
    return [_outgoing(cls, entry) for entry in entries]


def _outgoing(cls: type, entry: Any) -> dict[str, Any]:
    """Turn a record of the adapter into plain JSON.

    Wrong types are refused here, where the message can name the field and the box lives on.
    """
    if type(entry) is not cls:
        raise _wrong_type("the adapter", cls.__name__, entry)
    made: dict[str, Any] = {}
    for name, accepted in _fields(cls):
        value = getattr(entry, name)
        if value is None and accepted is not None and type(None) in accepted:
            continue
        if accepted is not None:
            made[name] = _scalar(cls, name, value, accepted)
        elif isinstance(value, (tuple, list)):
            made[name] = [_scalar(cls, name, element, (str,)) for element in value]
        else:
            raise _bad_field(cls, name, value)
    return made


def _scalar(cls: type, name: str, value: Any, accepted: tuple[type, ...]) -> Any:
    """The value as one of JSON's own types; a subclass (numpy's float64) becomes its base."""
    if type(value) not in accepted:
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise _bad_field(cls, name, value)
        value = next(base for base in accepted if isinstance(value, base))(value)
    if type(value) is float and not math.isfinite(value):
        raise _bad_field(cls, name, value)
    if type(value) is str and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _bad_field(cls, name, value) from None
    return value


def _bad_field(cls: type, name: str, value: Any) -> AdapterError:
    message = f"{cls.__name__}.{name} cannot be {type(value).__name__} {str(value)[:80]!r}"
    return AdapterError("BASELINE_ERROR", message)


def _fields(cls: type) -> tuple[tuple[str, tuple[type, ...] | None], ...]:
    """Field names of a record with the types JSON takes; ``None`` stands for a list of texts."""
    if cls not in _FIELDS:
        _FIELDS[cls] = tuple(
            (name, records._SCALARS.get(str(annotation)))
            for name, annotation in cls.__annotations__.items()
        )
    return _FIELDS[cls]


_FIELDS: dict[type, tuple[tuple[str, tuple[type, ...] | None], ...]] = {}
