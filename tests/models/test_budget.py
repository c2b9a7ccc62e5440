"""Budgets: reserved before, settled after, never exceeded; prices that nobody has seen."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.models.budget import Amount, Budget, Cap, Caps
from harness.models.failures import BudgetExhausted
from harness.models.pricing import PriceList
from harness.models.rows import totals_of
from harness.outcomes import DataError, ModelFailure
from models.rig import PRICES, chat, finished, gateway_over, setup_for
from models.scripted import ScriptedServer


def test_never_exceeded_by_64_threads() -> None:
    budget = Budget(Caps(run=Cap(usd=1.0, tokens=5_000), sample=Cap(calls=40)))
    peak: list[Amount] = []
    lock = threading.Lock()

    def one(n: int) -> bool:
        draw = random.Random(n)
        try:
            held = budget.reserve("r", "RAG", f"s{n % 3}", Amount(0.05, 200, 1))
        except BudgetExhausted:
            return False
        actual = Amount(draw.uniform(0, 0.05), draw.randint(0, 200), 1)
        threading.Event().wait(draw.uniform(0, 0.002))
        budget.settle(held, actual)
        with lock:
            peak.append(budget.spent("r"))
        return True

    with ThreadPoolExecutor(64) as pool:
        made = list(pool.map(one, range(400)))
    assert 0 < sum(made) < 400
    assert all(amount.usd <= 1.0 and amount.tokens <= 5_000 for amount in peak)
    for n in range(3):
        assert budget.spent("r", "RAG", f"s{n}").calls <= 40
    # What could not be spent is less than one call: nothing was refused too early.
    spent = budget.spent("r")
    assert spent.usd > 0.95 or spent.tokens > 4_800 or spent.calls == 120


def test_a_call_waits_for_others_to_turn_out_cheaper() -> None:
    budget = Budget(Caps(run=Cap(usd=1.0)))
    first = budget.reserve("r", "RAG", "s", Amount(0.9, 0, 1))
    got = threading.Event()

    def second() -> None:
        budget.settle(budget.reserve("r", "RAG", "s", Amount(0.5, 0, 1)), Amount(0.5, 0, 1))
        got.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not got.wait(0.1)
    budget.settle(first, Amount(0.1, 0, 1))
    assert got.wait(2)
    thread.join()
    with pytest.raises(BudgetExhausted, match="the run"):
        budget.reserve("r", "RAG", "s", Amount(0.5, 0, 1))


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (Caps(run=Cap(calls=3)), "the run"),
        (Caps(run=Cap(), system=Cap(calls=3)), "system RAG"),
        (Caps(run=Cap(), sample=Cap(calls=3)), "sample s0001"),
        (Caps(run=Cap(tokens=600)), "tokens"),
        (Caps(run=Cap(usd=0.0006)), "USD"),
    ],
)
def test_the_gateway_stops_with_a_status(caps: Caps, words: str, tmp_path: Path) -> None:
    with (
        ScriptedServer() as server,
        gateway_over(setup_for(server.url), tmp_path, caps=caps) as gateway,
    ):
        box = gateway.for_box("RAG", "s0001")
        with box.during("end_session") as report, pytest.raises(ModelFailure) as stop:
            for n in range(50):
                box(chat(f"question {n}", max_tokens=100))
        assert stop.value.kind == "BUDGET_EXHAUSTED"
        assert words in stop.value.message
        assert report.budget_exhausted == 1
        row = finished(gateway)[-1]
        assert row["outcome"] == "budget_exhausted"
        asked = server.count()
        # What is recorded already costs nothing and goes on.
        again = gateway.for_box("RAG", "s0001")
        assert again(chat("question 0", max_tokens=100))["status"] == 200
        assert server.count() == asked


def test_a_resumed_run_counts_what_it_spent(tmp_path: Path) -> None:
    caps = Caps(run=Cap(calls=3))
    with ScriptedServer() as server:
        setup = setup_for(server.url)
        with gateway_over(setup, tmp_path, caps=caps) as gateway:
            for n in range(2):
                gateway.for_box("RAG", "s0001")(chat(f"{n}"))
        with gateway_over(setup, tmp_path, caps=caps) as gateway:
            box = gateway.for_box("RAG", "s0002")
            box(chat("2"))
            with pytest.raises(BudgetExhausted):
                box(chat("3"))
        assert server.count() == 3


def test_money_of_the_ledger_is_the_price_of_its_tokens(tmp_path: Path) -> None:
    with ScriptedServer() as server, gateway_over(setup_for(server.url), tmp_path) as gateway:
        box = gateway.for_box("RAG", "s0001")
        for n in range(3):
            box(chat(f"question {n}", temperature=0))
            box(chat(f"question {n}", temperature=0))
        totals = totals_of(gateway.ledger.path)["RAG"]
        expected = (server.tokens["prompt"] * 1.0 + server.tokens["completion"] * 2.0) / 1e6
        assert totals["billed_usd"] == pytest.approx(expected)
        assert totals["list_usd"] == pytest.approx(2 * expected), "as if nothing were cached"
        assert gateway.budget.spent("r1").usd == pytest.approx(expected)


def test_an_unknown_price_under_a_budget_in_money(tmp_path: Path) -> None:
    nothing = PriceList({})
    with ScriptedServer() as server:
        setup = setup_for(server.url)
        with gateway_over(setup, tmp_path, caps=None, prices=nothing) as gateway:
            with pytest.raises(ModelFailure) as refused:
                gateway.for_box("RAG", "s0001")(chat())
            assert refused.value.kind == "PRICE_UNKNOWN"
            assert "gpt-test" in refused.value.message
            assert "prices" in refused.value.message
            assert server.requests == []
        with gateway_over(
            setup, tmp_path, run="r2", caps=Caps(run=Cap(tokens=100_000)), prices=nothing
        ) as gateway:
            assert gateway.for_box("RAG", "s0001")(chat())["status"] == 200
            row = finished(gateway)[0]
            assert row["list_usd"] is None
            assert row["price"] == "unknown"
            assert totals_of(gateway.ledger.path)["RAG"]["unpriced"] == 1


def test_the_default_budget_is_five_dollars(tmp_path: Path) -> None:
    with (
        ScriptedServer() as server,
        gateway_over(setup_for(server.url), tmp_path, caps=None, prices=PRICES) as gateway,
    ):
        assert gateway.caps.run == Cap(usd=5.0)


def test_shipped_prices_and_a_users_over_them(tmp_path: Path) -> None:
    route = setup_for("http://127.0.0.1:1/v1").routes["openai"]
    shipped = PriceList.load()
    known = shipped.of(route, "gpt-4o-mini")
    assert known is not None and known.seen
    assert shipped.of(route, "a-model-nobody-has-seen") is None
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "schema: 1\nsections:\n  openai:\n    gpt-4o-mini: {input: unknown, output: 1, seen: me}\n"
        "    house-*: {input: 7, output: 8, seen: me}\n"
    )
    over = PriceList.load(mine)
    assert over.of(route, "gpt-4o-mini") is None
    house = over.of(route, "house-7b")
    assert house is not None and (house.input, house.cached_input) == (7, 7)
    assert set(over.sources) == {"pricing.yaml", "mine.yaml"}
    mine.write_text("schema: 1\nsections:\n  openai:\n    gpt: {input: -1, output: 1, seen: me}\n")
    with pytest.raises(DataError, match=r"mine\.yaml:4"):
        PriceList.load(mine)
