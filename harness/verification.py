"""Is what a run says about itself true? Everything that can be recomputed is, from the records.

A check that cannot be made fails: an unchecked run has not been verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.adapter.records import RetrievalRecord, RetrievedItem, from_wire
from harness.judging import Preset, load_preset
from harness.judging.base import DETERMINISTIC
from harness.loaders import open_dataset
from harness.outcomes import MemrigError, Status, VerifyError
from harness.pipeline.answer import ExtractiveAnswerer, QuestionView
from harness.pipeline.plan import QuestionStep, SessionStep, steps_of
from harness.records import QARecord
from harness.runs import Attempt, Run
from harness.runs.attempts import QUESTIONS, SESSIONS
from harness.runs.directory import (
    AGGREGATE,
    JUDGED_QUESTIONS,
    JUDGED_SESSIONS,
    PIPELINE_QUESTIONS,
    PIPELINE_SESSIONS,
    Finished,
)
from harness.runs.files import canonical, file_sha256, lines, read_object, size_of
from harness.runs.snapshots import Replay
from harness.samples import Dataset
from harness.stages import (
    CALIBRATION,
    HASHES,
    SEALED,
    aggregated,
    capabilities_of,
    check_dataset,
    tasks,
)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``detail`` says what was counted, or what is wrong."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a run."""

    path: Path
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Nothing is wrong and nothing was left unchecked."""
        return all(check.passed for check in self.checks)


def verify(path: Path, dataset: Dataset | None = None) -> Verification:
    """Check a finished run.

    Args:
        path: the run directory.
        dataset: the data it was made with; default: from the path that its manifest names.

    Raises:
        RunError: there is no run, or its manifest cannot be read.
    """
    run = Run.open(path)
    found = _Verifier(run, dataset)
    checks = [
        _made("files", found.files),
        _made("blocks", found.blocks),
        _made("attempts", found.attempts),
        _made("data", found.data),
        _made("planned units", found.units),
        _made("snapshots", found.snapshots),
        _made("answers", found.answers),
        _made("judgements", found.judgements),
        _made("numbers", found.numbers),
    ]
    return Verification(path, tuple(checks))


def _made(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except (MemrigError, OSError) as error:
        return Check(name, False, str(error))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Check(name, False, f"a record cannot be read: {type(error).__name__}: {error}")


class _Verifier:
    """The checks: each returns what it counted or raises what is wrong."""

    def __init__(self, run: Run, dataset: Dataset | None) -> None:
        self._run = run
        self._given = dataset

    def files(self) -> str:
        """Every file is what it was when the run ended."""
        hashes = read_object(self._run.path / HASHES)
        for name in (*SEALED, *(name for name in hashes if name not in SEALED)):
            path = self._run.path / name
            stated = hashes.get(name)
            if stated is None and path.exists():
                raise VerifyError(f"{HASHES} says nothing of {name}")
            if stated is None:
                continue
            if not path.exists():
                raise VerifyError(f"{name} is gone")
            if not isinstance(stated, dict) or file_sha256(path) != stated.get("sha256"):
                raise VerifyError(f"{name} is not what it was when the run ended")
        return f"{len(hashes)} files have their hashes"

    def attempts(self) -> str:
        """The attempts that became the run's records are kept as they were taken over."""
        root = self._run.path / "attempts"
        for entry in self._run.finished:
            attempt = Attempt(root, entry.sample_id, entry.ordinal, entry.attempt)
            for name, block in ((SESSIONS, entry.sessions), (QUESTIONS, entry.questions)):
                path = attempt.path(name)
                where = path.relative_to(self._run.path)
                if not path.is_file():
                    raise VerifyError(f"{where} is gone")
                if file_sha256(path) != block.sha256:
                    raise VerifyError(f"{where} is not what the run took over")
        logs = "" if (self._run.path / "logs").is_dir() else "; the logs are gone"
        return f"{len(self._run.finished)} attempts as they were taken over{logs}"

    def blocks(self) -> str:
        """Every sample's lines are where its end marker says, and nothing stands between."""
        ends = {PIPELINE_SESSIONS: 0, PIPELINE_QUESTIONS: 0}
        for entry in self._run.finished:
            for name, block in (
                (PIPELINE_SESSIONS, entry.sessions),
                (PIPELINE_QUESTIONS, entry.questions),
            ):
                path = self._run.path / name
                if file_sha256(path, block.start, block.end) != block.sha256:
                    raise VerifyError(f"{name}: the lines of sample {entry.sample_id!r} changed")
                ends[name] = block.end
        for name, end in ends.items():
            extra = size_of(self._run.path / name) - end
            if extra:
                raise VerifyError(f"{name}: {extra} bytes are after the last end marker")
        return f"{len(self._run.finished)} samples, each whole"

    def data(self) -> str:
        """The data are those that the run was made with."""
        dataset = self._dataset()
        check_dataset(self._run, dataset)
        return f"{dataset.name}: content hash {dataset.content_sha256[:12]}"

    def units(self) -> str:
        """Every planned unit has exactly one record, in its place."""
        made = self._run.manifest.pipeline["selection"]
        dataset = self._dataset()
        entries = {entry.sample_id: entry for entry in self._run.finished}
        strange = set(entries) - set(made["samples"])
        if strange:
            raise VerifyError(f"sample {min(strange)!r} is recorded and was not planned")
        count = 0
        for sample_id in made["samples"]:
            if sample_id not in entries:
                raise VerifyError(f"sample {sample_id!r} was planned and is not recorded")
            steps = steps_of(dataset.sample(sample_id), made["max_sessions"])
            count += self._compare(entries[sample_id], steps)
        planned = self._run.manifest.plan
        if count != planned["sessions"] + planned["questions"]:
            raise VerifyError(f"{count} units, but the manifest plans {dict(planned)}")
        return f"{count} planned, {count} recorded, each once"

    def _compare(self, entry: Finished, steps: Any) -> int:
        sessions = [s for s in steps if isinstance(s, SessionStep)]
        questions = [s for s in steps if isinstance(s, QuestionStep)]
        expected = [("session", step.session.id, step.position, step.cut) for step in sessions] + [
            ("question", step.question.id, step.position, step.cut) for step in questions
        ]
        recorded = [
            ("session", r.session_id, r.position, r.status is Status.LEFT_OUT)
            for r in self._run.sessions_of(entry)
        ] + [
            ("question", r.question_id, r.position, r.status is Status.LEFT_OUT)
            for r in self._run.questions_of(entry)
        ]
        for planned, found in zip_longest(expected, recorded):
            if planned != found:
                raise VerifyError(
                    f"sample {entry.sample_id!r}: planned {planned}, recorded {found} "
                    "(kind, id, position, left out)"
                )
        return len(expected)

    def snapshots(self) -> str:
        """Every chain of snapshots leads to the hashes that it states."""
        count = 0
        for entry in self._run.finished:
            replay = Replay()
            for record in self._run.sessions_of(entry):
                if record.snapshot is None:
                    continue
                try:
                    replay.next(record.snapshot)
                except VerifyError as error:
                    where = f"sample {entry.sample_id!r}, session {record.session_id!r}"
                    raise VerifyError(f"{where}: {error}") from None
                count += 1
        return f"{count} snapshots replayed"

    def answers(self) -> str:
        """The extractive answerer gives the recorded answers to the recorded memories."""
        answerer = ExtractiveAnswerer()
        made_by = self._run.manifest.pipeline["answerer"]["id"]
        constant = self._run.manifest.pipeline["constant"]
        if constant is None and made_by != answerer.id:
            return f"made by {made_by}, which cannot be repeated here"
        can = capabilities_of(self._run)
        whole = bool(can and can.full_context)
        count = 0
        for record in self._run.questions():
            if not record.status.has_result:
                continue
            again = constant["text"] if constant is not None else _again(record, answerer, whole)
            if again != record.answer:
                raise VerifyError(
                    f"sample {record.sample_id!r}, question {record.question_id!r}: recorded "
                    f"{record.answer!r}, found again {again!r}"
                )
            count += 1
        return f"{count} answers found again"

    def judgements(self) -> str:
        """The judge gives the recorded verdicts."""
        preset = self._preset()
        if preset.kind not in DETERMINISTIC:
            return f"{preset.title} cannot be repeated without its model"
        judged = {
            name: lines(self._run.path / name) for name in (JUDGED_SESSIONS, JUDGED_QUESTIONS)
        }
        count = 0
        for task in tasks(self._run, self._dataset(), preset):
            line = next(judged[task.target], b"")
            found = json.loads(line) if line else {}
            expected = {**json.loads(task.line), "eval": json.loads(canonical(task.grade()))}
            if found != expected:
                place = f"sample {expected['sample_id']!r}, position {expected['position']}"
                raise VerifyError(f"{task.target}: {place} is not what the judge says now")
            count += 1
        _nothing_left(judged)
        return f"{count} records judged again by {preset.id}"

    def numbers(self) -> str:
        """The judged records add up to the stated aggregate.

        The judge's error is measured on the items that ship now: one measured on others, or by a
        memrig that did not measure, is no statement about this run's records and is left out.
        """
        stated = read_object(self._run.path / AGGREGATE)
        again = json.loads(canonical(aggregated(self._run, self._preset())))
        left_out = ""
        if _items_of(stated) != _items_of(again):
            left_out = f"; not its {CALIBRATION}, which is of other items than memrig has now"
            stated, again = ({**found, CALIBRATION: None} for found in (stated, again))
        for name in [*again, *(name for name in stated if name not in again)]:
            if stated.get(name) != again.get(name):
                raise VerifyError(f"{AGGREGATE}: {name} is not what the records add up to")
        return f"{AGGREGATE} computed again from the records{left_out}"

    def _preset(self) -> Preset:
        stated = self._run.manifest.judge
        preset = load_preset(stated["name"])
        if preset.id != stated["id"]:
            raise VerifyError(
                f"judged by {stated['id']}; this memrig has {preset.id}. Judge it anew: "
                "memrig judge RUN"
            )
        return preset

    def _dataset(self) -> Dataset:
        if self._given is None:
            path = Path(self._run.manifest.about["dataset_path"])
            if not path.exists():
                raise VerifyError(f"the data are not at {path} any more; name them: --dataset DIR")
            self._given = open_dataset(path)
        return self._given


def _again(record: QARecord, answerer: ExtractiveAnswerer, whole: bool) -> str:
    items = [from_wire(RetrievedItem, item) for item in record.retrieved or ()]
    seen = RetrievalRecord(tuple(items if whole else items[: record.top_k]))
    return answerer(QuestionView(record.question.replace("\0", "")), seen).text


def _items_of(aggregate: Mapping[str, Any]) -> str | None:
    """The id of the items that the judge's error was measured on."""
    found = aggregate.get(CALIBRATION)
    return str(found["items"]) if found else None


def _nothing_left(judged: dict[str, Iterator[bytes]]) -> None:
    for name, left in judged.items():
        if next(left, None) is not None:
            raise VerifyError(f"{name} has more lines than there are records")
