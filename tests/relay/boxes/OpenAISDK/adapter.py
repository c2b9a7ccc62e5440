"""An adapter that uses the unmodified OpenAI SDK, told by a query what to do with it.

A query is a JSON object ``{"do": NAME, ...}``; its one item is a JSON value. With the option
``timeout`` each session's end asks the model and waits no longer than that.
"""

# What systems do, on Python 3.9 too:
# ruff: noqa: DTZ005, DTZ011, UP017, UP041, I001
from __future__ import annotations

import asyncio
import datetime
import json
import os
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

import openai
from harness.adapter.contract import AdapterError, MemoryAdapter
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)

HELLO = [{"role": "user", "content": "hello"}]


class SDKAdapter(MemoryAdapter):
    def reset(self) -> None:
        self.client = openai.OpenAI()
        self.seen: list[str] = []

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        self.seen.append(datetime.datetime.now().isoformat())

    def end_session(self, session_id: str) -> None:
        if "timeout" in self.setup.options:
            self.do_give_up(self.setup.options)

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        return [MemorySnapshotRecord(f"m{i}", text) for i, text in enumerate(self.seen)]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        if not query.text.startswith("{"):
            return RetrievalRecord()
        order = json.loads(query.text)
        value = getattr(self, "do_" + order.pop("do"))(order)
        return RetrievalRecord((RetrievedItem("m1", json.dumps(value)),))

    def get_capabilities(self) -> dict[str, Any]:
        return {"needs": ("chat", "embeddings")}

    # What is asked of the SDK

    def do_chat(self, order: dict[str, Any]) -> Any:
        fields = {"model": "gpt-test", "messages": HELLO, **order}
        return self.client.chat.completions.create(**fields).model_dump(exclude_unset=True)

    def do_stream(self, order: dict[str, Any]) -> Any:
        """The chunks as they come."""
        fields = {"model": "gpt-test", "messages": HELLO, "stream": True, **order}
        return [
            chunk.model_dump(exclude_unset=True)
            for chunk in self.client.chat.completions.create(**fields)
        ]

    def do_stream_joined(self, order: dict[str, Any]) -> Any:
        """The SDK's own joining of a stream: the reply that it was made of."""
        fields = {"model": "gpt-test", "messages": HELLO, **order}
        with self.client.chat.completions.stream(**fields) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion().model_dump(exclude_unset=True)

    def do_astream(self, order: dict[str, Any]) -> Any:
        async def ask() -> str:
            async with openai.AsyncOpenAI() as client:
                stream = await client.chat.completions.create(
                    model="gpt-test", messages=HELLO, stream=True
                )
                return "".join([c.choices[0].delta.content or "" async for c in stream])

        return asyncio.run(ask())

    def do_responses(self, order: dict[str, Any]) -> Any:
        made = self.client.responses.create(model="gpt-test", input="hello", **order)
        return made.model_dump(exclude_unset=True)

    def do_responses_stream(self, order: dict[str, Any]) -> Any:
        with self.client.responses.stream(model="gpt-test", input="hello", **order) as stream:
            events = list(stream)
        last = events[-1].response.model_dump(exclude_unset=True)
        return [[event.type for event in events], last]

    def do_embed(self, order: dict[str, Any]) -> Any:
        made = self.client.embeddings.create(model="embed-test", **order)
        return [entry.embedding for entry in made.data]

    def do_models(self, order: dict[str, Any]) -> Any:
        return [model.id for model in self.client.models.list()]

    def do_many(self, order: dict[str, Any]) -> Any:
        """``n`` requests at once, each of its own text."""

        async def ask() -> list[str]:
            async with openai.AsyncOpenAI(timeout=60, max_retries=0) as client:

                async def one(i: int) -> str:
                    messages = [{"role": "user", "content": f"number {i}"}]
                    made = await client.chat.completions.create(model="gpt-test", messages=messages)
                    return str(made.choices[0].message.content)

                return list(await asyncio.gather(*(one(i) for i in range(order["n"]))))

        return asyncio.run(ask())

    def do_big(self, order: dict[str, Any]) -> Any:
        """An image of that many bytes in base64; says how long the answer's text is."""
        url = "data:image/png;base64," + "A" * order["bytes"]
        parts = [{"type": "image_url", "image_url": {"url": url}}]
        made = self.client.chat.completions.create(
            model="gpt-test", messages=[{"role": "user", "content": parts}]
        )
        return len(made.choices[0].message.content or "")

    def do_error(self, order: dict[str, Any]) -> Any:
        """What the SDK raises, with its own retries on; ``bytes``: of a message of that length."""
        if "bytes" in order:
            order = {"messages": [{"role": "user", "content": "x" * order["bytes"]}]}
        try:
            self.do_chat(order)
        except openai.APIStatusError as error:
            return [type(error).__name__, error.status_code, error.code, str(error.message)]
        return None

    def do_give_up(self, order: dict[str, Any]) -> Any:
        """Ask with a time-out that is too short, and swallow what comes of it."""
        started = time.monotonic()
        try:
            client = self.client.with_options(timeout=order["timeout"], max_retries=0)
            client.chat.completions.create(model="gpt-test", messages=HELLO)
        except openai.APITimeoutError as error:
            return [type(error).__name__, time.monotonic() - started]
        return None

    def do_give_up_and_fail(self, order: dict[str, Any]) -> Any:
        raise AdapterError("LLM_UNAVAILABLE", str(self.do_give_up(order)))

    def do_leave_behind(self, order: dict[str, Any]) -> Any:
        """Threads that ask and are still waiting when this call ends."""
        self.left: list[str] = []

        def ask() -> None:
            made = self.client.with_options(max_retries=0).chat.completions.create(
                model="gpt-test", messages=HELLO
            )
            self.left.append(str(made.choices[0].message.content))

        self.threads = [threading.Thread(target=ask, daemon=True) for _ in range(order["n"])]
        for thread in self.threads:
            thread.start()

    def do_left_behind(self, order: dict[str, Any]) -> Any:
        """How many of them got their answer."""
        for thread in self.threads:
            thread.join(30)
        return len(self.left)

    def do_half_character(self, order: dict[str, Any]) -> Any:
        """A body that JSON can spell and UTF-8 cannot hold."""
        request = urllib.request.Request(
            f"{self.setup.model_url}/chat/completions",
            data=b'{"model": "gpt-test", "messages": [{"content": "\\ud83d"}]}',
            headers={
                "authorization": f"Bearer {self.setup.model_token}",
                "content-type": "application/json",
            },
        )
        try:
            urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as error:
            return [error.code, json.loads(error.read())["error"]["code"]]
        return None

    def do_wrong_token(self, order: dict[str, Any]) -> Any:
        try:
            self.client.with_options(api_key="sk-another").models.list()
        except openai.AuthenticationError as error:
            return [error.status_code, error.code]
        return None

    def do_vendor(self, order: dict[str, Any]) -> Any:
        """A vendor's cloud, with a header and a scheme of its own."""
        assert self.setup.model_token is not None
        request = urllib.request.Request(
            self.setup.route_url("memcloud") + "/v2/memories?limit=3",
            data=json.dumps({"text": "tea"}).encode(),
            headers={
                "x-memcloud-key": f"Token {self.setup.model_token}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read())

    def do_environment(self, order: dict[str, Any]) -> Any:
        return {
            "env": dict(os.environ),
            "model_url": self.setup.model_url,
            "model_token": self.setup.model_token,
            "relay_imported": "harness.adapter.relay" in sys.modules,
        }

    def do_reach(self, order: dict[str, Any]) -> Any:
        """What happens on the way to an address outside."""
        try:
            socket.create_connection(("192.0.2.1", 443), timeout=2).close()
        except OSError as error:
            return str(error)
        return "connected"

    # What the clock is

    def do_clock(self, order: dict[str, Any]) -> Any:
        """Everything that tells the time of day, and how long real things took."""
        return {
            "now": datetime.datetime.now().isoformat(),
            "utc": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "today": datetime.date.today().isoformat(),
            "time": time.time(),
            "strftime": time.strftime("%Y-%m-%d"),
            "gmtime": time.gmtime().tm_year,
            "uuid1": uuid.uuid1().time,
            "later": datetime.datetime.now().isoformat(),
        }

    def do_waits(self, order: dict[str, Any]) -> Any:
        """Sleeping and waiting of every kind for 0.2 s: how long each took."""
        ready = threading.Event()
        ways = {
            "sleep": lambda: time.sleep(0.2),
            "asyncio": lambda: asyncio.run(asyncio.sleep(0.2)),
            "event": lambda: ready.wait(0.2),
            "asyncio_timeout": lambda: asyncio.run(_wait_for_nothing(0.2)),
        }
        took = {}
        for name, wait in ways.items():
            started = time.monotonic()
            wait()
            took[name] = time.monotonic() - started
        return took

    def do_tls(self, order: dict[str, Any]) -> Any:
        """A handshake with a server of the test whose certificate is valid now, in real time."""
        context = ssl.create_default_context(cadata=order["ca"])
        with (
            socket.create_connection(("127.0.0.1", order["port"]), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return [secured.version(), datetime.date.today().isoformat()]


async def _wait_for_nothing(seconds: float) -> None:
    try:
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    except asyncio.TimeoutError:
        return
