"""The run directory: one writer, many readers, and never half a sample.

A sample's lines enter ``pipeline_sessions.jsonl`` and ``pipeline_qa.jsonl`` in one block each, and
then one line enters ``pipeline_samples.jsonl``: the end marker, with the blocks' places and hashes.
All three are synced in that order. The marker stands beside the records, not among them, so that
the stage files are pure record lines. What has no marker does not count: readers stop before it,
and the next run sets it aside under ``logs``. Only a resumed run does that: a judge takes a
directory as it is or not at all.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harness.outcomes import ManifestMismatch, RunError
from harness.records import (
    SCHEMA_VERSION,
    JSONObject,
    QARecord,
    SessionRecord,
    qa_from_json,
    session_from_json,
)
from harness.runs import attempts
from harness.runs.attempts import Attempt
from harness.runs.files import (
    chunks,
    file_sha256,
    full_disk_by_name,
    lines,
    read_object,
    size_of,
    sync,
    sync_folder,
    write_json,
)
from harness.runs.manifest import FILE, Manifest
from harness.runs.markers import (
    PIPELINE_QUESTIONS,
    PIPELINE_SAMPLES,
    PIPELINE_SESSIONS,
    Block,
    Finished,
    cut_to,
    damage,
    marker_of,
    markers_of,
    refuse_a_hole,
    set_aside,
    sound_ones,
    whole_blocks,
)

__all__ = [
    "AGGREGATE",
    "BOX",
    "JUDGED_QUESTIONS",
    "JUDGED_SESSIONS",
    "PIPELINE_QUESTIONS",
    "PIPELINE_SAMPLES",
    "PIPELINE_SESSIONS",
    "Block",
    "Finished",
    "Run",
    "damage",
    "read_question",
    "read_session",
]

JUDGED_SESSIONS = "session_records.jsonl"
JUDGED_QUESTIONS = "qa_records.jsonl"
AGGREGATE = "aggregate_metrics.json"
BOX = "box.json"
LOCK, OWNER = ".lock", ".lock.owner"


class Run:
    """A run directory, open for reading, and for writing while it holds the lock."""

    def __init__(self, path: Path, manifest: Manifest, finished: list[Finished]) -> None:
        self.path = path
        self.manifest = manifest
        #: Samples that the last writer left without a marker or damaged, and that start anew.
        self.cut_back: tuple[str, ...] = ()
        self._finished = {entry.sample_id: entry for entry in finished}
        self._guard = threading.Lock()
        self._lock: FileLock | None = None

    # Opening

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open a run for reading. What a writer adds meanwhile is not seen.

        Raises:
            RunError: it is no run.
        """
        manifest = Manifest.read(path)
        return cls(path, manifest, whole_blocks(path, list(markers_of(path))))

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> Run:
        """Make a new run directory and open it for writing.

        Raises:
            RunError: there is something at ``path`` already, or another process writes there.
        """
        _refuse_what_is_no_run(path)
        lock = _locked(path)
        try:
            _refuse_what_is_no_run(path)
            if (path / FILE).exists():
                raise RunError(f"{path} holds a run already")
            with full_disk_by_name(path):
                for name in ("attempts", "logs"):
                    (path / name).mkdir(exist_ok=True)
            manifest.write(path)
        except BaseException:
            lock.release()
            raise
        return cls._writing(path, manifest, [], lock)

    @classmethod
    def resume(cls, path: Path, manifest: Manifest, *, rejudge: bool = False) -> Run:
        """Open a run for writing and go on where it stopped.

        What a killed writer left behind the last whole sample is set aside in ``logs/cut-*``. With
        ``rejudge`` the judge may be another; the manifest is written anew with it.

        Raises:
            ManifestMismatch: it was made with something else; names the first field that differs.
            RunError: no run, damaged otherwise than a kill does, or another process writes there.
        """
        Manifest.read(path)
        lock = _locked(path)
        try:
            stored = Manifest.read(path)
            _compare(path, stored, manifest, rejudge)
            refuse_a_hole(path)
            markers = list(markers_of(path))
            sound = sound_ones(path, markers)
            set_aside(path, sound)
            cut_to(path, sound)
            stored = _with_judge_of(path, stored, manifest)
        except BaseException:
            lock.release()
            raise
        run = cls._writing(path, stored, sound, lock)
        run.cut_back = tuple(entry.sample_id for entry in markers[len(sound) :])
        return run

    @classmethod
    def rejudge(cls, path: Path, manifest: Manifest) -> Run:
        """Open a run to judge it or add it up; stage 1's files are taken as they are.

        Raises:
            ManifestMismatch: it was made with something else; names the first field that differs.
            RunError: no run, another process writes there, or its stage files are damaged.
        """
        Manifest.read(path)
        lock = _locked(path)
        try:
            stored = Manifest.read(path)
            _compare(path, stored, manifest, rejudge=True)
            found = damage(path)
            if found is not None:
                raise RunError(
                    f"{path} is damaged or was stopped: {found}. Nothing was changed.\n"
                    f"  What is wrong with it: memrig verify {path}\n"
                    "  To go on with a stopped run, give its command again (memrig run, or bench)"
                )
            finished = list(markers_of(path))
            stored = _with_judge_of(path, stored, manifest)
        except BaseException:
            lock.release()
            raise
        return cls._writing(path, stored, finished, lock)

    @classmethod
    def start(cls, path: Path, manifest: Manifest) -> Run:
        """Create the run, or resume it where it is there already."""
        if (path / FILE).exists():
            return cls.resume(path, manifest)
        return cls.create(path, manifest)

    @classmethod
    def _writing(
        cls, path: Path, manifest: Manifest, finished: list[Finished], lock: FileLock
    ) -> Run:
        run = cls(path, manifest, finished)
        run._lock = lock
        return run

    def close(self) -> None:
        """Give the lock back. Safe to call twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()

    # Writing

    def next_attempt(self, sample_id: str, ordinal: str) -> Attempt:
        """Open the next attempt at a sample; earlier ones stay as they are."""
        self._needs_lock()
        return Attempt.next(self.path / "attempts", sample_id, ordinal)

    def append_sample(self, attempt: Attempt) -> Finished:
        """Take over a complete attempt's records, synced. From any thread, one at a time.

        Raises:
            DiskFull: they do not fit; the stage files are as they were.
        """
        self._needs_lock()
        attempt.close()
        with self._guard:
            if attempt.sample_id in self._finished:
                raise RunError(f"sample {attempt.sample_id!r} is recorded already")
            try:
                entry = Finished(
                    attempt.sample_id,
                    attempt.ordinal,
                    attempt.number,
                    self._append(PIPELINE_SESSIONS, attempt.path(attempts.SESSIONS)),
                    self._append(PIPELINE_QUESTIONS, attempt.path(attempts.QUESTIONS)),
                )
                self._append_marker(entry)
            except BaseException:
                cut_to(self.path, list(self._finished.values()))
                raise
            self._finished[attempt.sample_id] = entry
        return entry

    def greet(self, hello: JSONObject) -> str | None:
        """Keep the first box's hello (``box.json``); say in what a later one differs from it."""
        with self._guard:
            known = self.hello()
            if known is None:
                write_json(self.path / BOX, hello)
                return None
        for name in [*known, *(name for name in hello if name not in known)]:
            if known.get(name) != hello.get(name):
                return f"its {name} is not what the first box of this run said"
        return None

    def _append(self, name: str, source: Path) -> Block:
        target = self.path / name
        start, number = size_of(target), 0
        with full_disk_by_name(target), target.open("ab") as file:
            for chunk in chunks(source):
                file.write(chunk)
                number += chunk.count(b"\n")
            sync(file)
        if start == 0:
            sync_folder(self.path)
        return Block(start, size_of(target), number, file_sha256(source))

    def _append_marker(self, entry: Finished) -> None:
        path = self.path / PIPELINE_SAMPLES
        is_new = not path.exists()
        with full_disk_by_name(path), path.open("ab") as file:
            file.write(marker_of(entry))
            sync(file)
        if is_new:
            sync_folder(self.path)

    def _needs_lock(self) -> None:
        if self._lock is None:
            raise RunError(f"{self.path} is open for reading only")

    # Reading

    @property
    def finished(self) -> tuple[Finished, ...]:
        """The samples that are wholly recorded, in the order of the stage files."""
        return tuple(self._finished.values())

    def hello(self) -> JSONObject | None:
        """What the run's boxes said about themselves; absent until one said hello."""
        path = self.path / BOX
        return read_object(path) if path.exists() else None

    def is_finished(self, sample_id: str) -> bool:
        """Whether a sample is wholly recorded."""
        return sample_id in self._finished

    def sessions(self) -> Iterator[SessionRecord]:
        """All session records, one in memory at a time."""
        for entry in self.finished:
            yield from self.sessions_of(entry)

    def questions(self) -> Iterator[QARecord]:
        """All question records, one in memory at a time."""
        for entry in self.finished:
            yield from self.questions_of(entry)

    def sessions_of(self, entry: Finished) -> Iterator[SessionRecord]:
        """The session records of one sample."""
        return (read_session(line) for line in self.session_lines(entry))

    def questions_of(self, entry: Finished) -> Iterator[QARecord]:
        """The question records of one sample."""
        return (read_question(line) for line in self.question_lines(entry))

    def session_objects(self, entry: Finished) -> Iterator[JSONObject]:
        """The session records of one sample as plain JSON."""
        return (_object(line, PIPELINE_SESSIONS) for line in self.session_lines(entry))

    def question_objects(self, entry: Finished) -> Iterator[JSONObject]:
        """The question records of one sample as plain JSON."""
        return (_object(line, PIPELINE_QUESTIONS) for line in self.question_lines(entry))

    def session_lines(self, entry: Finished) -> Iterator[bytes]:
        """The raw lines of one sample's sessions."""
        return lines(self.path / PIPELINE_SESSIONS, entry.sessions.start, entry.sessions.end)

    def question_lines(self, entry: Finished) -> Iterator[bytes]:
        """The raw lines of one sample's questions."""
        return lines(self.path / PIPELINE_QUESTIONS, entry.questions.start, entry.questions.end)

    def judged(self, name: str) -> Iterator[JSONObject]:
        """The lines of :data:`JUDGED_SESSIONS` or :data:`JUDGED_QUESTIONS`, as plain JSON."""
        path = self.path / name
        if path.exists():
            yield from (_object(line, name) for line in lines(path))


