"""A data set on disk: an index of where its samples stand, read again one at a time."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.loaders.findings import Findings
from harness.loaders.normalise import content_line
from harness.loaders.slices import Slice, read_slice
from harness.outcomes import DataError, MemrigError, Problem, UnknownName, printable
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
        self._standing: Counter[str] = Counter()

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
        self._standing.update(_tally(sample))

    @property
    def content_sha256(self) -> str:
        """Hash of all samples taken so far."""
        return self._content.hexdigest()

    def finish(self) -> None:
        """Refuse what has to be refused, then prove the balance.

        Raises:
            DataError: with every problem found.
            MemrigError: what was read is not what stands in samples plus what was left out; this
                is a fault of the loader.
        """
        self.findings.check()
        left_out = Counter(_COUNTED[e.what] for e in self.findings.left_out if e.what in _COUNTED)
        for name in (*_COUNTED.values(), "samples", "sessions"):
            read, kept, left = (
                count[name] for count in (self.findings.counts, self._standing, left_out)
            )
            if read != kept + left:
                raise MemrigError(
                    f"the balance does not add up: {read} {name} were read, {kept} are used and "
                    f"{left} left out; this is a fault of memrig's loader, please report it"
                )


#: Kinds of things on the list of what was left out -> the count they belong to.
_COUNTED = {
    "turn": "turns",
    "attachment": "attachments",
    "question attachment": "question_attachments",
    "gold point": "gold_points",
    "checkpoint": "checkpoints",
    "question": "questions",
}


def _tally(sample: Sample) -> dict[str, int]:
    """How many things of each kind stand in a sample and will be used."""
    turns = [turn for session in sample.sessions for turn in session.turns]
    questions = [q for checkpoint in sample.checkpoints for q in checkpoint.questions]
    return {
        "samples": 1,
        "sessions": len(sample.sessions),
        "turns": sum(not turn.is_empty for turn in turns),
        "attachments": sum(len(turn.images) for turn in turns),
        "question_attachments": sum(len(question.images) for question in questions),
        "gold_points": len(sample.points),
        "checkpoints": len(sample.checkpoints),
        "questions": len(questions),
    }


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
        """Hash over name and hash of every file the samples are read from, images included.

        Raises:
            DataError: a file cannot be read any more.
        """
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
            name = printable(path.relative_to(self.root).as_posix())
            try:
                with path.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                message = f"cannot be read: {error.strerror}"
                raise DataError([Problem(message, name)]) from None
            total.update(f"{name}\0{digest}\n".encode())
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
