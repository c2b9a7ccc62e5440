"""The three-file format ``domain_a_v2``.

``domain_a_v2.json`` is an array of samples with their sessions; ``stage4_memory_points.jsonl`` and
``stage4b_qa_checkpoints.jsonl`` hold one row a sample, joined by ``sample_id``. What each fault
must lead to stands in ``tests/loaders``, case by case.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.loaders.dataset import FileDataset, Indexer, Ref
from harness.loaders.fields import json_type, read_key_id
from harness.loaders.findings import At, Findings, words
from harness.loaders.images import ImageFolder
from harness.loaders.normalise import RawSample, canonical_digest, normalise
from harness.loaders.points import count_points
from harness.loaders.slices import Slice, array_slices, line_slices
from harness.loaders.strict import parse
from harness.outcomes import DataError, printable
from harness.samples import Sample

ID = "domain_a_v2"
SUMMARY = "a folder with domain_a_v2.json, stage4_memory_points.jsonl, stage4b_qa_checkpoints.jsonl"
MAIN = "domain_a_v2.json"
POINTS = "stage4_memory_points.jsonl"
CHECKPOINTS = "stage4b_qa_checkpoints.jsonl"

_KNOWN = frozenset({"uuid", "sample_id", "sessions", "show_image_ids"})


def matches(path: Path) -> bool:
    """A folder that holds one of the three files, or the main file itself."""
    if path.is_dir():
        return any((path / name).exists() for name in (MAIN, POINTS, CHECKPOINTS))
    return path.name == MAIN


def load(path: Path, *, strict: bool = False) -> FileDataset:
    """Validate a bundle and index it.

    Raises:
        DataError: every reason to refuse it.
    """
    folder = (path if path.is_dir() else path.parent).resolve()
    findings = Findings(strict=strict)
    _check_files(folder, findings)
    findings.check()
    bundle = _Bundle(folder, findings)
    indexer = Indexer(findings, folder)
    for ref in bundle.samples():
        indexer.take(ref, bundle.build)
    bundle.finish()
    indexer.finish()
    return FileDataset(
        name=printable(folder.name),
        format=ID,
        root=folder,
        files=tuple(folder / name for name in (MAIN, POINTS, CHECKPOINTS)),
        balance=findings.balance(),
        content_sha256=indexer.content_sha256,
        refs=indexer.refs,
        build=bundle.build,
    )


def _check_files(folder: Path, findings: Findings) -> None:
    for name in (MAIN, POINTS, CHECKPOINTS):
        if not (folder / name).exists():
            findings.refuse_file(f"the file is missing in {folder}", name)
        elif not (folder / name).is_file():
            findings.refuse_file("not a regular file", name)


@dataclass(frozen=True)
class _Row:
    """One row of a JSONL file: where it stands and the hash of its parsed content."""

    ref: Ref
    content: bytes
    uuid: Any


class _Rows:
    """The rows of one JSONL file by sample id. ``is_whole`` is false if a line was refused."""

    def __init__(self, folder: Path, name: str, findings: Findings) -> None:
        self.name = name
        self.by_id: dict[str, _Row] = {}
        self._findings = findings
        before = len(findings.problems)
        try:
            for piece in line_slices(folder / name, name):
                self._take(folder / name, piece)
        except DataError as error:
            findings.absorb(error)
        self.is_whole = len(findings.problems) == before

    def _take(self, path: Path, piece: Slice) -> None:
        try:
            value = parse(piece, words)
        except DataError as error:
            self._findings.absorb(error)
            return
        at = At(piece, value)
        if not isinstance(value, dict):
            hint = "a JSON array" if isinstance(value, list) else json_type(value)
            self._findings.refuse(at, f"{hint}, expected one object a line")
            return
        sample_id = read_key_id(self._findings, at, value.get("sample_id"), "sample_id")
        if not sample_id:
            return
        row = _Row(Ref.of(path, piece), canonical_digest(value), value.get("uuid"))
        first = self.by_id.setdefault(sample_id, row)
        if first is row:
            return
        lines = f"lines {first.ref.line} and {piece.line}"
        if first.content == row.content:
            message = f"the same row twice, {lines}; one is kept"
            self._findings.warn("row twice", at, message)
        else:
            self._findings.refuse(at, f"two different rows for sample {sample_id!r}, {lines}")


class _Bundle:
    """The three files of one folder."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        self._folder = folder
        self._findings = findings
        self._images = ImageFolder(folder, folder)
        self._points = _Rows(folder, POINTS, findings)
        self._checkpoints = _Rows(folder, CHECKPOINTS, findings)
        self._positions: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._main_is_whole = True

    def samples(self) -> Iterator[tuple[Ref, ...]]:
        """The refs of each sample (main, points, checkpoints) that has an id and all its rows."""
        path, position = self._folder / MAIN, -1
        try:
            for position, piece in enumerate(array_slices(path, MAIN)):
                sample_id = self._identify(piece, position)
                if sample_id is None:
                    continue
                rows = [rows.by_id.get(sample_id) for rows in (self._points, self._checkpoints)]
                found = [row.ref for row in rows if row is not None]
                if len(found) == len(rows):
                    yield Ref.of(path, piece), *found
        except DataError as error:
            self._main_is_whole = False
            self._findings.absorb(error)
            return
        if position < 0:
            self._findings.refuse_file("there are no samples in it", MAIN)

    def _identify(self, piece: Slice, position: int) -> str | None:
        """The id of a sample that can be read on; faults are collected."""
        try:
            value = parse(piece, words)
        except DataError as error:
            self._main_is_whole = False
            self._findings.absorb(error)
            return None
        at = At(piece, value)
        if not isinstance(value, dict):
            message = f"the sample at position {position} is {json_type(value)}, expected an object"
            self._findings.refuse(at, message)
            return None
        what = f"sample_id of the sample at position {position}"
        sample_id = read_key_id(self._findings, at, value.get("sample_id"), what, in_path=True)
        if not sample_id:
            self._main_is_whole = False
            return None
        first = self._positions.setdefault(sample_id, position)
        if first != position:
            message = (
                f"sample id {sample_id!r} stands at positions {first} and {position} "
                f"(lines {self._lines[sample_id]} and {piece.line})"
            )
            self._findings.refuse(at, message)
            return None
        self._lines[sample_id] = piece.line
        self._check_uuid(at, sample_id, value.get("uuid"))
        return sample_id

    def _check_uuid(self, at: At, sample_id: str, uuid: Any) -> None:
        said = {MAIN: uuid}
        for rows in (self._points, self._checkpoints):
            row = rows.by_id.get(sample_id)
            if row is not None:
                said[rows.name] = row.uuid
        named = {name: value for name, value in said.items() if value is not None}
        if len({repr(value) for value in named.values()}) > 1:
            listed = ", ".join(f"{value!r} in {name}" for name, value in named.items())
            message = f"uuid differs ({listed}); joined by sample_id"
            self._findings.warn("uuid differs", at, message)

    def build(self, refs: tuple[Ref, ...], findings: Findings) -> Sample | None:
        """Read and normalise one sample."""
        pieces = [ref.read() for ref in refs]
        values = [parse(piece, words) for piece in pieces]
        main, points, checkpoints = (
            At(piece, value) for piece, value in zip(pieces, values, strict=True)
        )
        return normalise(
            RawSample(
                sample_id=values[0]["sample_id"],
                value=values[0],
                at=main,
                points=values[1].get("memory_sessions"),
                points_at=points.child("memory_sessions"),
                checkpoints=values[2].get("checkpoints"),
                checkpoints_at=checkpoints.child("checkpoints"),
                known=_KNOWN,
            ),
            printable(self._folder.name),
            self._images,
            findings,
        )

    def finish(self) -> None:
        """What concerns the files together: missing rows, rows too many, ids that differ little."""
        for rows in (self._points, self._checkpoints):
            missing = [repr(i) for i in self._positions if i not in rows.by_id]
            if missing and rows.is_whole:
                empty = "" if rows.by_id else "the file has no rows: "
                message = f"{empty}no row for the samples {', '.join(missing)}"
                self._findings.refuse_file(message, rows.name)
        if self._main_is_whole:
            for row in self._unknown(self._points):
                self._leave_out_points(row)
            for row in self._unknown(self._checkpoints):
                self._leave_out_checkpoints(row)
        folded: dict[str, str] = {}
        for sample_id in self._positions:
            like = unicodedata.normalize("NFC", sample_id).casefold()
            other = folded.setdefault(like, sample_id)
            if other != sample_id:
                message = f"sample ids {other!r} and {sample_id!r} differ only in case or form"
                self._findings.warn_file("ids alike", MAIN, message)

    def _unknown(self, rows: _Rows) -> Iterator[At]:
        for sample_id, row in rows.by_id.items():
            if sample_id not in self._positions:
                piece = row.ref.read()
                yield At(piece, parse(piece, words))

    def _leave_out_points(self, at: At) -> None:
        sessions = at.root.get("memory_sessions")
        reason = f"its sample is not in {MAIN}"
        if not count_points(sessions):
            self._findings.warn("row without sample", at, f"a row without a sample in {MAIN}")
            return
        for n, session in enumerate(sessions):
            points = session.get("memory_points") if isinstance(session, dict) else None
            for m in range(len(points) if isinstance(points, list) else 0):
                self._findings.counts["gold_points"] += 1
                place = at.child("memory_sessions", n, "memory_points", m)
                self._findings.leave_out("gold point", place, reason, gold=True)

    def _leave_out_checkpoints(self, at: At) -> None:
        checkpoints = at.root.get("checkpoints")
        reason = f"its sample is not in {MAIN}"
        if not isinstance(checkpoints, list) or not checkpoints:
            self._findings.warn("row without sample", at, f"a row without a sample in {MAIN}")
            return
        for n, checkpoint in enumerate(checkpoints):
            place = at.child("checkpoints", n)
            self._findings.counts["checkpoints"] += 1
            self._findings.leave_out("checkpoint", place, reason, gold=True)
            questions = checkpoint.get("questions") if isinstance(checkpoint, dict) else None
            for m in range(len(questions) if isinstance(questions, list) else 0):
                self._findings.counts["questions"] += 1
                where = place.child("questions", m)
                self._findings.leave_out("question", where, reason, gold=True)
