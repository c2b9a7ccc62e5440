"""The model port of one box: which adapter call a request belongs to, and where it may go."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.models.canonical import Occurrences
from harness.models.cassette import Place
from harness.models.failures import Refused, UpstreamFailure
from harness.models.gateway import Gateway, Served
from harness.models.hints import SchemaHint, apply_hints
from harness.models.order import GAP_S, PATIENCE_S, ReleaseOrder
from harness.models.policy import Request
from harness.models.routes import EMBEDDINGS, Route
from harness.models.rows import Caller
from harness.outcomes import ModelFailure, UsageError

#: What a relay calls the route that is served by the roles system, embed and vision.
DEFAULT_ROUTE = "openai"


@dataclass
class CallReport:
    """Model requests of one adapter call (or of the background, since the last report).

    ``failed`` ended in a failure of any kind; ``refused``, ``budget_exhausted`` and
    ``replay_misses`` are parts of it. ``unparsed``: JSON was asked for and none came.
    ``out_of_turn``: replies that could not be let go in the recorded order.
    """

    calls: int = 0
    failed: int = 0
    refused: int = 0
    budget_exhausted: int = 0
    replay_misses: int = 0
    unparsed: int = 0
    out_of_turn: int = 0
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For a record."""
        return asdict(self)


class _Open:
    """An adapter call that is open, or the background."""

    def __init__(self, stage: str, session: str | None, number: int | None) -> None:
        self.stage, self.session, self.number = stage, session, number
        self.report = CallReport()
        self._lock = threading.Lock()
        self._rank = 0

    def next_rank(self) -> int | None:
        if self.number is None:
            return None
        with self._lock:
            self._rank += 1
            return self._rank

    def count(self, **changes: int) -> None:
        with self._lock:
            for name, more in changes.items():
                setattr(self.report, name, getattr(self.report, name) + more)

    def count_failure(self, failure: ModelFailure) -> None:
        kinds = {
            "MODEL_REFUSED": "refused",
            "BUDGET_EXHAUSTED": "budget_exhausted",
            "REPLAY_MISS": "replay_misses",
        }
        part = kinds.get(failure.kind)
        self.count(calls=1, failed=1, **({part: 1} if part else {}))
        with self._lock:
            self.report.failure = self.report.failure or str(failure)


