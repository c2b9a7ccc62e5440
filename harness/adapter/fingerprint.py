"""Hash of a folder's content: the same on every machine, whatever modes and times its files have.

sha256 over the sorted relative names and contents, each preceded by its length. Compiled files are
left out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_SKIP_FOLDERS = frozenset({"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
_SKIP_SUFFIXES = (".pyc", ".pyo")


def content_files(folder: Path) -> list[Path]:
    """The files of a folder that count, in the order of their POSIX names."""
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix not in _SKIP_SUFFIXES
        and path.name != ".DS_Store"
        and not _SKIP_FOLDERS.intersection(path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def folder_sha256(folder: Path) -> str:
    """64 hex digits for what a folder holds."""
    digest = hashlib.sha256()
    for path in content_files(folder):
        for part in (path.relative_to(folder).as_posix().encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()