def _object(line: bytes, name: str) -> JSONObject:
    """A record line, read; a damaged one is named."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RunError(f"{name} is damaged: {line[:60]!r} is no record (see: memrig verify RUN)")
    version = value.get("schema_version", 1)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise RunError(
            f"{name} has a record of schema version {version!r}; this memrig reads "
            f"{SCHEMA_VERSION}: it was made by a newer memrig"
        )
    return value


def read_session(line: bytes) -> SessionRecord:
    """A session's record from its line.

    Raises:
        RunError: damaged, or of a newer memrig.
    """
    value = _object(line, PIPELINE_SESSIONS)
    with _record_by_name(PIPELINE_SESSIONS, value):
        return session_from_json(value)


def read_question(line: bytes) -> QARecord:
    """A question's record from its line; raises as :func:`read_session` does."""
    value = _object(line, PIPELINE_QUESTIONS)
    with _record_by_name(PIPELINE_QUESTIONS, value):
        return qa_from_json(value)


@contextmanager
def _record_by_name(name: str, value: JSONObject) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        place = f"sample {value.get('sample_id')!r}, position {value.get('position')!r}"
        raise RunError(
            f"{name} is damaged: the record of {place} cannot be read: {error} "
            "(see: memrig verify RUN)"
        ) from None


