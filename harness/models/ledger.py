"""``calls.jsonl``: two rows for every model request, one before it goes out and one after.

A ``started`` row precedes the call to the upstream, so a killed run shows what may have been
billed without an answer. A ``finished`` row says how it ended. In record mode the finished row is
first committed to the cassette, in one transaction with the reply; rows that a killed process
could not copy here any more are copied when the ledger is opened again.

Fields: ``event at call_id run system sample attempt session stage call_no role route method path
model_asked model_sent model_reported key mode cache outcome failure status tokens ms upstream_ms
queue_ms attempts list_usd billed_usd rank dropped rewrites reserved``. A price that is not known is
``null`` with ``price: unknown``.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.models.failures import StoreFull
from harness.models.redact import Redactor
from harness.outcomes import RunError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Ledger:
    """Appends rows to one file, from any thread of one process.

    Args:
        path: ``calls.jsonl`` of a run; made when missing.
        redactor: goes over every row.
        committed: finished rows that the cassette holds for this run.
        listen: told of every row after it was written (live tables).

    Raises:
        RunError: the file is damaged before its last line.
        StoreFull: no space.
    """

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        committed: Iterable[Mapping[str, Any]] = (),
        listen: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._listen = listen
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_tail(path)
        finished = {row["call_id"] for row in read_rows(path) if row["event"] == "finished"}
        self._file = path.open("ab", buffering=0)
        for row in committed:
            if row["call_id"] not in finished:
                self._append({**row, "recovered": True})

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row without secrets and with its time: what is written here and in the cassette."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        return self._redactor.row({"at": now, **row})

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row made by :meth:`row`. A killed process loses none that was written.

        Raises:
            StoreFull: no space; the file holds whole rows only.
        """
        self._append(row)
        if self._listen is not None:
            self._listen(row)

    def _append(self, row: Mapping[str, Any]) -> None:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = text.encode("utf-8") + b"\n"
        with self._lock:
            start = os.fstat(self._file.fileno()).st_size
            try:
                written = 0
                while written < len(data):
                    written += self._file.write(data[written:])
            except OSError as error:
                os.ftruncate(self._file.fileno(), start)
                if error.errno in _FULL:
                    raise StoreFull(
                        f"cannot write {self.path}: {error.strerror}. What was recorded is kept; "
                        "free some space and run the same command again"
                    ) from None
                raise

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a ledger, in order.

    Raises:
        RunError: a line that is no row.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                row["event"], row["call_id"]
            except (ValueError, KeyError, TypeError) as error:
                raise RunError(f"{path}:{number} is damaged: {error}") from None
            yield row


def unfinished(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """``started`` rows that no ``finished`` row follows: their process was killed."""
    open_rows: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["event"] == "started":
            open_rows[row["call_id"]] = row
        else:
            open_rows.pop(row["call_id"], None)
    return list(open_rows.values())


def _cut_torn_tail(path: Path) -> None:
    """A killed process may have left half a line at the end."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        position = size
        while position > 0:
            step = min(65_536, position)
            file.seek(position - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                position = position - step + newline + 1
                break
            position -= step
        if position < size:
            file.truncate(position)
