"""What the runs of one process share: upstreams, lanes, the cassette, prices, what was learned."""

from __future__ import annotations

from typing import Literal

from harness.models.cassette import Cassette
from harness.models.checks import Checks
from harness.models.flights import Flights
from harness.models.http_pool import HttpPool
from harness.models.lanes import Lanes
from harness.models.openai_compat import Compat
from harness.models.pricing import PriceList
from harness.models.redact import Redactor
from harness.models.routes import Setup
from harness.models.upstream import Upstream
from harness.outcomes import UsageError

#: ``record`` reads through the cassette and adds to it, ``replay`` never calls out, ``live``
#: neither reads nor writes it.
Mode = Literal["record", "replay", "live"]


class Backend:
    """Shared by all gateways of a process.

    Args:
        setup: routes, roles and keys.
        mode: see :data:`Mode`.
        cassette: needed but for ``live``; stays its owner's to close.
        prices: what calls cost; the shipped list when not given.
        http: the client (tests, a CA file of one's own).

    Raises:
        UsageError: a mode without the cassette that it needs.
    """

    def __init__(
        self,
        setup: Setup,
        mode: Mode = "record",
        cassette: Cassette | None = None,
        *,
        prices: PriceList | None = None,
        http: HttpPool | None = None,
    ) -> None:
        if mode != "live" and cassette is None:
            raise UsageError(f"mode {mode} needs a cassette")
        if mode == "record" and cassette is not None and cassette.read_only:
            raise UsageError(
                f"{cassette.path} is open for reading only; it cannot be recorded into"
            )
        self.setup = setup
        self.mode: Mode = mode
        self.cassette = None if mode == "live" else cassette
        self.prices = prices or PriceList.load()
        self.redactor = Redactor(setup.secrets.secret_values())
        self.lanes = Lanes()
        self.flights = Flights()
        self.checks = Checks(self.recorder)
        if self.recorder is not None:
            self.recorder.note_setup(setup.manifest())
        read = self.cassette.fact if self.cassette else None
        write = self.recorder.learn if self.recorder else None
        self.upstream = Upstream(setup, self.redactor, self.lanes, Compat(read, write), http)

    @property
    def recorder(self) -> Cassette | None:
        """The cassette where replies are added to it."""
        return self.cassette if self.mode == "record" else None

    def close(self) -> None:
        """Stop what is open."""
        self.upstream.close()
