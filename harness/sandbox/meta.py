"""What a box says it measured, checked where it enters: a box can write anything there."""

from __future__ import annotations

from math import isfinite
from typing import Any

from harness.outcomes import SandboxFailure
from harness.sandbox.base import Usage

_COUNTS = ("rss", "oom_kills", "state_bytes", "pending_calls")

#: No counter of this world is larger, and it still fits wherever a number is kept.
_MOST = 2**63 - 1


def checked(meta: dict[str, Any], call: str) -> dict[str, Any]:
    """The measurements of a reply, if they are what :class:`harness.sandbox.base.Reply` says.

    Raises:
        SandboxFailure: PROTOCOL, for a wrong type, a number that is negative or not finite, or a
            name that is none of ours.
    """
    for name, value in meta.items():
        if name == "ms":
            right = _number(value)
        elif name in _COUNTS:
            right = _count(value)
        elif name == "degraded":
            right = isinstance(value, list) and all(isinstance(reason, str) for reason in value)
        else:
            right = False
        if not right:
            message = f"the reply's meta says {_short(name)}: {_short(value)}"
            raise SandboxFailure("PROTOCOL", message, call=call)
    return meta


def usage_of(meta: dict[str, Any]) -> Usage:
    """What a box used, from its goodbye or else its last reply; absent where that is no number.

    Not an error: the box is being closed, and what it did before is recorded.
    """
    said = meta.get("usage")
    used: dict[str, Any] = said if isinstance(said, dict) else {}
    cpu_s = used.get("cpu_s")
    return Usage(
        cpu_s=float(cpu_s) if cpu_s is not None and _number(cpu_s) else None,
        peak_memory_bytes=_count_or_none(used.get("peak_memory_bytes")),
        state_bytes=_count_or_none(used.get("state_bytes", meta.get("state_bytes"))),
        oom_kills=_count_or_none(used.get("oom_kills", meta.get("oom_kills") or None)),
    )


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _number(value: Any) -> bool:
    return _count(value) or (type(value) is float and isfinite(value) and value >= 0)


def _count_or_none(value: Any) -> int | None:
    return value if _count(value) else None


def _short(value: Any) -> str:
    return f"{value!r:.60}"
