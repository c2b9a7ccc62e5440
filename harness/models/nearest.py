"""Why replay found nothing: the nearest recorded request, and the first thing that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_SHOWN = 60
_MISSING = object()


@dataclass(frozen=True)
class Seen:
    """A recorded request: the value of its canonical text."""

    about: Mapping[str, Any]


def explain_miss(about: Mapping[str, Any], near: list[Seen], where: str, recorded: int) -> str:
    """One message for a request that is not recorded.

    Args:
        about: the request, as the value of its canonical text.
        near: recorded requests of the same route and path, those of its sample first.
        where: the cassette's name.
        recorded: how many replies it holds in all.
    """
    what = f"{about['method']} {about['route']}{about['path']} (sample {about['sample']})"
    if not near:
        return f"{what} is not in {where}: none of its {recorded} replies is of this route and path"
    best = max(near, key=lambda seen: _likeness(about, seen.about))
    path, ours, theirs = next(_differences(about, best.about, ""), ("", _MISSING, _MISSING))
    ours_text, theirs_text = _around(ours, theirs)
    return (
        f"{what} is not in {where}. The nearest that is differs first at {path or 'nothing'}:\n"
        f"  asked:    {ours_text}\n"
        f"  recorded: {theirs_text}"
    )


def _likeness(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """How much of two requests agrees, in characters: equal leaves, and equal ends of others."""
    score = 0.0
    mine, other = dict(_leaves(ours, "")), dict(_leaves(theirs, ""))
    for path, value in mine.items():
        if path not in other:
            continue
        score += 4
        left, right = str(value), str(other[path])
        if left == right:
            score += len(left)
        else:
            head = _common(left, right)
            tail = _common(left[head:][::-1], right[head:][::-1])
            score += (head + tail) * 0.99
    return score - 4 * len(other.keys() - mine.keys())


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _leaves(entry, f"{path}[{index}]")
    else:
        yield path, value


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ, in the order of a reader: (path, ours, theirs)."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in sorted({*ours, *theirs}):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(ours.get(key, _MISSING), theirs.get(key, _MISSING), below)
    elif isinstance(ours, list) and isinstance(theirs, list):
        for index, (mine, other) in enumerate(zip_longest(ours, theirs, fillvalue=_MISSING)):
            yield from _differences(mine, other, f"{path}[{index}]")
    elif ours is _MISSING or theirs is _MISSING or ours != theirs or type(ours) is not type(theirs):
        yield path, ours, theirs


def _common(left: str, right: str) -> int:
    """Length of the common beginning, by halving: slices compare at the speed of memory."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _around(ours: Any, theirs: Any) -> tuple[str, str]:
    if isinstance(ours, str) and isinstance(theirs, str):
        start = max(_common(ours, theirs) - _SHOWN // 2, 0)
        before = f"[{start} characters] " if start else ""
        return tuple(before + repr(_cut(text[start:])) for text in (ours, theirs))  # type: ignore[return-value]
    return _shown(ours), _shown(theirs)


def _shown(value: Any) -> str:
    return "(nothing)" if value is _MISSING else _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 2 * _SHOWN else text[: 2 * _SHOWN] + "..."
