"""The one way to a model: policy, key, cassette, budget, lane, upstream, ledger. In that order.

One :class:`Gateway` serves one run; what runs share is its :class:`Backend`. Boxes come in through
:meth:`Gateway.for_box`, the host's answerer and judges through :meth:`Gateway.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.models.backend import Backend
from harness.models.budget import Amount, Budget, Caps
from harness.models.canonical import Canonical, canonical
from harness.models.cassette import Recorded
from harness.models.checks import unparsed
from harness.models.failures import PriceUnknown, Refused, ReplayMiss, StoreFull, UpstreamFailure
from harness.models.ledger import Ledger, read_rows, unfinished
from harness.models.policy import Admitted, Request, admit
from harness.models.routes import MODELS, Route
from harness.models.rows import Caller, CallRow
from harness.models.store import CassetteError
from harness.models.upstream import Answer
from harness.models.usage import Tokens, most_tokens, tokens_of
from harness.outcomes import ModelFailure

if TYPE_CHECKING:  # both are made of a gateway
    from harness.models.box import BoxCalls
    from harness.models.client import ModelClient

#: Failures after which the upstream may want money although no usable reply came back. The budget
#: books the most that they can have cost.
_MAY_BE_BILLED = {"MODEL_TIMEOUT", "MODEL_BAD_REPLY", "MODEL_REPLY_TOO_LARGE"}


@dataclass(frozen=True)
class Served:
    """A reply as it is handed on, and its ledger row.

    ``cache``: ``miss`` (fresh), ``hit``, ``shared`` (with an equal request that was open), or
    ``local`` (the list of models, which no upstream is asked for).
    """

    reply: Recorded
    key: str | None
    cache: str
    row: Mapping[str, Any]


class Gateway:
    """Serves the model requests of one run, from any thread.

    Args:
        backend: shared with other runs.
        run: id of the run; its ledger rows carry it.
        calls: path of the run's ``calls.jsonl``.
        caps: limits in money, tokens and calls. What the ledger says was spent before counts.
        listen: told of every ledger row.
    """

    def __init__(
        self,
        backend: Backend,
        run: str,
        calls: Path,
        caps: Caps | None = None,
        listen: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.backend = backend
        self.run = run
        self.caps = caps or Caps()
        self.budget = Budget(self.caps)
        #: Set once nothing can be recorded any more; every later request fails with it at once,
        #: so that nothing is paid for that cannot be kept.
        self.fatal: StoreFull | None = None
        committed = backend.recorder.lines_of(run) if backend.recorder else ()
        self.ledger = Ledger(calls, backend.redactor, committed, listen)
        self._book_earlier(calls)

    def _book_earlier(self, calls: Path) -> None:
        """A resumed run has spent already; calls that were open when it died may be billed too."""
        rows = list(read_rows(calls))
        finished = [(row, row.get("charged")) for row in rows if row["event"] == "finished"]
        died = [(row, row.get("reserved")) for row in unfinished(rows)]
        for row, amount in (*finished, *died):
            if amount:
                self.budget.book(self.run, row["system"], row["sample"], Amount(**amount))

    def for_box(self, system: str, sample: str, **options: Any) -> BoxCalls:
        """The model port of one box, for one attempt at one sample; see :class:`BoxCalls`."""
        from harness.models.box import BoxCalls

        return BoxCalls(self, system, sample, **options)

    def client(self, role: str, system: str) -> ModelClient:
        """The host's own client for a role (answer, judge, embed, vision).

        Raises:
            UsageError: the profile names no model for it.
        """
        from harness.models.client import ModelClient

        return ModelClient(self, role, system)

    def ask(
        self, request: Request, route: Route, caller: Caller, rewrites: tuple[str, ...] = ()
    ) -> Served:
        """Serve one request.

        Args:
            request: as the client made it.
            route: where it may go.
            caller: who asks.
            rewrites: what was changed in it on the way here.

        Raises:
            ModelFailure: typed, after its ledger row was written.
        """
        row = CallRow(request, route.name, self.backend.mode, caller)
        row.rewrites(*rewrites)
        try:
            if self.fatal is not None:
                raise self.fatal
            admitted = admit(request, route)
            row.add(
                model_asked=admitted.asked,
                model_sent=admitted.model,
                dropped=list(admitted.dropped),
            )
            if route.kind == "openai" and admitted.path == MODELS:
                return self._models(route, row)
            wanted = canonical(admitted, caller.place.sample, caller.repeat)
            i = caller.occurrences.next(wanted)
            key = wanted.key(i)
            row.add(key=key)
            if not wanted.deterministic:
                return self._resolve(admitted, wanted, i, caller, row)
            served, shared = self.backend.flights.share(
                key, lambda: self._resolve(admitted, wanted, i, caller, row)
            )
            return self._hand_on(served.reply, key, caller, row, "shared") if shared else served
        except (ModelFailure, CassetteError) as error:
            raise self._failed(row, error) from None

    def _resolve(
        self, admitted: Admitted, wanted: Canonical, i: int, caller: Caller, row: CallRow
    ) -> Served:
        cassette = self.backend.cassette
        if cassette is not None:
            key = wanted.key(i)
            found = cassette.find(key)
            if found is not None:
                return self._hand_on(found, key, caller, row, "hit")
            if self.backend.mode == "replay":
                raise ReplayMiss(cassette.miss(wanted, i))
        return self._fetch(admitted, wanted, i, caller, row)

    def _hand_on(
        self, reply: Recorded, key: str, caller: Caller, row: CallRow, cache: str
    ) -> Served:
        """A reply that is here already: nothing is billed."""
        rank = caller.next_rank()
        line = self.ledger.row(row.finished(reply, cache, rank, 0.0))
        if self.backend.recorder is not None:
            self.backend.recorder.note_call(line, caller.place, rank, key)
        self.ledger.write(line)
        return Served(reply, key, cache, line)

    def _fetch(
        self, admitted: Admitted, wanted: Canonical, i: int, caller: Caller, row: CallRow
    ) -> Served:
        """A reply that the upstream has to make: reserve, ask, check, price, commit, settle."""
        place = caller.place
        price = self.backend.prices.of(admitted.route, admitted.model)
        if price is None and self.caps.in_money:
            raise PriceUnknown(_price_help(admitted))
        tokens = most_tokens(admitted)
        most = Amount(price.cost(tokens) if price else 0.0, tokens.total, 1)
        held = self.budget.reserve(self.run, place.system, place.sample, most)
        charge = Amount()
        try:
            self.ledger.write(self.ledger.row(row.started(most)))
            answer = self.backend.upstream.ask(admitted)
            tokens = tokens_of(admitted, answer.body)
            usd = price.cost(tokens) if price else None
            charge = Amount(usd or 0.0, tokens.total, 1)
            row.charge(charge)
            self.backend.checks.check(admitted, answer.body, tokens)
            return self._commit(admitted, wanted, i, caller, row, answer, tokens, usd)
        except UpstreamFailure as failure:
            if failure.kind in _MAY_BE_BILLED:
                charge = most
                row.charge(charge)
            raise
        finally:
            self.budget.settle(held, charge)

    def _commit(
        self,
        admitted: Admitted,
        wanted: Canonical,
        i: int,
        caller: Caller,
        row: CallRow,
        answer: Answer,
        tokens: Tokens,
        usd: float | None,
    ) -> Served:
        """Nothing is handed on that is not in the cassette and in the ledger first."""
        reported = answer.body.get("model") if isinstance(answer.body, dict) else None
        reply = Recorded(
            answer.status,
            answer.body,
            tokens,
            answer.ms,
            usd,
            reported if isinstance(reported, str) else None,
        )
        row.rewrites(*answer.rewrites)
        row.add(attempts=answer.attempts, queue_ms=round(answer.queue_ms, 3))
        row.add(unparsed=True if unparsed(admitted, answer.body) else None)
        rank = caller.next_rank()
        line = self.ledger.row(row.finished(reply, "miss", rank, usd))
        if self.backend.recorder is not None:
            reply = self.backend.recorder.record(wanted, i, reply, line, caller.place, rank)
        self.ledger.write(line)
        return Served(reply, wanted.key(i), "miss", line)

    def refuse(self, request: Request, caller: Caller, refusal: Refused) -> None:
        """Write down a request that was refused before it had a route.

        Raises:
            StoreFull: no space.
        """
        row = CallRow(request, request.route[:100], self.backend.mode, caller)
        self.ledger.write(self.ledger.row(row.failed(refusal)))

    def _models(self, route: Route, row: CallRow) -> Served:
        """The models that may be asked for; no upstream is asked."""
        names = [*route.models, *(name for name, _ in route.aliases)]
        data = [{"id": name, "object": "model", "owned_by": "memrig"} for name in names]
        reply = Recorded(200, {"object": "list", "data": data}, Tokens(), 0.0, 0.0, None)
        line = self.ledger.row(row.finished(reply, "local", None, 0.0))
        self.ledger.write(line)
        return Served(reply, None, "local", line)

    def _failed(self, row: CallRow, error: ModelFailure | CassetteError) -> ModelFailure:
        """Write down how a request failed; returns what its caller is told."""
        failure = error if isinstance(error, ModelFailure) else StoreFull(str(error))
        if isinstance(failure, StoreFull):
            self.fatal = self.fatal or failure
        try:
            self.ledger.write(self.ledger.row(row.failed(failure)))
        except StoreFull as full:
            self.fatal = self.fatal or full
            return full
        return failure

    def close(self) -> None:
        """Let go of the ledger."""
        self.ledger.close()


def _price_help(admitted: Admitted) -> str:
    section, model = admitted.route.price_section, admitted.model or "MODEL"
    return (
        f"nobody has told memrig what {model} costs on route {admitted.route.name}, and the budget "
        "is in money. Write its price down, in US dollars per million tokens:\n"
        '  memrig.toml     [models] prices = "my-prices.yaml"\n'
        f"  my-prices.yaml  schema: 1\n                  sections: {{{section}: {{{model}: "
        "{input: 0.0, output: 0.0, seen: when and where}}}\n"
        "or give the budget in tokens or in calls instead"
    )
