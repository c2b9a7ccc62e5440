"""Clients of a box's model relay with nothing in their way: raw sockets, kept open."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

from harness.adapter.contract import MemoryAdapter
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)

BODY = {"model": "gpt-test", "messages": [{"role": "user", "content": "What is tea? " * 40}]}


class Caller(MemoryAdapter):
    """A query is ``CLIENTS REQUESTS``: so many clients, each so many requests."""

    def reset(self) -> None:
        """There is nothing to forget."""

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Nothing is stored."""

    def end_session(self, session_id: str) -> None:
        """Nothing to finish."""

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Nothing is stored."""
        return []

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """One item: a JSON list of milliseconds, one for each request."""
        clients, requests = map(int, query.text.split())
        took: list[float] = []
        threads = [
            threading.Thread(target=self._ask, args=(requests, took)) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return RetrievalRecord((RetrievedItem("m1", json.dumps(took)),))

    def _ask(self, requests: int, took: list[float]) -> None:
        assert self.setup.model_url is not None
        port = int(self.setup.model_url.split(":")[2].partition("/")[0])
        body = json.dumps(BODY).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: box\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {self.setup.model_token}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        message = head.encode() + body
        with socket.create_connection(("127.0.0.1", port)) as held, held.makefile("rb") as replies:
            held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(requests):
                started = time.perf_counter()
                held.sendall(message)
                length = 0
                if b" 200 " not in replies.readline():
                    raise RuntimeError("the relay refused")
                while line := replies.readline().strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name == b"content-length" else length
                replies.read(length)
                took.append((time.perf_counter() - started) * 1000)

    def get_capabilities(self) -> dict[str, Any]:
        """It needs a model and nothing else."""
        return {"update_semantics": "append", "needs": ("chat",)}
