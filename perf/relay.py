"""What the way of a model request costs: client, relay, pipe, host and back, the model aside."""

from __future__ import annotations

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from harness.catalog import Catalog
from harness.config import EvalConfig
from harness.sandbox.base import Box, BoxRequest
from harness.sandbox.factory import make_launcher
from harness.settings import Settings
from perf.measure import Measure

BOXES = Path(__file__).resolve().parent / "boxes"

#: One client's requests, and the 64 clients' boxes and requests each.
ALONE = 500
CROWD_BOXES, CROWD_CLIENTS, CROWD_REQUESTS = 4, 16, 40

REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-test",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Tea is a drink. " * 20},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 160, "completion_tokens": 100, "total_tokens": 260},
}


def at_once(params: dict[str, Any]) -> dict[str, Any]:
    """A model that takes no time."""
    return {"status": 200, "headers": {}, "body": REPLY}


def relay_cost() -> list[Measure]:
    """One client of one box, then 64 clients of four."""
    baseline = Catalog([BOXES]).get("Caller")
    launcher = make_launcher(baseline, EvalConfig(Path(), "Caller", Path()), Settings.load())
    launcher.prepare()
    boxes: list[Box] = []
    with tempfile.TemporaryDirectory() as logs:
        try:
            for i in range(CROWD_BOXES):
                request = BoxRequest(f"s{i:04}", 0, {}, Path(logs), ("openai",))
                boxes.append(launcher.start(request, at_once))
                boxes[-1].call("reset", {})
            _ask(boxes[0], 1, 50)
            alone = _ask(boxes[0], 1, ALONE)
            started = time.perf_counter()
            with ThreadPoolExecutor(CROWD_BOXES) as pool:
                crowd = list(pool.map(lambda box: _ask(box, CROWD_CLIENTS, CROWD_REQUESTS), boxes))
            seconds = time.perf_counter() - started
        finally:
            for box in boxes:
                box.close()
    requests = sum(map(len, crowd))
    assert requests == CROWD_BOXES * CROWD_CLIENTS * CROWD_REQUESTS
    worst = sorted(alone)[int(len(alone) * 0.99)]
    return [
        Measure(
            f"p50 that the way to a model adds, one client ({launcher.kind})",
            median(alone),
            3.0,
            "ms",
            note=f"p99 {worst:.2f} ms",
        ),
        Measure(
            f"{CROWD_BOXES * CROWD_CLIENTS} clients in {CROWD_BOXES} boxes ({launcher.kind})",
            requests / seconds,
            400,
            "requests/s",
            "at least",
            note=f"p50 {median([ms for taken in crowd for ms in taken]):.1f} ms",
        ),
    ]


def _ask(box: Box, clients: int, requests: int) -> list[float]:
    query = {"text": f"{clients} {requests}"}
    value = box.call("retrieve", {"query": query, "top_k": 1}).value
    taken: list[float] = json.loads(value["items"][0]["text"])
    return taken
