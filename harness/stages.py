"""Stages 2 and 3 over a run directory: judge every record, then add up. Plain functions.

Judged lines are written in the order of the stage files, each the pipeline's line with an ``eval``
object at its end, so a stopped judge goes on after the last whole line.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.adapter.records import Capabilities, capabilities_from
from harness.aggregate import aggregate
from harness.judging import Preset, Scope, judge_question, judge_session
from harness.judging.calibration import error_of
from harness.judging.sources import SourceMap
from harness.outcomes import ManifestMismatch, RunError
from harness.pipeline import events
from harness.records import JSONObject
from harness.runs import Run
from harness.runs.directory import (
    AGGREGATE,
    BOX,
    JUDGED_QUESTIONS,
    JUDGED_SESSIONS,
    PIPELINE_QUESTIONS,
    PIPELINE_SAMPLES,
    PIPELINE_SESSIONS,
    read_question,
    read_session,
)
from harness.runs.files import (
    cut,
    file_sha256,
    full_disk_by_name,
    line_of,
    lines,
    size_of,
    sync,
    write_json,
)
from harness.runs.manifest import FILE
from harness.runs.snapshots import Replay
from harness.samples import Dataset, Sample

HASHES = "hashes.json"

#: The field of an aggregate that holds its judge's error, or null.
CALIBRATION = "calibration"

#: Files that ``hashes.json`` covers, in the order in which they come to be.
SEALED = (
    FILE,
    BOX,
    PIPELINE_SESSIONS,
    PIPELINE_QUESTIONS,
    PIPELINE_SAMPLES,
    JUDGED_SESSIONS,
    JUDGED_QUESTIONS,
    AGGREGATE,
)


@dataclass(frozen=True)
class Task:
    """One record to judge: the line it stands in, the file its judged line goes to, and how."""

    target: str
    line: bytes
    grade: Callable[[], JSONObject]


def tasks(run: Run, dataset: Dataset, preset: Preset) -> Iterator[Task]:
    """Every record of a run in the order of the stage files, one sample in memory at a time.

    Raises:
        VerifyError: a snapshot chain does not hold.
        RunError: a record of a question or session that the data have not.
    """
    scope = scope_of(run)
    for entry in run.finished:
        sample = dataset.sample(entry.sample_id)
        replay = Replay()
        for line in run.session_lines(entry):
            yield Task(JUDGED_SESSIONS, line, _session(sample, line, replay, preset, scope))
        places = SourceMap(sample)
        for line in run.question_lines(entry):
            yield Task(JUDGED_QUESTIONS, line, _question(sample, line, places, preset, scope))


def _session(
    sample: Sample, line: bytes, replay: Replay, preset: Preset, scope: Scope
) -> Callable[[], JSONObject]:
    record = read_session(line)
    snapshot = replay.next(record.snapshot) if record.snapshot is not None else None
    return lambda: judge_session(sample, record, snapshot, preset, scope)


def _question(
    sample: Sample, line: bytes, places: SourceMap, preset: Preset, scope: Scope
) -> Callable[[], JSONObject]:
    record = read_question(line)
    for checkpoint in sample.checkpoints:
        for question in checkpoint.questions:
            if (checkpoint.id, question.id) == (record.checkpoint_id, record.question_id):
                return lambda: judge_question(sample, question, record, preset, scope, places)
    raise RunError(
        f"sample {sample.id!r} has no question {record.question_id!r} at {record.checkpoint_id!r}"
    )


def capabilities_of(run: Run) -> Capabilities | None:
    """What the run's boxes said they can do; absent where none ever started.

    Raises:
        RunError: the run has results, so a box said hello, and what it said is lost or damaged.
    """
    hello = run.hello()
    if hello is None:
        if any(
            r.status.has_result for records in (run.sessions(), run.questions()) for r in records
        ):
            raise RunError(
                f"{run.path / BOX} is gone: without what the boxes said they can do, the records "
                "cannot be judged. Put it back from a copy, or run anew"
            )
        return None
    try:
        return capabilities_from(hello["capabilities"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{run.path / BOX} is damaged: {type(error).__name__}: {error}") from None


def scope_of(run: Run) -> Scope:
    """How the judge is to read a run."""
    top_k = int(run.manifest.pipeline["top_k"])
    can = capabilities_of(run)
    return Scope.of(can, top_k) if can is not None else Scope(top_k=top_k)


def check_dataset(run: Run, dataset: Dataset) -> None:
    """Refuse data other than those that the run was made with.

    Raises:
        ManifestMismatch: naming both hashes.
    """
    made_with = run.manifest.pipeline["dataset"]["content_sha256"]
    if dataset.content_sha256 != made_with:
        raise ManifestMismatch(
            f"{run.path} was made with other data: their content hash is {made_with}, that of "
            f"{dataset.name} is {dataset.content_sha256}"
        )


def judge_run(
    run: Run,
    dataset: Dataset,
    preset: Preset,
    *,
    workers: int = 5,
    fresh: bool = False,
    tell: events.Listener = events.ignore,
) -> int:
    """Stage 2: grade every record that has no judgement yet; returns how many were graded.

    With ``fresh`` all are graded anew. The run must be open for writing.

    Raises:
        ManifestMismatch: other data than the run's.
    """
    check_dataset(run, dataset)
    files = {name: _Judged(run.path / name, fresh) for name in (JUDGED_SESSIONS, JUDGED_QUESTIONS)}
    row = str(run.manifest.pipeline["row"])
    total = sum(entry.sessions.lines + entry.questions.lines for entry in run.finished)
    done = graded = 0
    waiting: deque[tuple[Task, Future[JSONObject]]] = deque()

    def write_first() -> None:
        nonlocal done, graded
        task, future = waiting.popleft()
        files[task.target].add(task.line, future.result())
        done, graded = done + 1, graded + 1
        tell(events.JudgeProgress(row, done, total))

    try:
        with ThreadPoolExecutor(max(1, workers)) as pool:
            for task in tasks(run, dataset, preset):
                if files[task.target].has(task.line, preset.id):
                    done += 1
                    continue
                waiting.append((task, pool.submit(task.grade)))
                if len(waiting) > 2 * workers:
                    write_first()
            while waiting:
                write_first()
    finally:
        for file in files.values():
            file.close()
    tell(events.JudgeProgress(row, done, total))
    return graded


class _Judged:
    """A file of judged lines: those of before are kept while they match, the rest is written."""

    def __init__(self, path: Path, fresh: bool) -> None:
        self._path = path
        if fresh:
            cut(path, 0)
        self._before = lines(path) if path.exists() else iter(())
        self._kept = 0
        self._matching = True
        path.touch()
        self._file = path.open("r+b")

    def has(self, line: bytes, judge: str) -> bool:
        """Whether the next judged line of before is this record's, by this judge."""
        if self._matching:
            found = next(self._before, b"")
            start = _opened(line)
            if found.startswith(start) and json.loads(found)["eval"].get("judge") == judge:
                self._kept += len(found)
                return True
            self._matching = False
            cut(self._path, self._kept)
            self._file.seek(self._kept)
        return False

    def add(self, line: bytes, graded: JSONObject) -> None:
        """Write the next judged line."""
        with full_disk_by_name(self._path):
            self._file.write(_opened(line) + line_of(graded)[:-1] + b"}\n")
            self._file.flush()

    def close(self) -> None:
        """All that was judged is on the disk; nothing of before stands after it."""
        with full_disk_by_name(self._path):
            if self._matching:
                cut(self._path, self._kept)
            sync(self._file)
            self._file.close()


