"""The cassette's file: one SQLite database in WAL mode, one schema version, group commits.

Threads hand their rows to whoever is writing; that one commits them all in one transaction, so 64
threads cost hardly more than one. Several processes may share a file: SQLite's own lock orders
their transactions. ``synchronous=NORMAL``: a killed process loses nothing that was committed; a
power cut may lose the last moments (money, never consistency).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.outcomes import RunError

SCHEMA = 1
_APPLICATION_ID = 0x6D656D72  # "memr"
_BUSY_MS = 60_000

_TABLES = """
CREATE TABLE replies (
    key TEXT PRIMARY KEY, route TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    model TEXT, sample TEXT NOT NULL, repeat INTEGER NOT NULL, i INTEGER NOT NULL,
    base TEXT NOT NULL, request BLOB NOT NULL, status INTEGER NOT NULL, reply BLOB NOT NULL,
    tokens TEXT NOT NULL, ms REAL NOT NULL, list_usd REAL, model_reported TEXT,
    recorded_at TEXT NOT NULL, run TEXT NOT NULL
) STRICT;
CREATE INDEX replies_base ON replies (base);
CREATE INDEX replies_near ON replies (route, path, sample);
CREATE TABLE calls (
    call_id TEXT PRIMARY KEY, run TEXT NOT NULL, system TEXT NOT NULL, sample TEXT NOT NULL,
    attempt INTEGER NOT NULL, call_no INTEGER, rank INTEGER, key TEXT, line TEXT NOT NULL
) STRICT;
CREATE INDEX calls_run ON calls (run);
CREATE INDEX calls_place ON calls (system, sample, call_no, key);
CREATE TABLE facts (
    route TEXT NOT NULL, model TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (route, model, name)
) STRICT;
"""


class CassetteError(RunError):
    """A cassette that cannot be used: not there, damaged, of another version."""


class CassetteFull(CassetteError):
    """The file cannot grow. Everything committed before is kept."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"cannot record into {path}: {reason}. What was recorded is kept.\n"
            "  Free some space and run the same command again: nothing is paid for twice."
        )


Statement = tuple[str, Sequence[Any]]


@dataclass
class _Entry:
    statements: Sequence[Statement]
    done: bool = False
    error: CassetteError | None = None


class Store:
    """One open cassette file.

    Args:
        path: made when missing, unless ``read_only``.
        read_only: nothing is written, no side file either; several readers may share it.

    Raises:
        CassetteError: missing (read only), no cassette, or of another version.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._queue: list[_Entry] = []
        self._queue_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        if read_only:
            if not path.is_file():
                raise CassetteError(f"there is no cassette {path}: record one first")
            self._reader = self._connect(f"{path.resolve().as_uri()}?mode=ro")
            self._checked(self._check_version)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = self._connect(path.resolve().as_uri())
        self._checked(self._prepare)
        self._reader = self._connect(path.resolve().as_uri())

    def _connect(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
        )
        return connection

    def _checked(self, step: Callable[[], None]) -> None:
        try:
            step()
        except sqlite3.DatabaseError as error:
            if is_full(error):
                raise CassetteFull(self.path, str(error)) from None
            raise CassetteError(f"{self.path} is not a cassette, or damaged: {error}") from None

    def _prepare(self) -> None:
        self._writer.execute("PRAGMA journal_mode=WAL")
        self._writer.execute("PRAGMA synchronous=NORMAL")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            if self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _TABLES.split(";\n"):
                    self._writer.execute(statement)
                self._writer.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._writer.execute(f"PRAGMA user_version = {SCHEMA}")
            self._reader = self._writer
            self._check_version()
        finally:
            self._writer.execute("COMMIT")

    def _check_version(self) -> None:
        application = self._reader.execute("PRAGMA application_id").fetchone()[0]
        version = self._reader.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION_ID:
            raise CassetteError(f"{self.path} is a database, but not a cassette of memrig")
        if version != SCHEMA:
            raise CassetteError(
                f"the cassette {self.path} has schema version {version}, and this memrig reads "
                f"version {SCHEMA}. Use the memrig that wrote it, or record anew into another file"
            )

    def commit(self, statements: Sequence[Statement]) -> None:
        """Run statements as one transaction; returns when they are committed.

        Raises:
            CassetteFull: no space. CassetteError: anything else that the file would not take.
        """
        entry = _Entry(statements)
        with self._queue_lock:
            self._queue.append(entry)
        with self._write_lock:
            if not entry.done:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                self._write(batch)
        if entry.error is not None:
            raise entry.error

    def _write(self, batch: Sequence[_Entry]) -> None:
        error = self._transaction(batch)
        if error is not None and len(batch) > 1:
            # One that is too large, or wrong, must not take the others with it.
            for entry in batch:
                entry.error = self._transaction([entry])
                entry.done = True
            return
        for entry in batch:
            entry.error, entry.done = error, True

    def _transaction(self, batch: Sequence[_Entry]) -> CassetteError | None:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for entry in batch:
                for sql, values in entry.statements:
                    self._writer.execute(sql, values)
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if is_full(error):
                return CassetteFull(self.path, str(error))
            return CassetteError(f"cannot write {self.path}: {error}")
        return None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read, from any thread.

        Raises:
            CassetteError: the file is damaged.
        """
        try:
            with self._read_lock:
                return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise CassetteError(f"cannot read {self.path}: {error}") from None

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            if not self.read_only:
                self._writer.close()

    def make_single_file(self) -> None:
        """Leave WAL mode, so that the file stands alone and can be read on a read-only disk."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.execute("PRAGMA journal_mode=DELETE")
            self._reader = self._writer

    def limit_pages(self, pages: int) -> None:
        """Cap the file's size (a quota, and how tests fill a disk)."""
        with self._write_lock:
            self._writer.execute(f"PRAGMA max_page_count = {int(pages)}")


def is_full(error: sqlite3.Error) -> bool:
    """Whether an error means that there is no space: the disk, a quota, the file's own cap."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
