"""The bytes of JSON values in files, one at a time.

:func:`array_slices` and :func:`line_slices` yield one element after the other with its offset and
line, so that a data set is indexed and later read again without ever being in memory as a whole.
Lines are split on LF only: U+2028 in a text is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from harness.outcomes import DataError, Problem

_BOM = b"\xef\xbb\xbf"
#: How much of an array file is read at a time, in bytes.
CHUNK = 1 << 18
_LONGEST_MARK = 4
_OUTSIDE = re.compile(rb'["\[\]{},]')
_INSIDE = re.compile(rb'["\\]')
_BLANK = b" \t\r\n"


@dataclass(frozen=True)
class Slice:
    """The bytes of one JSON value in a file: ``offset`` in bytes, ``line`` from 1."""

    file: str
    offset: int
    line: int
    raw: bytes


def array_slices(path: Path, name: str, chunk: int = CHUNK) -> Iterator[Slice]:
    """The elements of a file that is one JSON array, as bytes, one at a time.

    Args:
        path: the file.
        name: how it is called in messages.
        chunk: how much is read at a time, in bytes.

    Raises:
        DataError: the file is empty, not UTF-8, no array, truncated, or goes on after the array;
            a missing element (two commas in a row, a trailing comma).
    """
    with _open(path, name) as stream:
        yield from _ArrayScanner(stream, name, chunk).run()


def line_slices(path: Path, name: str) -> Iterator[Slice]:
    """The lines of a JSONL file that are not blank, as bytes, split on LF only.

    Raises:
        DataError: the file is empty, not UTF-8 by its mark, or one JSON array.
    """
    with _open(path, name) as stream:
        offset, seen = 0, False
        for number, raw in enumerate(stream, start=1):
            start = offset
            offset += len(raw)
            if number == 1:
                start += _check_head(raw, name)
                raw = raw[start:]
            body = raw.strip(_BLANK)
            if not body:
                continue
            if not seen and body.startswith(b"["):
                message = "a JSON array, expected one object a line"
                raise DataError([Problem(message, name, number)])
            seen = True
            yield Slice(name, start + raw.index(body), number, body)


def read_slice(path: Path, name: str, offset: int, length: int, line: int) -> Slice:
    """Read the bytes of one element again. Raises :class:`DataError` when the file is gone."""
    with _open(path, name) as stream:
        stream.seek(offset)
        return Slice(name, offset, line, stream.read(length))


def whole_file(path: Path, name: str) -> Slice:
    """The bytes of a whole file as one value (for one JSON a sample), without the mark."""
    with _open(path, name) as stream:
        raw = stream.read()
    start = _check_head(raw, name)
    if not raw[start:].strip(_BLANK):
        raise DataError([Problem("the file is empty", name)])
    return Slice(name, start, 1, raw[start:])


def first_byte(path: Path) -> bytes:
    """The first byte that is neither blank nor part of a mark; empty if there is none."""
    try:
        with path.open("rb") as stream:
            return stream.read(4096).removeprefix(_BOM).lstrip(_BLANK)[:1]
    except OSError:
        return b""


class _ArrayScanner:
    """Cuts a byte stream at the commas of its outermost array.

    Looks at brackets, commas and quotes only; each element is parsed strictly by the reader, so a
    wrong bracket inside one is found there.
    """

    def __init__(self, stream: BinaryIO, name: str, chunk: int) -> None:
        self._stream = stream
        self._name = name
        self._chunk = chunk
        self._buffer = bytearray()
        self._base = 0  # offset in the file of the buffer's first byte
        self._line = 1  # line of the buffer's first byte
        self._position = 0  # how far the buffer is scanned
        self._in_string = False
        self._depth = 1

    def run(self) -> Iterator[Slice]:
        self._enter()
        count = 0
        while True:
            cut = self._next_cut()
            if cut is None:
                if not self._fill():
                    self._fail("the file ends inside the array (truncated?)", len(self._buffer))
                continue
            last = self._buffer[cut] == ord("]")
            body = bytes(self._buffer[:cut])
            stripped = body.strip(_BLANK)
            if stripped:
                start = body.index(stripped)
                line = self._line + body.count(b"\n", 0, start)
                yield Slice(self._name, self._base + start, line, stripped)
            elif not last or count:
                self._fail("an element is missing (two commas in a row or a trailing comma)", cut)
            count += 1
            self._drop(cut + 1)
            if last:
                break
        self._leave()

    def _enter(self) -> None:
        while len(self._buffer) < _LONGEST_MARK and self._fill():
            pass
        mark = _check_head(bytes(self._buffer[:64]), self._name)
        self._drop(mark)
        while not self._buffer.strip(_BLANK):
            self._drop(len(self._buffer))
            if not self._fill():
                raise DataError([Problem("the file is empty", self._name)])
        first = len(self._buffer) - len(self._buffer.lstrip(_BLANK))
        if self._buffer[first] != ord("["):
            what = "one object" if self._buffer[first] == ord("{") else "something else"
            self._fail(f"expected an array of samples, found {what}", first)
        self._drop(first + 1)

    def _leave(self) -> None:
        while True:
            rest = self._buffer.lstrip(_BLANK)
            if rest:
                at = len(self._buffer) - len(rest)
                self._fail("the file goes on after the end of the array", at)
            self._drop(len(self._buffer))
            if not self._fill():
                return

    def _next_cut(self) -> int | None:
        """Position of the next comma or bracket that ends an element; None at the buffer's end."""
        buffer = self._buffer
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(buffer, self._position)
            if found is None:
                self._position = len(buffer)
                return None
            byte = buffer[found.start()]
            if self._in_string:
                if byte == ord("\\"):
                    if found.end() == len(buffer):
                        self._position = found.start()
                        return None
                    self._position = found.end() + 1
                else:
                    self._in_string, self._position = False, found.end()
                continue
            self._position = found.end()
            if byte == ord('"'):
                self._in_string = True
            elif byte in b"[{":
                self._depth += 1
            elif byte in b"]}":
                self._depth -= 1
                if self._depth == 0:
                    if byte != ord("]"):
                        self._fail("a } where the array's ] was expected", found.start())
                    return found.start()
            elif self._depth == 1:
                return found.start()

    def _fill(self) -> bool:
        chunk = self._stream.read(self._chunk)
        self._buffer += chunk
        return bool(chunk)

    def _drop(self, count: int) -> None:
        self._line += self._buffer.count(b"\n", 0, count)
        del self._buffer[:count]
        self._base += count
        self._position = 0

    def _fail(self, message: str, at: int) -> NoReturn:
        line = self._line + self._buffer.count(b"\n", 0, at)
        raise DataError([Problem(message, self._name, line)])


def _open(path: Path, name: str) -> BinaryIO:
    if path.exists() and not path.is_file():
        raise DataError([Problem("not a regular file", name)])
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError([Problem(f"cannot be read: {error.strerror}", name)]) from None


def _check_head(head: bytes, name: str) -> int:
    """Length of the byte order mark, 0 to 3; refuses other encodings by name."""
    if head.startswith(_BOM):
        return len(_BOM)
    encoding = None
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        encoding = "UTF-32"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in head[:2]:
        encoding = "UTF-16"
    if encoding:
        raise DataError([Problem(f"not UTF-8: this looks like {encoding}", name, 1)])
    return 0