def _locked(path: Path) -> FileLock:
    """Take the lock of a run directory, made if needed; it ends with the process at the latest."""
    with full_disk_by_name(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise RunError(f"{path} is a file, not a run directory") from None
    lock = FileLock(path / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(
            f"another memrig writes to {path} ({_owner(path)}). Wait for it or give another "
            "--output-dir"
        ) from None
    with full_disk_by_name(path):
        (path / OWNER).write_text(f"process {os.getpid()}\n", encoding="utf-8")
    return lock


def _owner(path: Path) -> str:
    try:
        return (path / OWNER).read_text(encoding="utf-8").strip() or "process unknown"
    except OSError:
        return "process unknown"


def _refuse_what_is_no_run(path: Path) -> None:
    """A folder with other things in it is somebody's, not ours to fill, nor to put a lock in."""
    if not path.is_dir():
        return
    strange = [
        entry.name
        for entry in path.iterdir()
        if not entry.name.startswith(".") and entry.name not in ("attempts", "logs", FILE)
    ]
    if strange:
        raise RunError(f"{path} is neither empty nor a run: it holds {sorted(strange)[0]}")


def _compare(path: Path, stored: Manifest, wanted: Manifest, rejudge: bool) -> None:
    different = stored.difference(wanted, ("pipeline", "plan") if rejudge else ("pipeline",))
    different = different or stored.difference(wanted, ("plan",))
    hint = "give another --output-dir"
    if different is None and not rejudge:
        different = stored.difference(wanted, ("judge",))
        hint = "judge it anew with --eval-only, or " + hint
    if different is not None:
        raise ManifestMismatch(
            f"{path} was made with another configuration and is not resumed into.\n"
            f"  first difference: {different.field}\n"
            f"    there: {different.left!r}\n    now:   {different.right!r}\n  {hint}"
        )


def _with_judge_of(path: Path, stored: Manifest, wanted: Manifest) -> Manifest:
    """The stored manifest with the wanted one's judge, written if that is another."""
    if stored.judge == wanted.judge:
        return stored
    made = stored.with_judge(wanted.judge)
    made.write(path)
    return made
