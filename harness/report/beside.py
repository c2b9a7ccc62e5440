"""What stands beside the six dimensions: retrieval by source ids, time, context, memory size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.names import MEASURED

Aggregate = Mapping[str, Any]

#: As the records of such a row say it: one reason, one footnote.
HOST_SIDE = "unsupported: host-side reference row"
NO_CALLS = "no such call of this row succeeded"
NO_STORE = "the system cannot list its store"
NO_STATE = "its sandbox did not tell the size of the state folder"

#: Written as a footnote's sign: the number of a reason.
Sign = Callable[[str], str]
#: A value ready to be drawn, or None and why.
Value = tuple[str | None, str]


@dataclass(frozen=True)
class Beside:
    """A small table: heads in two lines, and for each row its values (``—³`` where N/A)."""

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    #: The names under which :mod:`harness.report.names` explains the columns.
    keys: tuple[str, ...] = ()


def beside_of(rows: Sequence[Aggregate], sign: Sign) -> Beside | None:
    """The second table of some rows; None where nothing was measured."""
    k = rows[0].get("top_k", 5)
    columns = {
        f"recall@{k}": (f"recall@{k}", "by source"),
        f"ndcg@{k}": (f"nDCG@{k}", "by source"),
        **{key: heads for key, (heads, *_) in MEASURED.items() if key != "degraded"},
    }
    table = [_values(row, k) for row in rows]
    used = [place for place in range(len(columns)) if any(v[place][0] is not None for v in table)]
    if not used:
        return None
    drawn = (
        tuple(
            text if (text := values[place][0]) is not None else sign(values[place][1])
            for place in used
        )
        for values in table
    )
    return Beside(
        tuple(list(columns.values())[place] for place in used),
        tuple(drawn),
        tuple(list(columns)[place] for place in used),
    )


def _values(row: Aggregate, k: Any) -> list[Value]:
    measured = row.get("measurements", {})
    times = measured.get("latency_ms", {})
    sizes = measured.get("memory_size") or [{}]
    state = sizes[-1].get("state_bytes_mean")
    host = HOST_SIDE if row.get("reference") else None
    called = host or NO_CALLS
    return [
        _retrieval(row, f"recall@{k}"),
        _retrieval(row, f"ndcg@{k}"),
        (_pair(times.get("host.retrieve")), called),
        (_plain((times.get("box.retrieve") or {}).get("p50"), 2), called),
        (_pair(times.get("host.ingest")), called),
        (_plain((measured.get("context_tokens") or {}).get("p50"), 0), called),
        (_plain(sizes[-1].get("items_mean"), 0), host or NO_STORE),
        (_kib(state), host or (NO_STATE if measured.get("memory_size") else NO_STORE)),
    ]


def _retrieval(row: Aggregate, key: str) -> Value:
    cell = row.get("retrieval", {}).get(key) or {}
    why = HOST_SIDE if row.get("reference") else str(cell.get("na") or "not measured")
    return _plain(cell.get("value"), 3), why


def _kib(state: float | None) -> str | None:
    """Below half a KiB, but not nothing, must not look like nothing."""
    if state is None:
        return None
    return "<1" if 0 < state < 512 else f"{state / 1024:.0f}"


def _plain(value: float | None, decimals: int) -> str | None:
    return None if value is None else f"{value:.{decimals}f}"


def _pair(spread: Mapping[str, Any] | None) -> str | None:
    if not spread or spread.get("p50") is None:
        return None
    return f"{spread['p50']:.1f} / {spread['p95']:.1f}"