class BoxCalls:
    """Answers the ``model.call`` of one box; call it like a function.

    One is made for each attempt at a sample, so that occurrences count from its beginning.

    Args:
        gateway: of the run.
        system, sample, attempt: whose requests these are. ``sample`` is part of every key.
        routes: names of the further routes (vendors' clouds) that the baseline declares.
        hints: schema hints; used only where the route's requests go to the embedded provider.
        force: body fields that are set on the system's own requests (the controlled track's
            temperature and seed), where the path knows them.
        repeat: index of the repeated run; part of every key.
        patience_s, gap_s: how recorded orders are kept; see :class:`ReleaseOrder`.
    """

    def __init__(
        self,
        gateway: Gateway,
        system: str,
        sample: str,
        *,
        attempt: int = 1,
        routes: Sequence[str] = (),
        hints: Sequence[SchemaHint] = (),
        force: Mapping[str, Any] | None = None,
        repeat: int = 0,
        patience_s: float = PATIENCE_S,
        gap_s: float = GAP_S,
    ) -> None:
        self._gateway = gateway
        self._system, self._sample = system, sample
        self._attempt, self._repeat = attempt, repeat
        self._routes = tuple(routes)
        self._hints, self._force = tuple(hints), dict(force or {})
        self._occurrences = Occurrences()
        self._lock = threading.Lock()
        self._number = 0
        self._background = _Open("background", None, None)
        self._open = self._background
        self._order = ReleaseOrder(self._recorded_order, patience_s, gap_s)

    @contextmanager
    def during(self, stage: str, session: str | None = None) -> Iterator[CallReport]:
        """An adapter call is open; its requests are counted in the report that this yields.

        Requests that outlive the call stay counted in it.
        """
        with self._lock:
            self._number += 1
            self._open = _Open(stage, session, self._number)
            report = self._open.report
        try:
            yield report
        finally:
            with self._lock:
                self._open = self._background

    def background(self) -> CallReport:
        """What was asked outside of adapter calls since this was last looked at."""
        with self._lock:
            report = self._background.report
            self._background.report = CallReport()
        return report

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serve one ``model.call``: ``{route, method, path, headers?, body}``.

        Returns:
            ``{status, headers, body}``. An upstream's own refusal comes back as its status, so
            that the SDK in the box raises what it would have raised; its headers say
            ``x-should-retry: false``, for the gateway has retried already.

        Raises:
            ModelFailure: refused, no budget, not recorded, or no reply of any kind.
        """
        with self._lock:
            call = self._open
        try:
            served = self._serve(params, call)
        except UpstreamFailure as failure:
            call.count_failure(failure)
            if failure.status is None:
                raise
            return _error_reply(failure)
        except ModelFailure as failure:
            call.count_failure(failure)
            raise
        call.count(calls=1, unparsed=int(bool(served.row.get("unparsed"))))
        if call.number is not None and served.cache == "hit" and served.key is not None:
            in_turn = self._order.wait(call.number, served.key)
            call.count(out_of_turn=int(not in_turn))
        headers = {"content-type": "application/json", "x-memrig-cache": served.cache}
        return {"status": served.reply.status, "headers": headers, "body": served.reply.body}

    def _recorded_order(self, number: int, key: str) -> list[str]:
        backend = self._gateway.backend
        if backend.cassette is None:
            return []
        place, resumes = self._place(number), backend.mode == "record"
        return backend.cassette.order_of(place, key, same_run=resumes)

    def _place(self, number: int | None) -> Place:
        return Place(self._gateway.run, self._system, self._sample, self._attempt, number)

    def _serve(self, params: Mapping[str, Any], call: _Open) -> Served:
        caller = Caller(
            self._place(call.number),
            self._occurrences,
            call.stage,
            session=call.session,
            repeat=self._repeat,
            next_rank=call.next_rank,
        )
        request = Request("", "", "")
        try:
            request = Request.from_params(params)
            role, route = self._target(request)
        except Refused as refusal:
            self._gateway.refuse(request, caller, refusal)
            raise
        notes: tuple[str, ...] = ()
        if role in ("system", "vision") and self._force:
            route = replace(route, force={**route.force, **self._force})
        if route.name == "embedded":
            request, notes = apply_hints(request, self._hints)
        return self._gateway.ask(request, route, replace(caller, role=role), notes)

    def _target(self, request: Request) -> tuple[str | None, Route]:
        """Role and route of a request.

        Raises:
            Refused: not a declared route, or the profile has no model for the role.
        """
        setup = self._gateway.backend.setup
        if request.route in self._routes:
            return None, setup.route(request.route)
        if request.route not in ("", DEFAULT_ROUTE):
            declared = ", ".join((DEFAULT_ROUTE, *self._routes))
            raise Refused(
                "route", f"{request.route!r} is not a declared route; declared: {declared}"
            )
        role = "embed" if request.path.rstrip("/").endswith(EMBEDDINGS) else "system"
        if role == "system" and "vision" in setup.roles and _has_image(request.body):
            role = "vision"
        try:
            return role, setup.route(setup.role(role).route)
        except UsageError as error:
            raise Refused("role", str(error)) from None


def _has_image(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("type") in ("image_url", "input_image") or any(
            map(_has_image, value.values())
        )
    return isinstance(value, list) and any(map(_has_image, value))


def _error_reply(failure: UpstreamFailure) -> dict[str, Any]:
    body = failure.body
    if not isinstance(body, dict):
        body = {"error": {"message": failure.message, "type": failure.kind, "code": failure.kind}}
    headers = {"content-type": "application/json", "x-should-retry": "false"}
    return {"status": failure.status, "headers": headers, "body": body}
