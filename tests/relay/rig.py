"""Boxes whose adapter uses the OpenAI SDK, and a scripted host behind them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.outcomes import ModelFailure
from harness.sandbox.base import Box, BoxRequest, Limits, ModelCall, Reply
from harness.sandbox.client import MemoryClient
from harness.sandbox.process import ProcessLauncher

ROOT = Path(__file__).resolve().parents[2]
BOXES = Path(__file__).parent / "boxes"
SDK = BOXES / "OpenAISDK"
LIMITS = Limits(start_s=60, call_s=60)

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def completion(text: str | None, **message: Any) -> dict[str, Any]:
    """A whole chat completion."""
    said = {"role": "assistant", "content": text, **message}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-test-scripted",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": reason}],
        "usage": USAGE,
    }


def responded(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole reply of the responses API."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000.0,
        "status": "completed",
        "model": "gpt-test-scripted",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7,
        },
        **fields,
    }


def said(text: str) -> dict[str, Any]:
    """A message of the responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    head = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**head, "content": [part]}


def reply(body: Any, status: int = 200, **headers: str) -> dict[str, Any]:
    return {"status": status, "headers": headers, "body": body}


@dataclass
class Host:
    """Answers ``model.call``. ``answer`` may be set to anything else; ``asked`` keeps requests."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    answer: Callable[[dict[str, Any]], Any] | None = None
    released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.asked.append(params)
        made = self.answer(params) if self.answer is not None else plain(params)
        if isinstance(made, Exception):
            raise made
        return made if set(made) == {"status", "headers", "body"} else reply(made)

    def hold(self, params: dict[str, Any]) -> dict[str, Any]:
        """An answer that comes when the test lets it."""
        assert self.released.wait(60)
        return plain(params)


def plain(params: dict[str, Any]) -> dict[str, Any]:
    """What a friendly model says to each path."""
    path, body = params["path"], params.get("body", {})
    if path == "/v1/chat/completions":
        content = body["messages"][-1]["content"]
        size = content if isinstance(content, str) else f"{len(json.dumps(content))} characters"
        return completion(f"you said {size}")
    if path == "/v1/responses":
        return responded(said(f"you said {body['input']}"))
    if path == "/v1/embeddings":
        texts = body["input"]
        vectors = [[float(len(text)), 0.5] for text in texts]
        data = [
            {"object": "embedding", "index": i, "embedding": vector}
            for i, vector in enumerate(vectors)
        ]
        return {"object": "list", "model": body["model"], "data": data, "usage": USAGE}
    if path == "/v1/models":
        return {"object": "list", "data": [{"id": "gpt-test", "object": "model"}]}
    return {"echo": params}


def failing(kind: str, message: str = "no") -> Callable[[dict[str, Any]], Exception]:
    return lambda params: ModelFailure(kind, message)


def launcher(limits: Limits = LIMITS, **env: str) -> ProcessLauncher:
    """Process boxes of the SDK adapter."""
    return ProcessLauncher(
        [sys.executable, "-m", "harness.adapter.serve"],
        {"PYTHONPATH": f"{ROOT}:{SDK}", **env},
        None,
        "adapter:SDKAdapter",
        limits,
    )


class SDKBox:
    """A box, and its adapter's commands as a function."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.last = Reply(None)
        MemoryClient(box).reset()

    def do(self, name: str, *, time: str | None = None, **order: Any) -> Any:
        query: dict[str, Any] = {"text": json.dumps({"do": name, **order})}
        if time is not None:
            query["time"] = time
        self.last = self.box.call("retrieve", {"query": query, "top_k": 1})
        return json.loads(self.last.value["items"][0]["text"])


@contextmanager
def started(
    logs: Path,
    host: ModelCall,
    *,
    routes: tuple[str, ...] = ("openai", "memcloud"),
    limits: Limits = LIMITS,
    **env: str,
) -> Iterator[SDKBox]:
    box = launcher(limits, **env).start(BoxRequest("s0001", 7, {}, logs, routes), host)
    try:
        yield SDKBox(box)
    finally:
        box.close()
