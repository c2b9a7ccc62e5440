"""A small valid bundle and the means to break it in one place."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAIN = "domain_a_v2.json"
POINTS = "stage4_memory_points.jsonl"
CHECKPOINTS = "stage4b_qa_checkpoints.jsonl"


def png() -> bytes:
    """A real PNG file of one grey pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + crc

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\x00\x80")
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def point(memory_id: str, content: str, **fields: Any) -> dict[str, Any]:
    made = {
        "memory_id": memory_id,
        "memory_content": content,
        "memory_type": "Event Memory",
        "memory_source": "normal",
        "is_update": False,
        "original_memories": [],
        "importance": 0.8,
    }
    return made | fields


def session(name: str, day: int, *texts: str) -> dict[str, Any]:
    turns = []
    for n, text in enumerate(texts):
        turn: dict[str, Any] = {"role": "user" if n % 2 == 0 else "assistant", "content": text}
        if n == 0:
            turn["timestamp"] = f"2025-03-{day:02}T09:00:00"
        turns.append(turn)
    return {"_v2_session_id": name, "dialogue": turns}


@dataclass
class Bundle:
    """The parts of a bundle of one sample, as JSON values, and how to write them.

    ``raw`` replaces the bytes of a file; ``None`` leaves the file out. ``more`` are further files.
    """

    sample: dict[str, Any]
    points: dict[str, Any]
    checkpoints: dict[str, Any]
    raw: dict[str, bytes | None] = field(default_factory=dict)
    more: dict[str, bytes] = field(default_factory=dict)
    samples: list[Any] | None = None
    point_rows: list[Any] | None = None
    checkpoint_rows: list[Any] | None = None

    @property
    def sessions(self) -> list[dict[str, Any]]:
        return self.sample["sessions"]

    @property
    def turn(self) -> dict[str, Any]:
        """The first turn of S01."""
        return self.sessions[1]["dialogue"][0]

    @property
    def stage4(self) -> list[dict[str, Any]]:
        return self.points["memory_sessions"]

    @property
    def checkpoint(self) -> dict[str, Any]:
        return self.checkpoints["checkpoints"][0]

    @property
    def question(self) -> dict[str, Any]:
        return self.checkpoint["questions"][0]

    def attach(self, attachment: Any, turn: int = 0) -> None:
        self.sessions[1]["dialogue"][turn]["attachments"] = attachment

    def files(self) -> dict[str, bytes]:
        samples = self.samples if self.samples is not None else [self.sample]
        point_rows = self.point_rows if self.point_rows is not None else [self.points]
        rows = self.checkpoint_rows if self.checkpoint_rows is not None else [self.checkpoints]
        made: dict[str, bytes | None] = {
            MAIN: json.dumps(samples, indent=1, ensure_ascii=False).encode(),
            POINTS: lines(*point_rows),
            CHECKPOINTS: lines(*rows),
        }
        made |= self.raw
        return {name: content for name, content in made.items() if content is not None} | self.more

    def write(self, folder: Path) -> Path:
        for name, content in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def base() -> Bundle:
    """3 sessions, 6 turns, 5 gold points (one inside S00), 1 checkpoint, 1 question."""
    sessions = [
        session("S00", 1, "I am Wanda and I paint.", "Hello Wanda."),
        session("S01", 2, "My van is green.", "A green van."),
        session("S02", 3, "The van is now yellow.", "Yellow, noted."),
    ]
    sessions[0]["memory_points"] = [point("g0", "Wanda paints")]
    stage4 = [
        {"session_id": "S01", "memory_points": [point("g1", "Wanda's van is green")]},
        {
            "session_id": "S02",
            "memory_points": [
                point(
                    "g2",
                    "Wanda's van is yellow",
                    is_update=True,
                    original_memories=["Wanda's van is green"],
                ),
                point("g3", "Wanda owns a boat", memory_source="interference"),
                point("g4", "Wanda changed the colour of her van"),
            ],
        },
    ]
    question = {
        "question": "What colour is the van?",
        "answer": "Yellow",
        "question_type": "Dynamic Update",
        "question_type_abbrev": "DU",
        "difficulty": "easy",
        "evidence": [{"memory_id": "g2"}],
    }
    checkpoint = {
        "checkpoint_id": "q1",
        "covered_sessions": ["S00", "S01", "S02"],
        "questions": [question],
    }
    name = {"uuid": "w-1", "sample_id": "w1"}
    return Bundle(
        sample={**name, "sessions": sessions},
        points={**name, "memory_sessions": stage4},
        checkpoints={**name, "checkpoints": [checkpoint]},
    )


def renamed(value: dict[str, Any], sample_id: str) -> dict[str, Any]:
    """A copy of a sample or row under another id."""
    return {**copy.deepcopy(value), "sample_id": sample_id, "uuid": f"u-{sample_id}"}


Break = Callable[[Bundle], None]
