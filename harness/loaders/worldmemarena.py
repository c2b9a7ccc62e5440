"""The published successor of ``domain_a_v2``: WorldMemArena, one JSON object a sample.

A sample file holds ``sample_id``, ``sessions``, ``memory_points`` (a list of ``{session_id,
memory_points}``; those of S00 stand inside its session) and ``qa_checkpoints``. Image paths are
relative to the sample's own file. Files stand in any folder below the one that is opened, in order
of their paths. Built from the description of the format; see ``datasets/worldmemarena.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.loaders.dataset import FileDataset, Indexer, Ref
from harness.loaders.fields import json_type, read_key_id
from harness.loaders.findings import At, Findings, words
from harness.loaders.images import ImageFolder
from harness.loaders.normalise import RawSample, normalise
from harness.loaders.slices import Slice, first_byte, whole_file
from harness.loaders.strict import parse
from harness.outcomes import DataError, printable
from harness.samples import Sample

ID = "worldmemarena"
SUMMARY = "a JSON file, or a folder of them, each one sample with sessions and qa_checkpoints"

_KNOWN = frozenset(
    {"uuid", "sample_id", "sessions", "memory_points", "qa_checkpoints", "show_image_ids"}
)
#: So many folders deep samples are looked for; the published layout has three.
_FOLDERS = 4
_SIGNS = ("qa_checkpoints", "sessions")


def matches(path: Path) -> bool:
    """A JSON object with the fields of a sample, or a folder with such a file below it."""
    return any(_looks_like_sample(file) for file in _json_files(path))


def load(path: Path, *, strict: bool = False) -> FileDataset:
    """Validate all samples and index them.

    Raises:
        DataError: every reason to refuse them.
    """
    path = path.resolve()
    root = path if path.is_dir() else path.parent
    findings = Findings(strict=strict)
    arena = _Arena(root, printable(path.stem if path.is_file() else path.name), findings)
    indexer = Indexer(findings, root)
    for ref in arena.samples(path):
        indexer.take((ref,), arena.build)
    indexer.finish()
    return FileDataset(
        name=arena.name,
        format=ID,
        root=root,
        files=tuple(ref.path for (ref,) in indexer.refs.values()),
        balance=findings.balance(),
        content_sha256=indexer.content_sha256,
        refs=indexer.refs,
        build=arena.build,
    )


def _json_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    levels = (path.glob("*/" * depth + "*.json") for depth in range(_FOLDERS + 1))
    found = (file for level in levels for file in level if file.is_file())
    shown = (f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts))
    yield from sorted(shown, key=lambda file: file.relative_to(path).as_posix())


def _looks_like_sample(file: Path) -> bool:
    if first_byte(file) != b"{":
        return False
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return all(f'"{sign}"'.encode() in content for sign in _SIGNS)


class _Arena:
    """The sample files below one folder."""

    def __init__(self, root: Path, name: str, findings: Findings) -> None:
        self.name = name
        self._root = root
        self._findings = findings
        self._files: dict[str, str] = {}

    def samples(self, path: Path) -> Iterator[Ref]:
        """The ref of every file that is a sample with an id of its own."""
        for file in _json_files(path):
            name = printable(file.relative_to(self._root).as_posix())
            try:
                piece = whole_file(file, name)
                value = parse(piece, words)
            except DataError as error:
                self._findings.absorb(error)
                continue
            if self._is_new_sample(At(piece, value), value):
                yield Ref.of(file, piece)

    def _is_new_sample(self, at: At, value: Any) -> bool:
        if not isinstance(value, dict) or not any(sign in value for sign in _SIGNS):
            what = "an object without sessions" if isinstance(value, dict) else json_type(value)
            self._findings.leave_out("file", at, f"{at.file}: {what}, not a sample")
            return False
        sample_id = read_key_id(
            self._findings, at, value.get("sample_id"), "sample_id", in_path=True
        )
        if not sample_id:
            return False
        first = self._files.setdefault(sample_id, at.file)
        if first != at.file:
            message = f"sample id {sample_id!r} stands in {first} and in {at.file}"
            self._findings.refuse(at, message)
            return False
        return True

    def build(self, refs: tuple[Ref, ...], findings: Findings) -> Sample | None:
        """Read and normalise one sample."""
        piece: Slice = refs[0].read()
        value = parse(piece, words)
        at = At(piece, value)
        parent = Path(piece.file).parent.as_posix()
        return normalise(
            RawSample(
                sample_id=value["sample_id"],
                value=value,
                at=at,
                points=value.get("memory_points"),
                points_at=at.child("memory_points"),
                checkpoints=value.get("qa_checkpoints"),
                checkpoints_at=at.child("qa_checkpoints"),
                known=_KNOWN,
                labels={} if parent == "." else {"subcategory": parent},
            ),
            self.name,
            ImageFolder(self._root, refs[0].path.parent),
            findings,
        )