def _opened(line: bytes) -> bytes:
    """A pipeline line up to where its eval object goes."""
    return line.rstrip(b"\n")[:-1] + b',"eval":'


def aggregated(run: Run, preset: Preset) -> JSONObject:
    """Stage 3 without writing: the aggregate of what the run's judged files say.

    Raises:
        RunError: planned units and records do not add up, or something is not judged.
    """
    return aggregate(
        run.judged(JUDGED_SESSIONS),
        run.judged(JUDGED_QUESTIONS),
        run.manifest.plan,
        preset,
        {**heading_of(run), CALIBRATION: error_of(preset)},
    )


def heading_of(run: Run) -> JSONObject:
    """What names a run in a table."""
    made = run.manifest.pipeline
    can = capabilities_of(run)
    return {
        "row": made["row"],
        "dataset": made["dataset"]["name"],
        "dataset_sha256": made["dataset"]["content_sha256"],
        "answerer": made["answerer"]["id"],
        "sandbox": made["box"]["kind"],
        "network": made["box"].get("network", "none"),
        "top_k": made["top_k"],
        "max_k": made["max_k"],
        "images": made["images"],
        "shard": made["selection"]["shard"],
        "reference": made["baseline"]["host_side"],
        "full_context": bool(can and can.full_context),
        "alias_of": run.manifest.about.get("alias_of"),
        "notes": list(can.notes) if can else [],
    }


def aggregate_run(run: Run, preset: Preset) -> JSONObject:
    """Stage 3: write ``aggregate_metrics.json`` and, over all files, ``hashes.json``."""
    result = aggregated(run, preset)
    write_json(run.path / AGGREGATE, result)
    seal(run.path)
    return result


def seal(path: Path) -> None:
    """Write the hashes of a run's files as they are now."""
    hashes: dict[str, Any] = {
        name: {"bytes": size_of(path / name), "sha256": file_sha256(path / name)}
        for name in SEALED
        if (path / name).exists()
    }
    write_json(path / HASHES, hashes)


def judge_facts(preset: Preset) -> JSONObject:
    """The manifest's section on the judge."""
    return {
        "name": preset.name,
        "kind": preset.kind,
        "id": preset.id,
        "title": preset.title,
        "metrics": dict(preset.metrics),
    }


def plain(capabilities: Capabilities) -> JSONObject:
    """Capabilities as JSON."""
    return asdict(capabilities)
