"""Stage 3: from graded record lines to the six dimensions. Reads records only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.aggregate.cells import build
from harness.aggregate.sums import Accumulator
from harness.judging.base import Preset

__all__ = ["DEPTHS", "Accumulator", "aggregate", "build", "depths_of"]

#: The k at which retrieval is scored besides the run's own top k, as far as it retrieved.
DEPTHS = (1, 5, 10)


def depths_of(top_k: int, max_k: int) -> tuple[int, ...]:
    """The depths of recall@k and nDCG@k for a run that retrieved ``max_k`` items."""
    return tuple(sorted({k for k in DEPTHS if k <= max_k} | {top_k}))


def aggregate(
    session_lines: Iterable[Mapping[str, Any]],
    qa_lines: Iterable[Mapping[str, Any]],
    plan: Mapping[str, Any],
    preset: Preset,
    heading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Aggregate a run's graded lines, read once, one at a time.

    Args:
        session_lines: lines of ``session_records.jsonl`` (record and ``eval``), in any order.
        qa_lines: the same of ``qa_records.jsonl``.
        plan: how many ``sessions`` and ``questions`` were planned (the manifest's).
        preset: the judge that graded them.
        heading: what names the table: ``row``, ``dataset``, ``answerer``, ``sandbox``, ``top_k``,
            ``max_k``, ``full_context``, ``reference`` (a host-side row, out of ranking) and so on;
            it is carried into the aggregate.

    Raises:
        RunError: planned != sum of statuses; a unit twice; a line that is not graded by ``preset``.
    """
    head = dict(heading or {})
    top_k = int(head.get("top_k", 5))
    depths = depths_of(top_k, int(head.get("max_k", top_k)))
    whole = bool(head.get("full_context"))
    sums = Accumulator(preset.id, top_k, depths, whole_context=whole)
    for line in session_lines:
        sums.add_session(line)
    for line in qa_lines:
        sums.add_question(line)
    return build(sums, plan, preset, head)
