"""Money, tokens and calls: reserved before a call, settled after it, never exceeded.

What is reserved is the most that the call can cost, so that any number of threads together stay
below the limit. A call that fits only if others turn out cheaper waits for them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from harness.models.failures import BudgetExhausted

#: A run stops here unless told otherwise. US dollars.
DEFAULT_RUN_USD = 5.0


@dataclass(frozen=True)
class Amount:
    """What a call costs, or may cost: US dollars, tokens, calls."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens, self.calls + other.calls)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens, self.calls - other.calls)


@dataclass(frozen=True)
class Cap:
    """Upper limits; ``None`` is none."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    def exceeded_by(self, amount: Amount) -> str | None:
        """Which limit an amount is above, for a person, or ``None``."""
        if self.usd is not None and amount.usd > self.usd + 1e-9:
            return f"{amount.usd:.4f} of {self.usd:g} USD"
        if self.tokens is not None and amount.tokens > self.tokens:
            return f"{amount.tokens} of {self.tokens} tokens"
        if self.calls is not None and amount.calls > self.calls:
            return f"{amount.calls} of {self.calls} calls"
        return None


@dataclass(frozen=True)
class Caps:
    """Limits of a run: of all of it, of each system in it, of each sample of each system."""

    run: Cap = Cap(usd=DEFAULT_RUN_USD)
    system: Cap = Cap()
    sample: Cap = Cap()

    @property
    def in_money(self) -> bool:
        """Whether any limit is in money."""
        return any(cap.usd is not None for cap in (self.run, self.system, self.sample))


@dataclass
class _Account:
    spent: Amount = Amount()
    reserved: Amount = Amount()


@dataclass(frozen=True)
class Reservation:
    """Money set aside for one open call."""

    accounts: tuple[tuple[str, ...], ...]
    amount: Amount


@dataclass
class Budget:
    """The accounts of one process. Safe from any thread."""

    caps: Caps = Caps()
    _accounts: dict[tuple[str, ...], _Account] = field(
        default_factory=lambda: defaultdict(_Account), repr=False
    )
    _settled: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def reserve(self, run: str, system: str, sample: str, most: Amount) -> Reservation:
        """Set aside the most that a call can cost.

        Blocks while it would fit but for what other open calls have set aside.

        Raises:
            BudgetExhausted: it does not fit even if those others cost nothing.
        """
        accounts = _accounts_of(run, system, sample)
        with self._settled:
            while True:
                waits = False
                for account, cap in zip(accounts, self._caps(), strict=True):
                    held = self._accounts[account]
                    if above := cap.exceeded_by(held.spent + most):
                        raise BudgetExhausted(
                            account[0], _explain(account, held.spent, most, above)
                        )
                    waits |= cap.exceeded_by(held.spent + held.reserved + most) is not None
                if not waits:
                    break
                self._settled.wait()
            for account in accounts:
                self._accounts[account].reserved += most
        return Reservation(accounts, most)

    def settle(self, reservation: Reservation, actual: Amount) -> None:
        """Book what a call did cost in place of what was set aside. Zero gives it all back."""
        with self._settled:
            for account in reservation.accounts:
                held = self._accounts[account]
                held.reserved -= reservation.amount
                held.spent += actual
            self._settled.notify_all()

    def book(self, run: str, system: str, sample: str, amount: Amount) -> None:
        """Count what was spent before this process: a run that is resumed."""
        with self._settled:
            for account in _accounts_of(run, system, sample):
                self._accounts[account].spent += amount

    def spent(self, run: str, system: str | None = None, sample: str | None = None) -> Amount:
        """What has been spent so far, by run, system or sample."""
        parts = [part for part in (run, system, sample) if part is not None]
        with self._settled:
            return self._accounts[(("run", "system", "sample")[len(parts) - 1], *parts)].spent

    def _caps(self) -> tuple[Cap, Cap, Cap]:
        return self.caps.run, self.caps.system, self.caps.sample


def _accounts_of(run: str, system: str, sample: str) -> tuple[tuple[str, ...], ...]:
    return ("run", run), ("system", run, system), ("sample", run, system, sample)


def _explain(account: tuple[str, ...], spent: Amount, most: Amount, above: str) -> str:
    scope = {"run": "the run", "system": f"system {account[-1]}", "sample": f"sample {account[-1]}"}
    return (
        f"the budget of {scope[account[0]]} is used up: with up to {most.usd:.4f} USD and "
        f"{most.tokens} tokens for this call it could reach {above} "
        f"(spent: {spent.usd:.4f} USD, {spent.tokens} tokens, {spent.calls} calls)"
    )
