"""``requirements.lock``: what it names, whether it can be trusted, and which wheels it means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.outcomes import DataError, Problem

#: The one version of PyTorch that memrig builds with, and the hashes of its CPU wheels that
#: somebody has seen. A wheel for another machine is taken unpinned and its hash is recorded.
TORCH_VERSION = "2.13.0"
TORCH_WHEELS = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    ),
}

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Lock:
    """A parsed lock. ``hashes``: package -> SHA-256 of its permitted files."""

    path: Path
    data: bytes
    hashes: dict[str, tuple[str, ...]]

    @property
    def empty(self) -> bool:
        """Nothing to install."""
        return not self.hashes

    @property
    def sha256(self) -> str:
        """Of its bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def wheels_in(self, folder: Path | None) -> list[Path]:
        """The wheels of a folder that this lock permits by hash, sorted by name."""
        if folder is None:
            return []
        found = []
        for path in sorted(folder.glob("*.whl")):
            permitted = self.hashes.get(normal(path.name.split("-")[0]), ())
            if permitted and _sha256(path) in permitted:
                found.append(path)
        return found


def read_lock(folder: Path, torch: str) -> Lock:
    """Read a baseline's lock; a folder without one has nothing to install.

    Raises:
        DataError: a line without a hash, an option, or a package that the shared layer brings.
    """
    path = folder / "requirements.lock"
    data = path.read_bytes() if path.is_file() else b""
    problems: list[Problem] = []
    hashes: dict[str, tuple[str, ...]] = {}
    for number, line in _logical_lines(data.decode("utf-8", "replace")):
        name = _NAME.match(line)
        if name is None:
            problems.append(
                Problem(f"only pinned packages may stand here: {line}", str(path), number)
            )
            continue
        package = normal(name.group())
        hashes[package] = tuple(_HASH.findall(line))
        problems += [
            Problem(message, str(path), number)
            for message in _faults(package, line, hashes[package], torch)
        ]
    if problems:
        raise DataError(problems)
    return Lock(path, data, hashes)


def _faults(package: str, line: str, hashes: tuple[str, ...], torch: str) -> Iterable[str]:
    if "==" not in line.split("--hash")[0]:
        yield f"{package} is not pinned with =="
    if not hashes:
        yield f"{package} has no --hash=sha256:...; make the lock with --generate-hashes"
    if package == "torch":
        yield (
            "torch comes from the shared layer; leave it out of the lock"
            if torch == "cpu"
            else "torch must come from the shared CPU layer: say `build: {torch: cpu}`"
        )
    if package.startswith("nvidia-"):
        yield f"{package} belongs to a CUDA build, which memrig does not build"


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """(first line's number, text) with continuation lines joined and comments gone."""
    joined, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if not line and not joined:
            continue
        first = first or number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        whole = (joined + line).strip()
        if whole:
            yield first, whole
        joined, first = "", 0
    if joined.strip():
        yield first, joined.strip()


def find_torch(folder: Path | None) -> list[Path]:
    """The CPU wheels of PyTorch in a wheel folder (one for each Python), if it has any.

    Raises:
        DataError: bytes that are not those that were seen under this name.
    """
    if folder is None:
        return []
    found = sorted(folder.glob(f"torch-{TORCH_VERSION}+cpu-*.whl"))
    for path in found:
        expected = TORCH_WHEELS.get(path.name)
        if expected is not None and _sha256(path) != expected:
            message = f"its SHA-256 is not {expected}: it is damaged, or not the wheel of this name"
            raise DataError([Problem(message, str(path))])
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
