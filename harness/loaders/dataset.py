"""A data set on disk: an index of where its samples stand, read again one at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.loaders.findings import Findings
from harness.loaders.normalise import content_line
from harness.loaders.slices import Slice, read_slice
from harness.outcomes import DataError, Problem, UnknownName
from harness.samples import Balance, Sample


@dataclass(frozen=True)
class Ref:
    """Where one JSON value stands, and the hash of its bytes."""

    path: Path
    name: str
    offset: int
    length: int
    line: int
    digest: bytes

    @classmethod
    def of(cls, path: Path, piece: Slice) -> Ref:
        """The ref of a piece of the file at ``path``."""
        digest = hashlib.sha256(piece.raw).digest()
        return cls(path, piece.file, piece.offset, len(piece.raw), piece.line, digest)

    def read(self) -> Slice:
        """The bytes again.

        Raises:
            DataError: they are no longer what they were when the data set was opened.
        """
        piece = read_slice(self.path, self.name, self.offset, self.length, self.line)
        if hashlib.sha256(piece.raw).digest() != self.digest:
            message = "the file was changed after the data set was opened; start again"
            raise DataError([Problem(message, self.name, self.line)])
        return piece


#: Builds one sample from its refs; faults go into the findings.
Build = Callable[[tuple[Ref, ...], Findings], Sample | None]


@dataclass
class Indexer:
    """First pass: takes samples one by one, keeps their refs and hashes and drops the rest."""

    findings: Findings
    root: Path
    refs: dict[str, tuple[Ref, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._content = hashlib.sha256()

    def take(self, refs: tuple[Ref, ...], build: Build) -> None:
        """Build a sample to validate it; a :class:`DataError` of its bytes is collected."""
        try:
            sample = build(refs, self.findings)
        except DataError as error:
            self.findings.absorb(error)
            return
        if sample is None or self.findings.problems:
            return
        self.refs[sample.id] = refs
        self._content.update(content_line(sample, self.root))

    @property
    def content_sha256(self) -> str:
        """Hash of all samples taken so far."""
        return self._content.hexdigest()


@dataclass(frozen=True)
class FileDataset:
    """A validated data set (``samples.Dataset``): an index in memory, the samples on disk."""

    name: str
    format: str
    root: Path
    files: tuple[Path, ...]
    balance: Balance
    content_sha256: str
    refs: dict[str, tuple[Ref, ...]]
    build: Build

    @property
    def sample_ids(self) -> tuple[str, ...]:
        """The ids in file order."""
        return tuple(self.refs)

    @cached_property
    def sha256(self) -> str:
        """Hash over name and hash of every file the samples are read from, images included."""
        images = {
            image.path
            for sample in self
            for images in (
                *(turn.images for session in sample.sessions for turn in session.turns),
                *(q.images for checkpoint in sample.checkpoints for q in checkpoint.questions),
            )
            for image in images
            if image.path is not None
        }
        total = hashlib.sha256()
        for path in (*self.files, *sorted(images)):
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            total.update(f"{path.relative_to(self.root).as_posix()}\0{digest}\n".encode())
        return total.hexdigest()

    def sample(self, sample_id: str) -> Sample:
        """Read one sample from disk.

        Raises:
            UnknownName: there is no such sample.
            DataError: the file was changed since.
        """
        refs = self.refs.get(sample_id)
        if refs is None:
            raise UnknownName("sample", sample_id, self.refs)
        findings = Findings()
        sample = self.build(refs, findings)
        findings.check()
        if sample is None:
            raise DataError([Problem(f"sample {sample_id!r} cannot be read any more")])
        return sample

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(sample_id) for sample_id in self.refs)
