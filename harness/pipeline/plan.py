"""What a run is going to do: the units of a sample in order, and which samples.

A unit is a session or a question; each ends in exactly one record. Sessions beyond
``max_sessions``, and questions that only those would have triggered, are planned too and end as
``left_out``, so that a truncated run still adds up to its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from harness.config import EvalConfig
from harness.outcomes import UnknownName, UsageError
from harness.samples import Checkpoint, Question, Sample, Session


@dataclass(frozen=True)
class SessionStep:
    """One session: fed, ended, looked at. ``whole_snapshot`` at checkpoints."""

    session: Session
    position: int
    cut: bool
    whole_snapshot: bool


@dataclass(frozen=True)
class QuestionStep:
    """One question, after ``session``. ``position`` counts the sample's questions from 0."""

    session: Session
    checkpoint: Checkpoint
    question: Question
    position: int
    cut: bool


Step = SessionStep | QuestionStep


def steps_of(sample: Sample, max_sessions: int | None) -> tuple[Step, ...]:
    """A sample's units in the order in which they are done."""
    made: list[Step] = []
    asked = 0
    for place, session in enumerate(sample.sessions):
        cut = max_sessions is not None and place >= max_sessions
        checkpoints = sample.checkpoints_after(session.id)
        made.append(SessionStep(session, place, cut, bool(checkpoints)))
        for checkpoint in checkpoints:
            for question in checkpoint.questions:
                made.append(QuestionStep(session, checkpoint, question, asked, cut))
                asked += 1
    return tuple(made)


@dataclass(frozen=True)
class Plan:
    """How much there is to do. ``left_out_*`` are part of ``sessions`` and ``questions``."""

    samples: int = 0
    sessions: int = 0
    questions: int = 0
    turns: int = 0
    checkpoints: int = 0
    gold_points: int = 0
    left_out_sessions: int = 0
    left_out_questions: int = 0

    def as_json(self) -> dict[str, int]:
        """Plain JSON, as in the manifest."""
        return asdict(self)


def count(samples: Iterable[Sample], max_sessions: int | None) -> Plan:
    """Add up the units of some samples, one in memory at a time."""
    total = dict.fromkeys(Plan().as_json(), 0)
    for sample in samples:
        total["samples"] += 1
        total["checkpoints"] += len(sample.checkpoints)
        total["gold_points"] += len(sample.points)
        total["turns"] += sum(len(session.turns) for session in sample.sessions)
        for step in steps_of(sample, max_sessions):
            name = "sessions" if isinstance(step, SessionStep) else "questions"
            total[name] += 1
            total[f"left_out_{name}"] += step.cut
    return Plan(**total)


def selected(ids: Sequence[str], config: EvalConfig) -> tuple[tuple[int, str], ...]:
    """The samples of a run as (place in the data set, id), in the data set's order.

    ``--samples`` first, then ``--smoke`` (the first one), then ``--shard i/n`` (every n-th).

    Raises:
        UnknownName: a sample that the data set has not. UsageError: a shard that cannot be.
    """
    for wanted in config.samples:
        if wanted not in ids:
            raise UnknownName("sample", wanted, ids)
    chosen = [
        (place, sample_id)
        for place, sample_id in enumerate(ids)
        if not config.samples or sample_id in config.samples
    ]
    if config.smoke:
        chosen = chosen[:1]
    if config.shard is not None:
        number, of = config.shard
        if not 1 <= number <= of:
            raise UsageError(f"--shard {number}/{of}: the first number runs from 1 to the second")
        chosen = chosen[number - 1 :: of]
    return tuple(chosen)
