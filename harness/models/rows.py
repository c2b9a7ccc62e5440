"""The ledger row of one request, from its first field to its last."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.models.budget import Amount
from harness.models.canonical import Occurrences
from harness.models.cassette import Place, Recorded
from harness.models.failures import Refused, UpstreamFailure
from harness.models.ledger import read_rows
from harness.models.policy import Request
from harness.outcomes import ModelFailure

_OUTCOMES = {
    "MODEL_REFUSED": "refused",
    "BUDGET_EXHAUSTED": "budget_exhausted",
    "REPLAY_MISS": "replay_miss",
}


@dataclass(frozen=True)
class Caller:
    """Who asks, and what for. ``stage`` is the adapter call that is open, or ``background``.

    ``next_rank`` gives a reply its place among those of its adapter call; ``None`` where there is
    no such call.
    """

    place: Place
    occurrences: Occurrences
    stage: str
    role: str | None = None
    session: str | None = None
    repeat: int = 0
    next_rank: Callable[[], int | None] = field(default=lambda: None)


class CallRow:
    """A row in the making. ``call_id`` is new for every request."""

    def __init__(self, request: Request, route: str, mode: str, caller: Caller) -> None:
        self._began = time.perf_counter()
        place = caller.place
        self.fields: dict[str, Any] = {
            "call_id": uuid.uuid4().hex,
            "run": place.run,
            "system": place.system,
            "sample": place.sample,
            "attempt": place.attempt,
            "session": caller.session,
            "stage": caller.stage,
            "call_no": place.call_no,
            "role": caller.role,
            "repeat": caller.repeat,
            "route": route,
            "method": request.method,
            "path": request.path[:300],
            "mode": mode,
        }

    def add(self, **fields: Any) -> None:
        """Add fields; empty ones are left out."""
        self.fields |= {
            name: value for name, value in fields.items() if value not in ((), [], None)
        }

    def rewrites(self, *notes: str) -> None:
        """Name what was changed in the request."""
        if notes:
            self.fields["rewrites"] = [*self.fields.get("rewrites", []), *notes]

    def charge(self, amount: Amount) -> None:
        """What the budget books for this call; a resumed run reads it back."""
        self.fields["charged"] = amount_json(amount)

    def started(self, reserved: Amount) -> dict[str, Any]:
        """The row that precedes the upstream."""
        return {"event": "started", **self.fields, "reserved": amount_json(reserved)}

    def finished(
        self, reply: Recorded, cache: str, rank: int | None, billed_usd: float | None
    ) -> dict[str, Any]:
        """The row of a reply. Latency and list price are those of the first time."""
        priced = {} if reply.list_usd is not None else {"price": "unknown"}
        return self._ended() | {
            "outcome": "ok",
            "cache": cache,
            "status": reply.status,
            "model_reported": reply.model_reported,
            "tokens": reply.tokens.to_json(),
            "upstream_ms": round(reply.ms, 3),
            "list_usd": reply.list_usd,
            "billed_usd": billed_usd,
            "rank": rank,
            **priced,
        }

    def failed(self, failure: ModelFailure) -> dict[str, Any]:
        """The row of a failure."""
        why = {"kind": failure.kind, "message": failure.message}
        row = self._ended() | {"outcome": _OUTCOMES.get(failure.kind, "failed"), "failure": why}
        if isinstance(failure, Refused):
            why["reason"] = failure.reason
        if isinstance(failure, UpstreamFailure):
            row["status"] = failure.status
            row.setdefault("attempts", failure.attempts)
        return row

    def _ended(self) -> dict[str, Any]:
        ms = round((time.perf_counter() - self._began) * 1000, 3)
        return {"event": "finished", **self.fields, "ms": ms}


def amount_json(amount: Amount) -> dict[str, Any]:
    """An amount as the ledger has it."""
    return {"usd": amount.usd, "tokens": amount.tokens, "calls": amount.calls}


def totals_of(calls: Path) -> dict[str, dict[str, Any]]:
    """Calls, tokens and money of a ledger, by system.

    ``list_usd`` is as if nothing had been cached, ``billed_usd`` what this run paid; ``unpriced``
    counts the calls whose price is not known. ``possibly_billed_usd`` is what failed calls may have
    cost at most.
    """
    systems: dict[str, dict[str, Any]] = {}
    for row in read_rows(calls):
        if row["event"] != "finished":
            continue
        found = systems.setdefault(row["system"], dict(_NOTHING))
        found["calls"] += 1
        charged = (row.get("charged") or {}).get("usd", 0.0)
        if row["outcome"] != "ok":
            found["failed"] += 1
            found["possibly_billed_usd"] += charged
            continue
        tokens: Mapping[str, Any] = row.get("tokens") or {}
        found["cache_hits"] += row["cache"] in ("hit", "shared")
        found["prompt_tokens"] += tokens.get("prompt", 0)
        found["completion_tokens"] += tokens.get("completion", 0)
        found["estimated_calls"] += bool(tokens.get("estimated"))
        found["list_usd"] += row.get("list_usd") or 0.0
        found["billed_usd"] += row.get("billed_usd") or 0.0
        found["unpriced"] += row.get("price") == "unknown"
    return systems


_NOTHING: Mapping[str, Any] = {
    "calls": 0,
    "failed": 0,
    "cache_hits": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "estimated_calls": 0,
    "list_usd": 0.0,
    "billed_usd": 0.0,
    "possibly_billed_usd": 0.0,
    "unpriced": 0,
}
