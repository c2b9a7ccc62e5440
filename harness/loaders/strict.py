"""Strict JSON: what is refused here would break our own files, or lie, later.

UTF-8 with or without a byte order mark, lines ended by LF or CRLF and split on LF only (U+2028 in
a text is a character like any other). Refused with file and line: UTF-16, bytes that are not UTF-8,
truncated text, NaN and the infinities (and numbers that overflow to them), a key that stands twice
in one object, an escaped lone surrogate (it cannot be written as UTF-8), nesting beyond
:data:`MAX_DEPTH`.

The bytes come from :mod:`harness.loaders.slices`, one element of a big file at a time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

from harness.loaders.slices import Slice
from harness.outcomes import DataError, Problem

#: Deeper nesting is refused: no data set needs it, and Python's own limit is a crash.
MAX_DEPTH = 100

#: Steps from the root of a JSON value to one place in it.
JSONPath = tuple[str | int, ...]
#: Says in words where a path leads: (root value, path) -> "session 'S01', turn 0".
Describe = Callable[[Any, JSONPath], str]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Fault(ValueError):
    """A refusal from inside the decoder, which does not say where it is."""


def parse(piece: Slice, describe: Describe | None = None) -> Any:
    """Parse one JSON value strictly.

    Args:
        piece: its bytes and where they stand.
        describe: says in words where a path leads, for messages about a place inside the value.

    Raises:
        DataError: naming file, line and reason.
    """
    text = _decode(piece)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
    except json.JSONDecodeError as error:
        _refuse(piece, text, error.pos, _syntax_message(text, error))
    except RecursionError:
        _refuse(piece, text, _too_deep(text) or 0, f"nested deeper than {MAX_DEPTH} levels")
    except _Fault as fault:
        _refuse(piece, text, _find_fault(text), str(fault))
    except ValueError:  # Python's limit on the digits of a whole number
        _refuse(piece, text, _longest_token(text), "a number with too many digits")
    if _is_too_deep(value):
        _refuse(piece, text, _too_deep(text) or 0, f"nested deeper than {MAX_DEPTH} levels")
    if _MAY_BE_SURROGATE.search(piece.raw):
        _check_surrogates(piece, text, value, describe)
    return value


def line_of(piece: Slice, path: JSONPath) -> int:
    """The line in the file at which the value at ``path`` starts (of its nearest parent, else)."""
    text, outline = _outline(piece)
    known = next((path[:n] for n in range(_OUTLINED, 0, -1) if path[:n] in outline), ())
    from_here, line = outline.get(known, (0, piece.line))
    wanted, best, depth = path[len(known) :], from_here, -1
    for place, start, _ in _places(text, from_here):
        if not place and depth >= 0:
            break  # the value has ended
        if len(place) > depth and place == wanted[: len(place)]:
            best, depth = start, len(place)
            if depth == len(wanted):
                break
    return line + text.count("\n", from_here, best)


#: Lines are looked up from the nearest place so many steps below the root (one session).
_OUTLINED = 2


@lru_cache(maxsize=1)
def _outline(piece: Slice) -> tuple[str, dict[JSONPath, tuple[int, int]]]:
    """The text, and position and line of its uppermost values; kept for the next look-up.

    A sample with thousands of faults would else be scanned from its start for each.
    """
    text = piece.raw.decode("utf-8", errors="replace")
    outline: dict[JSONPath, tuple[int, int]] = {}
    last, line = 0, piece.line
    for place, start, _ in _places(text):
        if len(place) <= _OUTLINED and place not in outline:
            line += text.count("\n", last, start)
            last = start
            outline[place] = (start, line)
    return text, outline


def _decode(piece: Slice) -> str:
    try:
        text = piece.raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = piece.line + piece.raw.count(b"\n", 0, error.start)
        byte = piece.raw[error.start]
        message = f"not UTF-8: byte 0x{byte:02x} at offset {piece.offset + error.start}"
        raise DataError([Problem(message, piece.file, line)]) from None
    if text.startswith("\ufeff"):
        message = "a byte order mark in the middle of the file"
        raise DataError([Problem(message, piece.file, piece.line)])
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Fault(f"the key {key!r} stands twice in one object")
            seen.add(key)
    return made


def _constant(word: str) -> NoReturn:
    raise _Fault(f"{word} is not JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Fault(f"the number {digits[:40]} is too large")
    return value


def _syntax_message(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"the JSON text ends too early (truncated?): {error.msg}"
    if error.msg == "Extra data":
        return (
            "more than one JSON value in one place (two objects in one line? line ends that are "
            "CR only?)"
        )
    return f"not JSON: {error.msg} (column {error.colno})"


def _refuse(piece: Slice, text: str, position: int, message: str) -> NoReturn:
    line = piece.line + text.count("\n", 0, position)
    raise DataError([Problem(message, piece.file, line)])


def _places(text: str, begin: int = 0) -> Iterator[tuple[JSONPath, int, str]]:
    """(path, position, first token) of every value of a JSON text, in order.

    Also of every key that repeats another of its object; the token is then ``duplicate``.
    """
    path: list[str | int] = []
    keys: list[set[str] | None] = []  # per open container: its keys, None for an array
    expect_key = False
    for token in _TOKEN.finditer(text, begin):
        word = token.group()
        if word in "}]":
            if keys:
                keys.pop()
                path.pop()
            expect_key = False
        elif word == ",":
            if keys and keys[-1] is None:
                last = path[-1]
                path[-1] = last + 1 if isinstance(last, int) else 0
            expect_key = bool(keys) and keys[-1] is not None
        elif word == ":":
            expect_key = False
        elif expect_key and word.startswith('"'):
            key, open_keys = json.loads(word, strict=False), keys[-1]
            if open_keys is not None:
                path[-1] = key
                if key in open_keys:
                    yield tuple(path), token.start(), "duplicate"
                open_keys.add(key)
        else:
            yield tuple(path), token.start(), word
            if word in "{[":
                keys.append(set() if word == "{" else None)
                path.append("" if word == "{" else 0)
                expect_key = word == "{"


def _find_fault(text: str) -> int:
    """Position of the first repeated key, non-number or overflowing number."""
    for _, start, word in _places(text):
        if word in ("duplicate", "NaN", "Infinity", "-Infinity"):
            return start
        if word[0] in "-0123456789":
            try:
                if math.isinf(float(word)) and not word.lstrip("-").isdigit():
                    return start
            except ValueError:
                continue
    return 0


def _longest_token(text: str) -> int:
    numbers = (t for t in _TOKEN.finditer(text) if t.group()[0] in "-0123456789")
    return max(numbers, key=lambda t: len(t.group())).start()


def _is_too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        inner = (c.values() if isinstance(c, dict) else c for c in level)
        level = [v for values in inner for v in values if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


def _too_deep(text: str) -> int | None:
    depth = 0
    for token in _TOKEN.finditer(text):
        if token.group() in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return token.start()
        elif token.group() in "]}":
            depth -= 1
    return None


def _check_surrogates(piece: Slice, text: str, value: Any, describe: Describe | None) -> None:
    problems = []
    for start, code in _lone_surrogates(text):
        where = ""
        if describe is not None:
            path: JSONPath = ()
            for place, position, _ in _places(text):
                if position > start:
                    break
                path = place
            where = describe(value, path) + ": "
        line = piece.line + text.count("\n", 0, start)
        message = f"{where}a lone surrogate \\u{code}, which cannot be written as UTF-8"
        problems.append(Problem(message, piece.file, line))
    if problems:
        raise DataError(problems)


def _lone_surrogates(text: str) -> Iterator[tuple[int, str]]:
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        code = int(escape.group(1), 16) if escape.group(1) else 0
        if high is not None:
            if 0xDC00 <= code <= 0xDFFF and escape.start() == high.end():
                high = None
                continue
            yield high.start(), high.group(1)
            high = None
        if 0xD800 <= code <= 0xDBFF:
            high = escape
        elif 0xDC00 <= code <= 0xDFFF:
            yield escape.start(), escape.group(1)
    if high is not None:
        yield high.start(), high.group(1)
