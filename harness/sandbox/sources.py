"""Code that no package registry has: fetched by commit on the host, laid into the box's tree.

The host's own git does it, so a user's mirrors (``url.<base>.insteadOf``) and credentials apply
and neither reaches a build. Files are read from git's object store, not from a checkout: no
line-end conversion, no filter and no archive attribute can change a byte.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit, urlunsplit

from filelock import FileLock

from harness.catalog import Source
from harness.outcomes import BuildError
from harness.sandbox.context import File, is_secret
from harness.settings import Settings
from harness.strict_yaml import load

#: Seconds for one fetch.
FETCH_S = 1800


@dataclass(frozen=True)
class Fetched:
    """A source on this machine: its ``name`` in the box, the ``commit`` and its files."""

    name: str
    repository: str
    commit: str
    files: tuple[File, ...]
    python_path: tuple[str, ...]

    def facts(self) -> dict[str, str]:
        """What the manifest says about it (an address without user or password)."""
        return {"repository": shown(self.repository), "commit": self.commit}


def name_of(repository: str) -> str:
    """The folder's name in the box: the last part of the address without ``.git``."""
    last = re.split(r"[/:\\]", repository.rstrip("/\\"))[-1].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]", "_", last) or "source"


def shown(repository: str) -> str:
    """The address for people and logs: without user and password."""
    parts = urlsplit(repository)
    if "@" not in parts.netloc:
        return repository
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def fetch(source: Source, settings: Settings) -> Fetched:
    """Bring one source here (or find it in the cache), and check that it is the commit asked for.

    A commit ``unknown`` takes the head of the default branch; the caller tells the user which it
    was (:func:`record_commit`).

    Raises:
        BuildError: with the path of git's log.
    """
    key = hashlib.sha256(source.repository.encode()).hexdigest()[:8]
    store = settings.work_dir / "sources" / f"{name_of(source.repository)}-{key}.git"
    log = settings.work_dir / "logs" / f"source-{store.stem}.log"
    store.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(store.with_suffix(".lock")):
        git = _Git(store, log)
        git.ensure()
        commit = source.commit
        if commit == "unknown":
            git.run("fetch", "--depth=1", source.repository, "HEAD")
            commit = git.read("rev-parse", "FETCH_HEAD").decode().strip()
        elif not git.has(commit):
            _fetch_commit(git, source)
        if not git.has(commit):
            raise BuildError(f"{shown(source.repository)} has no commit {commit}", log)
        name = name_of(source.repository)
        files = [
            File(f"sources/{name}/{file.path}", file.data, None, file.executable)
            for file in _files(git, commit, source)
        ]
    python_path = tuple(str(PurePosixPath("sources", name, path)) for path in source.python_path)
    return Fetched(name, source.repository, commit, tuple(files), python_path)


def fetch_all(sources: tuple[Source, ...], settings: Settings) -> list[Fetched]:
    """Fetch all sources of a baseline; a commit ``unknown`` is refused here: builds need pins.

    Raises:
        BuildError: an unpinned source, two sources of one name, or a fetch that failed.
    """
    names = [name_of(source.repository) for source in sources]
    for source, name in zip(sources, names, strict=True):
        if names.count(name) > 1:
            raise BuildError(f"two sources are called {name!r}")
        if source.commit == "unknown":
            raise BuildError(
                f"{shown(source.repository)} is not pinned (commit: unknown); "
                "`memrig source get NAME` fetches it and records the commit"
            )
    return [fetch(source, settings) for source in sources]


def record_commit(yaml_path: Path, index: int, commit: str) -> None:
    """Write the commit of source number ``index``, which was ``unknown``, into ``baseline.yaml``.

    The one line is edited and the rest stays byte for byte, comments included.
    """
    _, at = load(yaml_path)
    number = at[("sources", index, "commit")] - 1
    lines = yaml_path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[number] = re.sub(r"\bunknown\b", commit, lines[number], count=1)
    temporary = yaml_path.with_suffix(".yaml.tmp")
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(yaml_path)


