"""Recorded replies. What was sent to a box stands here first, together with its ledger row."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.models.canonical import Canonical
from harness.models.nearest import Seen, explain_miss
from harness.models.store import SCHEMA, CassetteError, Statement, Store
from harness.models.usage import Tokens

_COLUMNS = (
    "key, route, method, path, model, sample, repeat, i, base, request, status, reply, tokens, ms, "
    "list_usd, model_reported, recorded_at, run"
)
#: Below this nothing is gained by packing.
_PACK_FROM = 512


@dataclass(frozen=True)
class Recorded:
    """One reply: ``body`` as JSON value, the upstream's ``ms`` and price of the first time."""

    status: int
    body: Any
    tokens: Tokens
    ms: float
    list_usd: float | None
    model_reported: str | None


@dataclass(frozen=True)
class Place:
    """Where in a run a call belongs. ``call_no`` counts the adapter calls of the attempt."""

    run: str
    system: str
    sample: str
    attempt: int = 1
    call_no: int | None = None


class Cassette:
    """A cassette, open for many threads. See :class:`~harness.models.store.Store` for errors."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._store = Store(path, read_only=read_only)
        self.path = path
        self.read_only = read_only

    def find(self, key: str) -> Recorded | None:
        """The reply of a key."""
        rows = self._store.rows(
            "SELECT status, reply, tokens, ms, list_usd, model_reported FROM replies WHERE key = ?",
            (key,),
        )
        if not rows:
            return None
        status, reply, tokens, ms, list_usd, reported = rows[0]
        body = json.loads(_unpacked(reply))
        return Recorded(status, body, Tokens.from_json(json.loads(tokens)), ms, list_usd, reported)

    def record(
        self,
        request: Canonical,
        i: int,
        reply: Recorded,
        line: Mapping[str, Any],
        place: Place,
        rank: int | None,
    ) -> Recorded:
        """Commit a reply and its ledger row in one transaction.

        Returns what the cassette holds under this key afterwards: another process may have been
        first, and then everybody goes on with its reply.

        Raises:
            CassetteFull: no space; nothing of this was kept.
        """
        key = request.key(i)
        about = json.loads(request.text)
        values = (
            key,
            *(about[name] for name in ("route", "method", "path")),
            about["body"].get("model"),
            about["sample"],
            about["repeat"],
            i,
            request.base,
            _packed(request.text),
            reply.status,
            _packed(json.dumps(reply.body, ensure_ascii=False, separators=(",", ":"))),
            json.dumps(reply.tokens.to_json()),
            reply.ms,
            reply.list_usd,
            reply.model_reported,
            line["at"],
            place.run,
        )
        marks = ", ".join("?" * len(values))
        insert = f"INSERT OR IGNORE INTO replies ({_COLUMNS}) VALUES ({marks})"  # noqa: S608
        self._store.commit([(insert, values), _call(line, place, rank, key)])
        return self.find(key) or reply

    def note_call(
        self, line: Mapping[str, Any], place: Place, rank: int | None, key: str | None
    ) -> None:
        """Commit the ledger row of a call that brought no new reply."""
        self._store.commit([_call(line, place, rank, key)])

    def lines_of(self, run: str) -> list[dict[str, Any]]:
        """The finished ledger rows of a run, in the order of their commits."""
        rows = self._store.rows("SELECT line FROM calls WHERE run = ? ORDER BY rowid", (run,))
        return [json.loads(line) for (line,) in rows]

    def order_of(self, place: Place, key: str, *, same_run: bool) -> list[str]:
        """The keys of one adapter call in the order in which their replies were completed.

        Of the latest recording in which this adapter call asked for ``key``; empty if none did.
        With ``same_run`` only earlier attempts of the run itself count: another run may ask for
        other things, and waiting for them would be in vain.
        """
        at = (place.system, place.sample, place.call_no)
        latest = self._store.rows(
            "SELECT run, attempt FROM calls WHERE system = ? AND sample = ? AND call_no = ? "
            "AND key = ? AND rank IS NOT NULL AND (NOT ? OR (run = ? AND attempt < ?)) "
            "ORDER BY rowid DESC LIMIT 1",
            (*at, key, same_run, place.run, place.attempt),
        )
        if not latest:
            return []
        rows = self._store.rows(
            "SELECT key FROM calls WHERE system = ? AND sample = ? AND call_no = ? AND run = ? "
            "AND attempt = ? AND rank IS NOT NULL ORDER BY rank",
            (*at, *latest[0]),
        )
        return [found for (found,) in rows]

    def miss(self, request: Canonical, i: int) -> str:
        """Why a request is not here: the nearest that is, and the first thing that differs."""
        about = json.loads(request.text)
        same = self._store.rows("SELECT i FROM replies WHERE base = ? ORDER BY i", (request.base,))
        if same:
            return (
                f"{self.path} holds {len(same)} draw(s) of this very request, and this is number "
                f"{i + 1}: it was asked more often than in the recording"
            )
        rows = self._store.rows(
            "SELECT request FROM replies WHERE route = ? AND path = ? "
            "ORDER BY sample = ? DESC, rowid DESC LIMIT 300",
            (about["route"], about["path"], about["sample"]),
        )
        near = [Seen(json.loads(_unpacked(blob))) for (blob,) in rows]
        return explain_miss(about, near, str(self.path), self.count())

    def count(self) -> int:
        """How many replies it holds."""
        found: int = self._store.rows("SELECT count(*) FROM replies")[0][0]
        return found

    def fact(self, route: str, model: str, name: str) -> Any:
        """Something learned about a model (what it cannot take), or ``None``."""
        rows = self._store.rows(
            "SELECT value FROM facts WHERE route = ? AND model = ? AND name = ?",
            (route, model, name),
        )
        return json.loads(rows[0][0]) if rows else None

    def learn(self, route: str, model: str, name: str, value: Any) -> None:
        """Keep something learned about a model."""
        self._store.commit(
            [
                (
                    "INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)",
                    (route, model, name, json.dumps(value)),
                )
            ]
        )

    def setups(self) -> list[dict[str, Any]]:
        """What was said about routes and roles when this was recorded, the latest last."""
        rows = self._store.rows(
            "SELECT value FROM facts WHERE route = '' AND name = 'setup' ORDER BY rowid"
        )
        return [json.loads(value) for (value,) in rows]

    def note_setup(self, facts: Mapping[str, Any]) -> None:
        """Keep routes and roles, so that the cassette can be replayed by itself."""
        if facts not in self.setups()[-1:]:
            self.learn("", facts["profile"], "setup", facts)

    def info(self) -> dict[str, Any]:
        """What is in it, for people and programs."""
        by_model = self._store.rows(
            "SELECT route, path, coalesce(model, ''), count(*), min(recorded_at), "
            "max(recorded_at), sum(list_usd), sum(list_usd IS NULL) "
            "FROM replies GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        names = ("route", "path", "model", "replies", "first", "last", "list_usd", "unpriced")
        runs = self._store.rows("SELECT run, count(*) FROM calls GROUP BY run ORDER BY min(rowid)")
        size = sum(
            file.stat().st_size
            for file in (self.path, self.path.with_name(self.path.name + "-wal"))
            if file.exists()
        )
        return {
            "path": str(self.path),
            "schema": SCHEMA,
            "bytes": size,
            "replies": self.count(),
            "models": [dict(zip(names, row, strict=True)) for row in by_model],
            "runs": [{"run": run, "calls": calls} for run, calls in runs],
        }

    def export(self, target: Path, run: str | None = None) -> int:
        """Write a new cassette with what one run used (or all); returns the number of replies.

        The new file is a single one without side files, fit for a read-only disk.

        Raises:
            CassetteError: the target exists, or nothing was recorded for the run.
        """
        if target.exists():
            raise CassetteError(f"{target} exists; name another file")
        where = ""
        values: tuple[str, ...] = ()
        if run is not None:
            where, values = "WHERE key IN (SELECT key FROM calls WHERE run = ?)", (run,)
            if not self._store.rows("SELECT 1 FROM calls WHERE run = ? LIMIT 1", (run,)):
                raise CassetteError(f"{self.path} holds no call of the run {run!r}")
        replies = self._store.rows(f"SELECT {_COLUMNS} FROM replies {where} ORDER BY rowid", values)  # noqa: S608
        calls = self._store.rows(
            "SELECT * FROM calls WHERE ? IS NULL OR run = ? ORDER BY rowid", (run, run)
        )
        facts = self._store.rows("SELECT * FROM facts")
        partial = target.with_name(f".{target.name}.partial")
        partial.unlink(missing_ok=True)
        copy = Store(partial)
        try:
            statements: list[Statement] = []
            for table, rows in (("replies", replies), ("calls", calls), ("facts", facts)):
                marks = ", ".join("?" * len(rows[0])) if rows else ""
                statements += [(f"INSERT INTO {table} VALUES ({marks})", row) for row in rows]  # noqa: S608
            copy.commit(statements)
            copy.make_single_file()
        finally:
            copy.close()
        partial.replace(target)
        return len(replies)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()


def _call(line: Mapping[str, Any], place: Place, rank: int | None, key: str | None) -> Statement:
    return (
        "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            line["call_id"],
            place.run,
            place.system,
            place.sample,
            place.attempt,
            place.call_no,
            rank,
            key,
            json.dumps(line, ensure_ascii=False, separators=(",", ":")),
        ),
    )


def _packed(text: str) -> bytes:
    raw = text.encode("utf-8")
    return b"z" + zlib.compress(raw, 1) if len(raw) >= _PACK_FROM else b"p" + raw


def _unpacked(blob: bytes) -> bytes:
    return zlib.decompress(blob[1:]) if blob[:1] == b"z" else blob[1:]
