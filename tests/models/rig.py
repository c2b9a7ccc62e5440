"""A gateway over the scripted server, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.models.backend import Backend, Mode
from harness.models.budget import Cap, Caps
from harness.models.cassette import Cassette
from harness.models.dotenv import Secrets
from harness.models.gateway import Gateway
from harness.models.http_pool import HttpPool
from harness.models.ledger import read_rows
from harness.models.pricing import Price, PriceList
from harness.models.routes import Auth, RoleModel, Route, Setup

KEY = "sk-test-0123456789abcdef"
PRICES = PriceList({"openai": {"gpt-test": Price(1.0, 2.0, 0.5, "made up for the tests")}})
NO_MONEY = Caps(run=Cap())


def route_to(url: str, **changes: Any) -> Route:
    """The route ``openai`` to a server of the test: paid, quick to retry."""
    made = Route(
        "openai",
        url,
        Auth("OPENAI_API_KEY"),
        models=("gpt-test", "embed-test"),
        timeout_s=5.0,
        patience_s=20.0,
        retry_wait_s=0.01,
    )
    return replace(made, **changes)


def setup_for(url: str, *, key: str | None = KEY, **changes: Any) -> Setup:
    route = route_to(url, **changes)
    chat = RoleModel("openai", "gpt-test")
    roles = {role: chat for role in ("system", "answer", "judge", "vision")}
    roles["embed"] = RoleModel("openai", "embed-test")
    secrets = Secrets({"OPENAI_API_KEY": key} if key else {})
    return Setup("test", {"openai": route}, roles, secrets)


@contextmanager
def gateway_over(
    setup: Setup,
    folder: Path,
    *,
    mode: Mode = "record",
    run: str = "r1",
    caps: Caps | None = NO_MONEY,
    prices: PriceList = PRICES,
    tape: Path | None = None,
) -> Iterator[Gateway]:
    """A gateway with its backend and its cassette ``folder/tape.sqlite``."""
    path = tape or folder / "tape.sqlite"
    cassette = Cassette(path, read_only=mode == "replay") if mode != "live" else None
    backend = Backend(setup, mode, cassette, prices=prices, http=HttpPool(proxies={}))
    gateway = Gateway(backend, run, folder / run / "calls.jsonl", caps)
    try:
        yield gateway
    finally:
        gateway.close()
        backend.close()
        if cassette is not None:
            cassette.close()


def chat(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Parameters of a ``model.call``."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "gpt-test", "messages": messages, **fields}
    return {"route": "openai", "method": "POST", "path": "/v1/chat/completions", "body": body}


def embed(*texts: str, **fields: Any) -> dict[str, Any]:
    body = {"model": "embed-test", "input": list(texts), **fields}
    return {"route": "openai", "method": "POST", "path": "/v1/embeddings", "body": body}


def said(reply: Mapping[str, Any]) -> str:
    text: str = reply["body"]["choices"][0]["message"]["content"]
    return text


def finished(gateway: Gateway) -> list[dict[str, Any]]:
    return [row for row in read_rows(gateway.ledger.path) if row["event"] == "finished"]


def everything_in(folder: Path) -> bytes:
    """All bytes of all files below a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
