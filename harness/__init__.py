"""memrig's library: a containerized, reproducible benchmark of long-term-memory systems.

The parts and the arrows between them are drawn in the README ("How it is built"); a test
(``tests/test_architecture.py``) holds the arrows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.evaluation import RunResult, run_eval

__all__ = ["RunResult", "__version__", "run_eval"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``harness.run_eval`` without loading all of it for those who want a part."""
    if name in ("RunResult", "run_eval"):
        from harness import evaluation

        return getattr(evaluation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