class _Git:
    """The user's git on one bare repository, everything it says kept in a log."""

    def __init__(self, store: Path, log: Path) -> None:
        self.store = store
        self.log = log

    def ensure(self) -> None:
        if not (self.store / "HEAD").exists():
            self._git(["init", "--quiet", "--bare", str(self.store)])

    def has(self, commit: str) -> bool:
        argv = ["--git-dir", str(self.store), "cat-file", "-t", commit]
        done = self._process(argv, None)
        return done.returncode == 0 and done.stdout.strip() == b"commit"

    def run(self, *argv: str) -> None:
        self._git(["--git-dir", str(self.store), *argv])

    def read(self, *argv: str, stdin: bytes | None = None) -> bytes:
        return self._git(["--git-dir", str(self.store), *argv], stdin)

    def _git(self, argv: list[str], stdin: bytes | None = None) -> bytes:
        done = self._process(argv, stdin)
        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
            raise BuildError(f"git failed: {' '.join(last) or 'no message'}", self.log)
        return done.stdout

    def _process(self, argv: list[str], stdin: bytes | None) -> subprocess.CompletedProcess[bytes]:
        # Nobody can answer a password prompt in the middle of a build, and an LFS filter would
        # fetch files that the paths may not need.
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
        try:
            done = subprocess.run(
                ["git", *argv],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                timeout=FETCH_S,
                env=env,
                check=False,
            )
        except FileNotFoundError:
            raise BuildError("git is not installed: `apt-get install git`") from None
        except subprocess.TimeoutExpired:
            raise BuildError(f"git gave no answer within {FETCH_S} s", self.log) from None
        with self.log.open("ab") as log:
            shown_argv = " ".join(shown(part) for part in argv)
            log.write(f"$ git {shown_argv}\n".encode() + done.stderr)
        return done


def _fetch_commit(git: _Git, source: Source) -> None:
    """One commit without history; a server that does not serve single commits gives all of it."""
    try:
        git.run("fetch", "--depth=1", source.repository, source.commit)
    except BuildError:
        git.run(
            "fetch",
            "--force",
            source.repository,
            "+refs/heads/*:refs/heads/*",
            "+refs/tags/*:refs/tags/*",
        )


def _files(git: _Git, commit: str, source: Source) -> list[File]:
    """The files under the paths, by path, as git stores them."""
    entries: dict[str, tuple[str, str]] = {}
    for wanted in source.paths:
        path = str(PurePosixPath(wanted))
        argv = ["ls-tree", "-r", "-z", "--full-tree", commit]
        listing = git.read(*argv, *([] if path == "." else ["--", path]))
        found = [line for line in listing.split(b"\0") if line]
        if not found:
            where = f"{shown(source.repository)} at {commit}"
            raise BuildError(f"{where} has no {wanted!r}", git.log)
        for line in found:
            meta, _, place = line.decode("utf-8").partition("\t")
            mode, _, blob = meta.split(" ")
            entries[place] = (mode, blob)
    for place, (mode, _) in entries.items():
        if mode == "160000":
            raise BuildError(f"{place} is a submodule: list its repository as a source of its own")
    data = _blobs(git, [blob for _, blob in entries.values()])
    contents = {name: data[blob] for name, (_, blob) in entries.items()}
    return [
        File(name, _follow(name, entries, contents), None, _mode(name, entries) == "100755")
        for name in sorted(entries)
        if not is_secret(PurePosixPath(name).name)
    ]


def _mode(name: str, entries: dict[str, tuple[str, str]]) -> str:
    return entries[name][0]


def _follow(name: str, entries: dict[str, tuple[str, str]], contents: dict[str, bytes]) -> bytes:
    """A file's bytes; a link becomes a copy of what it points at, if that is among the paths."""
    seen = set()
    at = name
    while entries[at][0] == "120000":
        seen.add(at)
        target = os.path.normpath(
            os.path.join(os.path.dirname(at), contents[at].decode("utf-8"))  # noqa: PTH118, PTH120
        )
        if target not in entries or target in seen:
            raise BuildError(f"{name} links to {target}, which is not among the paths fetched")
        at = target
    return contents[at]


def _blobs(git: _Git, ids: list[str]) -> dict[str, bytes]:
    """Object id -> bytes, in one call of ``git cat-file --batch``."""
    wanted = sorted(set(ids))
    stream = git.read("cat-file", "--batch", stdin="".join(f"{i}\n" for i in wanted).encode())
    found: dict[str, bytes] = {}
    at = 0
    while at < len(stream):
        end = stream.index(b"\n", at)
        blob, kind, size = stream[at:end].decode().split(" ")
        assert kind == "blob", kind
        found[blob] = stream[end + 1 : end + 1 + int(size)]
        at = end + 1 + int(size) + 1
    return found
