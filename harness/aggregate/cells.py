"""From sums to the aggregate: cells with value, n/N, interval or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.aggregate.dimensions import NUMBERS
from harness.aggregate.stats import cluster_t
from harness.aggregate.sums import CONTEXT_TOKENS, Accumulator, NumberSums
from harness.judging import sources
from harness.judging.base import Preset

SCHEMA_VERSION = 1

JSONObject = dict[str, Any]


def build(
    sums: Accumulator, plan: Mapping[str, Any], preset: Preset, heading: Mapping[str, Any]
) -> JSONObject:
    """The aggregate object.

    Raises:
        RunError: planned units and records do not add up.
    """
    sums.sessions.prove(int(plan["sessions"]))
    sums.questions.prove(int(plan["questions"]))
    names = sorted(sums.conversations)
    dimensions: dict[str, JSONObject] = {}
    for number in NUMBERS:
        metric = f"{preset.metrics.get(number.key, number.key)}/{preset.id}"
        made = cell(sums.numbers[number.key], names, metric, number.unit)
        dimensions.setdefault(number.dimension, {})[number.name] = made
    # What returns all it has is read whole: a depth in the name would be a false one.
    depth = "@all" if sums.whole_context else f"@{sums.top_k}"
    evidence = dimensions["evidence_coverage"]["hit_rate"]
    evidence["metric_id"] = evidence["metric_id"].replace("/", f"{depth}/", 1)
    retrieval = {
        key: cell(found, names, f"{key}/sources-{sources.VERSION}", "questions")
        for key, found in sums.retrieval.items()
    }
    return {
        "schema_version": SCHEMA_VERSION,
        **heading,
        "judge": preset.id,
        "judge_title": preset.title,
        "title": title(heading, preset, sums.top_k),
        "top_k": sums.top_k,
        "plan": dict(plan),
        "statuses": {
            "sessions": dict(sorted(sums.sessions.statuses.items())),
            "questions": dict(sorted(sums.questions.statuses.items())),
        },
        "degraded": {
            "sessions": sums.sessions.statuses["degraded"],
            "questions": sums.questions.statuses["degraded"],
            "reasons": dict(sorted((sums.sessions.degraded + sums.questions.degraded).items())),
        },
        "after_failure": {
            "sessions": sums.sessions.after_failure,
            "questions": sums.questions.after_failure,
        },
        "gold_points": dict(sorted(sums.gold.items())),
        "dimensions": dimensions,
        "retrieval": retrieval,
        "measurements": _measurements(sums),
        "conversations": _conversations(sums, names),
    }


def cell(sums: NumberSums, names: Sequence[str], metric_id: str, unit: str) -> JSONObject:
    """One cell. ``value`` is strict over N, ``valid`` over the n valid of them."""
    total = sums.strict.denominator
    base: JSONObject = {"metric_id": metric_id, "unit": unit}
    if not total:
        empty = {"value": None, "valid": None, "n": 0, "N": 0, "interval": None, "clusters": 0}
        return {**base, **empty, "no_interval": None, "na": sums.reason}
    interval = cluster_t(*sums.strict.lists(names))
    return {
        **base,
        "value": sums.strict.value,
        "valid": sums.valid.value,
        "n": sums.valid.denominator,
        "N": total,
        "interval": list(interval.bounds) if interval.bounds else None,
        "clusters": interval.clusters,
        "no_interval": interval.reason,
        "na": None,
    }


def title(heading: Mapping[str, Any], preset: Preset, top_k: int) -> str:
    """What a table of this run must say about itself."""
    parts = [str(heading.get("dataset", "unnamed data")), f"{preset.title} [{preset.id}]"]
    if heading.get("answerer"):
        parts.append(f"answers: {heading['answerer']}")
    parts.append(f"top {top_k}")
    return " · ".join(parts)


def _measurements(sums: Accumulator) -> JSONObject:
    """Times in ms (host: seen from outside; box: inside the adapter), sizes by session."""
    sizes = sorted(sums.sizes.items())
    depth = "all" if sums.whole_context else str(sums.top_k)
    return {
        "latency_ms": {name: _spread(times) for name, times in sorted(sums.times.items())},
        "context_tokens": {"metric_id": f"{CONTEXT_TOKENS}@{depth}", **_spread(sums.context)},
        "memory_size": [
            {
                "position": position,
                "sessions": count,
                "items_mean": items / count,
                "state_bytes_mean": state / told if told else None,
            }
            for position, (count, items, told, state) in sizes
        ],
    }


def _spread(numbers: Sequence[float]) -> JSONObject:
    """Count, p50, p95 (linear between ranks) and mean."""
    if not len(numbers):
        return {"n": 0, "p50": None, "p95": None, "mean": None}
    ordered = np.sort(np.asarray(numbers, dtype=np.float64))
    p50, p95 = np.percentile(ordered, [50, 95])
    return {
        "n": len(ordered),
        "p50": float(p50),
        "p95": float(p95),
        "mean": float(ordered.mean()),
    }


def _conversations(sums: Accumulator, names: Sequence[str]) -> JSONObject:
    """Strict sums a conversation: what paired tests between rows need, and nothing more."""
    every = {**sums.numbers, **{f"retrieval.{key}": s for key, s in sums.retrieval.items()}}
    made = {}
    for key, found in every.items():
        if found.strict.denominator:
            y, x = found.strict.lists(names)
            made[key] = {"y": y, "x": x}
    return {"ids": list(names), "numbers": made}
