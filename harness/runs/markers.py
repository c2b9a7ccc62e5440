"""End markers: which samples are wholly recorded, what is damaged, and what a kill left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from harness.outcomes import RunError
from harness.runs.files import (
    chunks,
    cut,
    file_sha256,
    full_disk_by_name,
    line_of,
    lines,
    sha256_of,
    size_of,
    sync,
    sync_folder,
)

PIPELINE_SESSIONS = "pipeline_sessions.jsonl"
PIPELINE_QUESTIONS = "pipeline_qa.jsonl"
PIPELINE_SAMPLES = "pipeline_samples.jsonl"


@dataclass(frozen=True)
class Block:
    """A sample's lines in a stage file: bytes ``start`` to ``end``."""

    start: int
    end: int
    lines: int
    sha256: str


@dataclass(frozen=True)
class Finished:
    """A sample that is wholly recorded."""

    sample_id: str
    ordinal: str
    attempt: int
    sessions: Block
    questions: Block


def markers_of(path: Path) -> Iterator[Finished]:
    """The end markers, up to the first that is torn or no marker."""
    index = path / PIPELINE_SAMPLES
    for line in lines(index) if index.exists() else ():
        entry = _read_marker(line)
        if entry is None:
            return
        yield entry


def _read_marker(line: bytes) -> Finished | None:
    try:
        value: Any = json.loads(line)
        if value.pop("marker_sha256") != sha256_of(value):
            return None
        for name in ("sessions", "questions"):
            value[name] = Block(**value[name])
        return Finished(**value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def damage(path: Path) -> str | None:
    """What in the stage files is not as finished samples leave it; ``None`` if all is."""
    hole = _hole(path)
    if hole is not None:
        return hole
    markers = list(markers_of(path))
    sound = sound_ones(path, markers)
    if len(sound) < len(markers):
        return f"the records of sample {markers[len(sound)].sample_id!r} are not what was recorded"
    for name, end in _ends(sound).items():
        extra = size_of(path / name) - end
        if extra:
            return f"{name}: {extra} bytes are after the last end marker"
    return None


def _hole(path: Path) -> str | None:
    """A marker that is damaged though more follows: a kill tears the last line at most."""
    index = path / PIPELINE_SAMPLES
    place = 0
    for number, line in enumerate(lines(index) if index.exists() else (), 1):
        place += len(line)
        if _read_marker(line) is None:
            if place == size_of(index):
                return None
            return f"{PIPELINE_SAMPLES}: line {number} is no end marker, and more follows it"
    return None


def refuse_a_hole(path: Path) -> None:
    """Raise for a damage that no kill makes: nothing may be cut then."""
    hole = _hole(path)
    if hole is not None:
        raise RunError(
            f"{path} is damaged, and not as a stopped run is: {hole}. Nothing was changed.\n"
            f"  Put {PIPELINE_SAMPLES} back from a copy, or give another --output-dir"
        )


def marker_of(entry: Finished) -> bytes:
    """A sample's end marker as a line."""
    value = asdict(entry)
    return line_of({**value, "marker_sha256": sha256_of(value)})


def whole_blocks(path: Path, markers: list[Finished]) -> list[Finished]:
    """The leading markers whose blocks lie inside of the stage files and join each other."""
    sizes = {name: size_of(path / name) for name in (PIPELINE_SESSIONS, PIPELINE_QUESTIONS)}
    ends = dict.fromkeys(sizes, 0)
    kept: list[Finished] = []
    for entry in markers:
        for name, block in blocks_of(entry):
            if block.start != ends[name] or not block.start <= block.end <= sizes[name]:
                return kept
            ends[name] = block.end
        kept.append(entry)
    return kept


def sound_ones(path: Path, markers: list[Finished]) -> list[Finished]:
    """The leading markers whose blocks are there, byte for byte."""
    kept: list[Finished] = []
    for entry in whole_blocks(path, markers):
        for name, block in blocks_of(entry):
            if block.lines and file_sha256(path / name, block.start, block.end) != block.sha256:
                return kept
        kept.append(entry)
    return kept


def blocks_of(entry: Finished) -> tuple[tuple[str, Block], ...]:
    """A sample's blocks with the names of their files."""
    return ((PIPELINE_SESSIONS, entry.sessions), (PIPELINE_QUESTIONS, entry.questions))


def _ends(finished: list[Finished]) -> dict[str, int]:
    """Where each of the three files ends if only these samples are in them."""
    last = {PIPELINE_SESSIONS: 0, PIPELINE_QUESTIONS: 0}
    for entry in finished:
        last.update((name, block.end) for name, block in blocks_of(entry))
    return {**last, PIPELINE_SAMPLES: sum(len(marker_of(entry)) for entry in finished)}


def set_aside(path: Path, finished: list[Finished]) -> None:
    """Copy to ``logs/cut-<n>-<file>`` what :func:`_cut_to` is going to cut off."""
    doomed = [(name, end) for name, end in _ends(finished).items() if size_of(path / name) > end]
    if not doomed:
        return
    logs = path / "logs"
    logs.mkdir(exist_ok=True)
    number = next(n for n in count(1) if not any(logs.glob(f"cut-{n}-*")))
    for name, end in doomed:
        target = logs / f"cut-{number}-{name}"
        with full_disk_by_name(target), target.open("wb") as file:
            for chunk in chunks(path / name, end):
                file.write(chunk)
            sync(file)
    sync_folder(logs)


def cut_to(path: Path, finished: list[Finished]) -> None:
    """Cut all three files back to these samples."""
    for name, end in _ends(finished).items():
        cut(path / name, end)
