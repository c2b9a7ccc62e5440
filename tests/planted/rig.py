"""Runs Lossy over drawn data through the real stages 1 to 3, records in memory instead of on disk.

Stage 1 is ``pipeline.life`` over an in-process box (the same dispatcher as in a container), with
the real blinding and the real extractive answerer; stages 2 and 3 are the real keyed judge and
aggregate.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.adapter.records import capabilities_from
from harness.aggregate import Accumulator, build
from harness.judging import Preset, Scope, judge_question, judge_session, load_preset
from harness.judging.sources import SourceMap
from harness.pipeline.answer import AnswerFn, ExtractiveAnswerer
from harness.pipeline.blind import Blinder
from harness.pipeline.life import Life, Terms
from harness.pipeline.plan import count, steps_of
from harness.records import QARecord, SessionRecord
from harness.runs.snapshots import Replay
from harness.samples import Sample
from harness.sandbox.base import BoxRequest, Launcher
from harness.sandbox.client import MemoryClient
from harness.sandbox.process import LocalLauncher

# bm25s says something at each index; pytest would keep hundreds of thousands of such lines.
logging.getLogger("bm25s").setLevel(logging.WARNING)

LOSSY = Path(__file__).resolve().parents[2] / "baselines" / "Lossy" / "adapter.py"


def lossy_class() -> Any:
    """The adapter's class, from its file, as a box loads it."""
    name = "memrig_test_lossy_adapter"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, LOSSY)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name].LossyAdapter


def launcher() -> Launcher:
    return LocalLauncher(lambda setup: lossy_class()(setup))


@dataclass
class Records:
    """A sink that keeps one sample's records."""

    number: int = 1
    sessions: list[SessionRecord] = field(default_factory=list)
    questions: list[QARecord] = field(default_factory=list)

    def session(self, record: SessionRecord) -> None:
        self.sessions.append(record)

    def question(self, record: QARecord) -> None:
        self.questions.append(record)

    def note(self, text: str) -> str:
        raise AssertionError(text)

    def relative(self, path: Path) -> str:
        raise AssertionError(path)


@dataclass(frozen=True)
class Row:
    """One Lossy row: its doses, and the number that draws its losses."""

    doses: dict[str, float]
    draw: int = 0
    seed: int = 0


EXTRACTIVE = ExtractiveAnswerer()


def stage_one(
    row: Row, sample: Sample, place: int, log_dir: Path, answer: AnswerFn = EXTRACTIVE
) -> Records:
    options = {**row.doses, "draw": row.draw}
    blinder = Blinder(sample, place, "caption")
    box = launcher().start(BoxRequest(blinder.sample_id, row.seed, options, log_dir))
    records = Records()
    terms = Terms("Lossy", answer, top_k=5, max_k=10, tell=lambda event: None)
    try:
        life = Life(terms, sample, steps_of(sample, None), blinder, records)
        life.go(MemoryClient(box), capabilities_from(box.hello["capabilities"]))
    finally:
        box.close()
    return records


def as_line(record: SessionRecord | QARecord) -> dict[str, Any]:
    """A record as its line's object. ``records.to_json`` copies every value; nothing needs that."""
    line = dict(vars(record))
    if line.get("snapshot") is not None:
        line["snapshot"] = vars(line["snapshot"])
    return line


def graded(
    sample: Sample, records: Records, preset: Preset
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Stage 2: every record's line with its eval object."""
    scope, replay, places = Scope(top_k=5, provenance=True), Replay(), SourceMap(sample)
    for session in records.sessions:
        assert session.snapshot is not None
        snapshot = replay.next(session.snapshot)
        verdict = judge_session(sample, session, snapshot, preset, scope)
        yield "session", {**as_line(session), "eval": verdict}
    questions = {q.id: q for checkpoint in sample.checkpoints for q in checkpoint.questions}
    for record in records.questions:
        question = questions[record.question_id]
        verdict = judge_question(sample, question, record, preset, scope, places)
        yield "question", {**as_line(record), "eval": verdict}


def run(samples: Iterable[Sample], row: Row, log_dir: Path) -> dict[str, Any]:
    """All stages; returns the aggregate. ``samples`` is read twice: once for the plan."""
    preset = load_preset("keyed")
    sums = Accumulator(preset.id, 5, (5,))
    for place, sample in enumerate(samples):
        add(sums, sample, stage_one(row, sample, place, log_dir), preset)
    return build(sums, count(samples, None).as_json(), preset, {"row": "Lossy", "dataset": "drawn"})


def add(sums: Accumulator, sample: Sample, records: Records, preset: Preset) -> None:
    """Stages 2 and 3 of one sample."""
    for kind, line in graded(sample, records, preset):
        (sums.add_session if kind == "session" else sums.add_question)(line)
