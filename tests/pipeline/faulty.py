"""Boxes that fail on cue, and data for them. Fakes over the Launcher seam; nothing is patched."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.adapter import wire
from harness.outcomes import AdapterFailure, SandboxFailure
from harness.samples import (
    AnswerKind,
    Checkpoint,
    Evidence,
    EvidenceKind,
    GoldPoint,
    Image,
    PointKind,
    Question,
    Sample,
    Session,
    Turn,
)
from harness.sandbox.base import Box, BoxRequest, Launcher, ModelCall, Reply, Usage
from harness.sandbox.process import LocalLauncher

SLOW = Path(__file__).parent / "slow"
sys.path.insert(0, str(SLOW))

from slow_memory import SlowMemory  # noqa: E402

#: Raises what it wants to, given sample ordinal, life of the sample's box (1, 2, ...), method and
#: how often this box was called before. May return changes of the reply's meta.
Cue = Callable[[str, int, str, int], dict[str, Any] | None]


@dataclass
class FaultyLauncher:
    """A local launcher whose boxes ask ``cue`` before every call; ``start`` counts as one."""

    cue: Cue
    inner: Launcher = field(default_factory=lambda: LocalLauncher(SlowMemory))
    kind: str = "process"
    lives: Counter[str] = field(default_factory=Counter)
    calls: list[tuple[str, str]] = field(default_factory=list)
    open: int = 0

    def prepare(self) -> dict[str, Any]:
        return {}

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        self.lives[request.sample] += 1
        life = self.lives[request.sample]
        self.cue(request.sample, life, "start", 0)
        box = self.inner.start(request, model_call)
        self.open += 1
        return FaultyBox(self, box, request.sample, life)


class FaultyBox:
    def __init__(self, launcher: FaultyLauncher, box: Box, sample: str, life: int) -> None:
        self._launcher, self._box = launcher, box
        self._sample, self._life, self._calls = sample, life, 0
        self._closed = False
        self._gone: SandboxFailure | None = None
        self.hello = box.hello

    def call(self, method: str, params: dict[str, Any], *, timeout_s: float | None = None) -> Reply:
        if self._gone is not None:
            raise AssertionError("a box that is gone was called again")
        self._calls += 1
        self._launcher.calls.append((self._sample, method))
        try:
            meta = self._launcher.cue(self._sample, self._life, method, self._calls)
        except SandboxFailure as failure:
            if failure.kind != "MESSAGE_TOO_LARGE":
                self._gone = failure
            raise
        reply = self._box.call(method, params)
        return Reply(reply.value, {**reply.meta, **(meta or {})})

    def close(self) -> Usage:
        if not self._closed:
            self._closed = True
            self._launcher.open -= 1
        return self._box.close()


class RecordingLauncher:
    """Keeps every byte that would cross the pipe, in order, by sample."""

    kind = "process"

    def __init__(self) -> None:
        self._inner = LocalLauncher(SlowMemory)
        self.frames: dict[str, list[bytes]] = {}

    def prepare(self) -> dict[str, Any]:
        return {}

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        frames = self.frames.setdefault(request.sample, [])
        params = {
            "sample": request.sample,
            "seed": request.seed,
            "options": request.options,
            "routes": list(request.routes),
        }
        frames.append(wire.encode(wire.Request(0, "initialize", params)))
        return RecordingBox(self._inner.start(request, model_call), frames)


class RecordingBox:
    def __init__(self, box: Box, frames: list[bytes]) -> None:
        self._box, self._frames, self.hello = box, frames, box.hello

    def call(self, method: str, params: dict[str, Any], *, timeout_s: float | None = None) -> Reply:
        self._frames.append(wire.encode(wire.Request(len(self._frames), method, params)))
        return self._box.call(method, params)

    def close(self) -> Usage:
        return self._box.close()


def adapter_failure(kind: str, call: str, *, retry_safe: bool = False) -> AdapterFailure:
    return AdapterFailure(kind, f"{kind} on cue", call=call, retry_safe=retry_safe)


def sandbox_failure(kind: str, call: str) -> SandboxFailure:
    return SandboxFailure(kind, f"{kind} on cue", call=call)


def never(sample: str, life: int, method: str, calls: int) -> None:
    return None


def small_sample(sample_id: str = "one", sessions: int = 3, questions: int = 2) -> Sample:
    """Sessions A, B, ...: two turns and an empty one, a point, and a checkpoint with questions."""
    names = [chr(ord("A") + n) for n in range(sessions)]
    return Sample(
        id=sample_id,
        dataset="small",
        sessions=tuple(
            Session(
                id=name,
                position=n,
                date=f"2024-01-0{n + 1}",
                turns=(
                    Turn(
                        0,
                        "user",
                        f"My box {name} is number {n + 10}.",
                        name="Ann",
                        timestamp=f"2024-01-0{n + 1} 10:00",
                        time=f"2024-01-0{n + 1}T10:00:00",
                        source_ids=(f"D{n}:1",),
                    ),
                    Turn(1, "assistant", " "),
                    Turn(2, "assistant", f"Noted, box {name}.", source_ids=(f"D{n}:3",)),
                ),
            )
            for n, name in enumerate(names)
        ),
        points=tuple(
            GoldPoint(f"p{n}", name, f"Box {name} is number {n + 10}.", PointKind.NEW)
            for n, name in enumerate(names)
        ),
        checkpoints=tuple(
            Checkpoint(
                f"cp{n}",
                name,
                tuple(
                    Question(
                        f"q{n}.{k}",
                        k,
                        f"What number is box {name}?",
                        AnswerKind.TEXT,
                        (str(n + 10),),
                        evidence=(Evidence(EvidenceKind.POINT, f"p{n}"),),
                    )
                    for k in range(questions)
                ),
            )
            for n, name in enumerate(names)
        ),
    )


def image(name: str, folder: Path, data: bytes = b"\x89PNG\r\n\x1a\n") -> Image:
    path = folder / name
    path.write_bytes(data)
    return Image("a caption", f"id-{name}", None, path, "image/png")
