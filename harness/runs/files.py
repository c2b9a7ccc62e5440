"""Files that are whole or not there: JSON lines, atomic replacement, and a full disk by name."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from harness.outcomes import RunError

#: What the system says when a file cannot grow: disk full, quota, the process's own limit.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

CHUNK = 1 << 20


class DiskFull(RunError):
    """Nothing more can be written. What was recorded before is kept and the run can be resumed."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {path}: {error.strerror}. What was recorded is kept.\n"
            "  Free some space, then run the same command again: it resumes."
        )
        self.path = path


@contextmanager
def full_disk_by_name(path: Path) -> Iterator[None]:
    """Turn "no space left" into :class:`DiskFull`; any other ``OSError`` goes through."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(path, error) from error
        raise


def canonical(value: Any) -> bytes:
    """The one way to write a JSON value down for a hash: sorted keys, no spaces, UTF-8."""
    return _dumps(value, sort_keys=True)


def line_of(value: Any) -> bytes:
    """One JSON line, keys in the order given, newline included."""
    return _dumps(value, sort_keys=False) + b"\n"


def _dumps(value: Any, *, sort_keys: bool) -> bytes:
    text = json.dumps(
        value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False
    )
    return text.encode("utf-8")


def sha256_of(value: Any) -> str:
    """Hash of the canonical form of a JSON value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def file_sha256(path: Path, start: int = 0, end: int | None = None) -> str:
    """Hash of a file's bytes, or of those from ``start`` up to ``end``."""
    digest = hashlib.sha256()
    for chunk in chunks(path, start, end):
        digest.update(chunk)
    return digest.hexdigest()


def chunks(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file from ``start`` up to ``end``, a piece at a time."""
    with path.open("rb") as file:
        file.seek(start)
        left = end - start if end is not None else None
        while left is None or left > 0:
            chunk = file.read(CHUNK if left is None else min(CHUNK, left))
            if not chunk:
                return
            if left is not None:
                left -= len(chunk)
            yield chunk


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file as a whole: written beside it, synced, renamed, the folder synced."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with full_disk_by_name(path):
        try:
            with beside.open("wb") as file:
                file.write(data)
                sync(file)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file for people and programs, atomically."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    write_atomic(path, text.encode("utf-8") + b"\n")


def read_json(path: Path) -> Any:
    """Read a JSON file of a run.

    Raises:
        RunError: it is not there or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path} is not there: no run, or not one that got this far") from None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from None
    except RecursionError:
        raise RunError(f"{path} is damaged: it is nested too deeply") from None


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run that holds an object; raises as :func:`read_json` does."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: it holds no JSON object")
    return value


def sync(file: BinaryIO) -> None:
    """Everything written so far is on the disk when this returns."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """Bytes in a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def lines(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The whole lines of a part of a file, newline included; a torn last one is left out."""
    with path.open("rb") as file:
        file.seek(start)
        place = start
        for line in file:
            place += len(line)
            if not line.endswith(b"\n") or (end is not None and place > end):
                return
            yield line


def cut(path: Path, size: int) -> None:
    """Cut a file back to ``size`` bytes, synced; a file that is not there stays away."""
    if size_of(path) > size:
        with path.open("r+b") as file:
            file.truncate(size)
            sync(file)
