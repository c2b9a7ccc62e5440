"""The files a box is made from: gathered, ordered and hashed the same on every machine.

One tree serves both kinds of box: an image gets it as ``/opt/memrig``, an environment as its
``box`` folder::

    harness/__init__.py     empty
    harness/adapter/*.py    the half of memrig that runs inside
    baseline/**             the baseline's folder
    sources/<name>/**       code pinned by commit

Mode, owner, times and directory order of the disk do not reach it: 0644 or 0755, uid 0, time 0,
sorted by path. Secrets (``.env`` and its kind), caches and version-control folders are left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from harness.outcomes import BuildError

ADAPTER = Path(__file__).resolve().parent.parent / "adapter"

_SKIPPED_FOLDERS = {"__pycache__", ".git", ".hg", ".svn", ".venv", ".mypy_cache", ".ruff_cache"}
_SKIPPED_FOLDERS |= {".pytest_cache", ".hypothesis", ".memrig", ".idea", ".vscode"}
_SKIPPED_FILES = {".DS_Store", ".netrc", ".pypirc", ".git-credentials"}

#: A file up to this size is read when it is found, a larger one (weights) when it is needed.
_IN_MEMORY = 8 * 1024 * 1024

_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".swp", "~")


@dataclass(frozen=True)
class File:
    """One file of a context: ``path`` (POSIX, relative), and its bytes in memory or on disk."""

    path: str
    data: bytes | None = None
    source: Path | None = None
    executable: bool = False

    def read(self) -> bytes:
        """Its bytes."""
        if self.data is not None:
            return self.data
        assert self.source is not None
        return self.source.read_bytes()

    def sha256(self) -> str:
        """Hash of its bytes, hexadecimal."""
        if self.data is not None:
            return hashlib.sha256(self.data).hexdigest()
        assert self.source is not None
        with self.source.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    @property
    def mode(self) -> int:
        """0755 or 0644, whatever the disk says about group and others."""
        return 0o755 if self.executable else 0o644


def is_secret(name: str) -> bool:
    """Whether a file of this name never enters a context: ``.env``, ``.env.local``, ``my.env``."""
    return name == ".env" or name.startswith(".env.") or name.endswith(".env") or name == ".envrc"


def files_of(folder: Path, prefix: str) -> list[File]:
    """All files of a folder as ``prefix/...``, sorted.

    Raises:
        BuildError: a link that leads out of the folder (it could carry anything in), or a name
            that is not UTF-8.
    """
    root = folder.resolve()
    found = []
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in [*folders, *names]:
            _refuse_link_out(Path(parent) / name, root)
        for name in names:
            if is_secret(name) or name in _SKIPPED_FILES or name.endswith(_SKIPPED_SUFFIXES):
                continue
            path = Path(parent) / name
            if is_secret(path.resolve().name) or not path.is_file():
                continue
            inside = PurePosixPath(prefix, *path.relative_to(root).parts)
            found.append(_file(str(inside), path))
    return sorted(found, key=lambda file: file.path)


def _file(inside: str, path: Path) -> File:
    try:
        inside.encode("utf-8")
    except UnicodeEncodeError:
        raise BuildError(f"the file name {os.fsencode(path)!r} is not UTF-8") from None
    stat = path.stat()
    executable = bool(stat.st_mode & 0o100)
    if stat.st_size > _IN_MEMORY:
        return File(inside, source=path, executable=executable)
    # Read once, so that an edit between hashing and building cannot part the two.
    return File(inside, path.read_bytes(), executable=executable)


def _refuse_link_out(path: Path, root: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        raise BuildError(f"{path} links to {path.resolve()}, which is outside of {root}")


def box_tree(baseline_folder: Path, sources: Iterable[File] = ()) -> list[File]:
    """The tree that a box holds, sorted by path; ``sources`` are already under ``sources/``."""
    adapter = [file for file in files_of(ADAPTER, "harness/adapter") if file.path.endswith(".py")]
    tree = [
        File("harness/__init__.py", b""),
        *adapter,
        *files_of(baseline_folder, "baseline"),
        *sources,
    ]
    return sorted(tree, key=lambda file: file.path)


def under(prefix: str, files: Iterable[File]) -> list[File]:
    """The same files in a folder ``prefix``."""
    return [File(f"{prefix}/{f.path}", f.data, f.source, f.executable) for f in files]


def content_hash(files: Iterable[File], facts: Mapping[str, object]) -> str:
    """SHA-256 over path, mode and bytes of every file, and over what else the result depends on.

    ``facts``: JSON values such as the base image's id, build arguments and the platform.
    """
    listing = sorted([file.path, file.mode, file.sha256()] for file in files)
    text = json.dumps([listing, facts], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_tar(files: Iterable[File], stream: IO[bytes]) -> None:
    """Write a tar that is byte-equal for equal files."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(files, key=lambda entry: entry.path):
            entry = tarfile.TarInfo(file.path)
            entry.mode = file.mode
            if file.data is not None:
                entry.size = len(file.data)
                archive.addfile(entry, io.BytesIO(file.data))
                continue
            assert file.source is not None
            with file.source.open("rb") as content:
                entry.size = os.fstat(content.fileno()).st_size
                archive.addfile(entry, content)


def write_folder(files: Iterable[File], folder: Path) -> None:
    """Lay the files into a folder."""
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.read())
        path.chmod(file.mode)
