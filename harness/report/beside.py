"""What stands beside the six dimensions: retrieval by source ids, time, context, memory size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Aggregate = Mapping[str, Any]


@dataclass(frozen=True)
class Beside:
    """A small table: heads in two lines, and for each row its name and values."""

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def beside_of(rows: Sequence[Aggregate]) -> Beside | None:
    """The second table of some rows; None where nothing was measured."""
    k = rows[0].get("top_k", 5)
    heads = [
        (f"recall@{k}", "by source"),
        (f"nDCG@{k}", "by source"),
        ("retrieve ms", "p50 / p95"),
        ("in the box", "p50 ms"),
        ("ingest ms", "p50 / p95"),
        ("context", "tokens p50"),
        ("memories", "at the end"),
        ("state", "KiB"),
    ]
    table = [(str(row.get("row", "?")), _values(row, k)) for row in rows]
    used = [place for place in range(len(heads)) if any(v[place] != "—" for _, v in table)]
    if not used:
        return None
    return Beside(
        tuple(heads[place] for place in used),
        tuple((name, tuple(values[place] for place in used)) for name, values in table),
    )


def _values(row: Aggregate, k: Any) -> list[str]:
    measured = row.get("measurements", {})
    times = measured.get("latency_ms", {})
    sizes = measured.get("memory_size") or [{}]
    retrieval = row.get("retrieval", {})
    state = sizes[-1].get("state_bytes_mean")
    return [
        _plain((retrieval.get(f"recall@{k}") or {}).get("value"), 3),
        _plain((retrieval.get(f"ndcg@{k}") or {}).get("value"), 3),
        _pair(times.get("host.retrieve")),
        _plain((times.get("box.retrieve") or {}).get("p50"), 2),
        _pair(times.get("host.ingest")),
        _plain((measured.get("context_tokens") or {}).get("p50"), 0),
        _plain(sizes[-1].get("items_mean"), 0),
        _plain(None if state is None else state / 1024, 0),
    ]


def _plain(value: float | None, decimals: int) -> str:
    return "—" if value is None else f"{value:.{decimals}f}"


def _pair(spread: Mapping[str, Any] | None) -> str:
    if not spread or spread.get("p50") is None:
        return "—"
    return f"{spread['p50']:.1f} / {spread['p95']:.1f}"
