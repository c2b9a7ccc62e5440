"""A baseline in a virtual environment of its own: the same folder and the same pipe, no engine.

What it seals: packages, the process's environment variables, home and state folder, and the
network where the kernel gives a user and network namespace. What it does not seal: files, memory
and CPU. The manifest says which.

Environments are cached by content under ``.memrig/venvs`` and made once under a file lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness import __version__
from harness.catalog import Baseline
from harness.outcomes import BuildError
from harness.sandbox import recipe as recipes
from harness.sandbox.base import Box, BoxRequest, ModelCall
from harness.sandbox.context import File, content_hash, write_folder
from harness.sandbox.dockerfile import binary_only
from harness.sandbox.lockfile import TORCH_VERSION, Lock, find_torch, read_lock
from harness.sandbox.process import ProcessLauncher
from harness.sandbox.sources import Fetched, fetch_all
from harness.settings import NO_INDEX, Settings

#: Seconds for one installation.
INSTALL_S = 1800

_ENTER = Path(__file__).with_name("enter.py")


@dataclass(frozen=True)
class Network:
    """Whether a venv box can be cut off from the network here; ``note`` says why not."""

    isolated: bool
    note: str


@cache
def probe_network() -> Network:
    """Try a network namespace once in this process's life."""
    if not sys.platform.startswith("linux"):
        return Network(False, f"{sys.platform} has no network namespaces")
    env = {"PATH": os.defpath}
    argv = [sys.executable, "-I", str(_ENTER), "none", sys.executable, "-I", "-c", ""]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=30, env=env, check=False)
    except subprocess.TimeoutExpired:
        return Network(False, "the kernel gave no answer about a network namespace")
    if done.returncode == 0:
        return Network(True, "a network namespace of its own")
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return Network(False, said[-1] if said else f"exit code {done.returncode}")


@dataclass(frozen=True)
class Environment:
    """A finished environment: its folder, its interpreter and the import path of its boxes."""

    root: Path
    hash: str
    python_path: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.root / "venv" / "bin" / "python"


def ensure(
    baseline: Baseline,
    settings: Settings,
    say: Callable[[str], None] = lambda message: None,
    *,
    no_cache: bool = False,
) -> Environment:
    """Find the baseline's environment or make it.

    Raises:
        BuildError: with the path of the log. DataError: a lock that cannot be trusted.
    """
    lock = read_lock(baseline.home, baseline.build.torch)
    sources = fetch_all(baseline.sources, settings)
    files = recipes.box_files(baseline, sources)
    torch = _torch_flags(baseline, settings)
    digest = _digest(baseline, files, lock, torch)
    root = _root_of(baseline, digest, settings)
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(root.parent / f"{root.name}.lock"):
        if no_cache or not _is_ready(root, digest):
            say(f"making the environment {root.name} (log: {_log_of(settings, root)})")
            shutil.rmtree(root, ignore_errors=True)
            _make(root, files, lock, torch, baseline, settings)
            _write_ready(root, digest)
    return _environment(root, digest, baseline, lock, sources)


def current(baseline: Baseline, settings: Settings) -> Path | None:
    """The environment that this baseline would start now, if it is there; makes nothing.

    Where sources would have to be fetched to know, any finished environment of the baseline will
    do.
    """
    if baseline.sources:
        made = (settings.work_dir / "venvs").glob(f"{baseline.family.lower()}-*/ready.json")
        return next((path.parent for path in sorted(made)), None)
    lock = read_lock(baseline.home, baseline.build.torch)
    try:
        torch = _torch_flags(baseline, settings)
    except BuildError:
        return None
    digest = _digest(baseline, recipes.box_files(baseline, ()), lock, torch)
    root = _root_of(baseline, digest, settings)
    return root if _is_ready(root, digest) else None


def _digest(baseline: Baseline, files: Sequence[File], lock: Lock, torch: Sequence[str]) -> str:
    facts = {
        "python": platform.python_version(),
        "implementation": sys.implementation.cache_tag,
        "platform": f"{sys.platform}/{platform.machine()}",
        "torch": [part for part in torch if not Path(part).is_absolute()],
        "sdist_allowed": baseline.build.sdist_allowed,
    }
    return content_hash([*files, File("requirements.lock", lock.data)], facts)


def _root_of(baseline: Baseline, digest: str, settings: Settings) -> Path:
    return settings.work_dir / "venvs" / f"{baseline.family.lower()}-{digest[:12]}"


def _environment(
    root: Path, digest: str, baseline: Baseline, lock: Lock, sources: Sequence[Fetched]
) -> Environment:
    places = ["", "baseline", *(place for source in sources for place in source.python_path)]
    facts = {
        "environment": root.name,
        "environment_hash": digest,
        "host_python": platform.python_version(),
        "platform": f"{sys.platform}/{platform.machine()}",
        "lock_sha256": lock.sha256,
        "sources": [source.facts() for source in sources],
        "files": "not isolated",
    }
    if baseline.build.apt:
        facts["apt_not_installed"] = list(baseline.build.apt)
    return Environment(root, digest, tuple(str(root / "box" / place) for place in places), facts)


def _make(
    root: Path,
    files: Sequence[File],
    lock: Lock,
    torch: Sequence[str],
    baseline: Baseline,
    settings: Settings,
) -> None:
    log = _log_of(settings, root)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"== {root.name}, memrig {__version__}\n", encoding="utf-8")
    root.mkdir(parents=True)
    uv = _Uv(log, settings)
    uv.run(["venv", "--quiet", "--python", sys.executable, str(root / "venv")])
    python = str(root / "venv" / "bin" / "python")
    # A box writes no bytecode; without it here, every start would compile thousands of modules.
    install = ["pip", "install", "--python", python, "--no-deps", "--compile-bytecode"]
    if torch:
        uv.run([*install, *torch])
    if not lock.empty:
        path = root / "requirements.lock"
        path.write_bytes(lock.data)
        flags = ["--require-hashes", *binary_only(baseline.build.sdist_allowed)]
        uv.run([*install, *flags, *uv.where(), "-r", str(path)])
        uv.run(["pip", "check", "--python", python])
    write_folder(files, root / "box")
    check = [python, "-I", str(root / "box" / "boxcheck.py"), str(root / "box")]
    _logged([*check, baseline.build.torch], log, {"PATH": os.defpath})


def _torch_flags(baseline: Baseline, settings: Settings) -> list[str]:
    """What to ask uv for so that it takes the CPU build: the wheel itself, or an index of them."""
    if baseline.build.torch == "none":
        return []
    mine = [path for path in find_torch(settings.wheel_dir) if _fits_here(path.name)]
    if mine:
        return ["--no-index", str(mine[0])]
    if settings.torch_index:
        return ["--default-index", settings.torch_index, f"torch=={TORCH_VERSION}"]
    if sys.platform == "darwin":
        return [f"torch=={TORCH_VERSION}"]  # all that there is for this system is a CPU build
    raise BuildError(recipes.no_torch(settings))


def _fits_here(wheel: str) -> bool:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"-{tag}-" in wheel and platform.machine() in wheel


class _Uv:
    """uv, with the build's settings, everything it says kept in the log."""

    def __init__(self, log: Path, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._uv = find_uv()

    def run(self, argv: list[str]) -> None:
        env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        env |= {"UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
        if self._settings.ca_file:
            env["SSL_CERT_FILE"] = str(self._settings.ca_file)
        _logged([self._uv, *argv], self._log, env)

    def where(self) -> list[str]:
        """Where packages come from. The lock's hashes decide, so any index may serve a file."""
        settings = self._settings
        links = ["--find-links", str(settings.wheel_dir)] if settings.wheel_dir else []
        if settings.package_index == NO_INDEX:
            return ["--no-index", *links]
        flags = ["--default-index", settings.package_index] if settings.package_index else []
        for address in settings.extra_index:
            flags += ["--index", address]
        if settings.extra_index:
            flags += ["--index-strategy", "unsafe-best-match"]
        return [*flags, *links]


def find_uv() -> str:
    """The path of uv.

    Raises:
        BuildError: there is none.
    """
    with contextlib.suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return find_uv_bin()
    found = shutil.which("uv")
    if found is None:
        raise BuildError("uv is not installed; it comes with memrig's own packages: make bench")
    return found


def _logged(argv: list[str], log: Path, env: dict[str, str]) -> None:
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {' '.join(argv)}\n")
        stream.flush()
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=env,
                timeout=INSTALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"gave up after {INSTALL_S} s: {Path(argv[0]).name}", log) from None
    if done.returncode != 0:
        last = log.read_text("utf-8", "replace").strip().splitlines()[-6:]
        raise BuildError("the environment could not be made:\n  " + "\n  ".join(last), log)


def _log_of(settings: Settings, root: Path) -> Path:
    return settings.work_dir / "logs" / f"venv-{root.name}.log"


def _is_ready(root: Path, digest: str) -> bool:
    try:
        return bool(json.loads((root / "ready.json").read_text())["hash"] == digest)
    except (OSError, ValueError, KeyError):
        return False


def _write_ready(root: Path, digest: str) -> None:
    """Last of all, in one step: an environment without it is made anew."""
    temporary = root / "ready.json.tmp"
    temporary.write_text(json.dumps({"hash": digest, "memrig": __version__}))
    temporary.replace(root / "ready.json")


class VenvLauncher:
    """Starts boxes of one baseline in its environment; see :class:`harness.sandbox.base.Launcher`.

    ``note`` says in one line what kind of sandbox this is and why.
    """

    kind = "venv"

    def __init__(
        self,
        baseline: Baseline,
        settings: Settings,
        *,
        note: str = "",
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.note = note
        self._baseline = baseline
        self._settings = settings
        self._say = say
        self._process: ProcessLauncher | None = None

    def prepare(self) -> dict[str, Any]:
        """Make the environment if it is missing; returns the manifest's facts."""
        made = ensure(self._baseline, self._settings, self._say)
        network = probe_network()
        python = str(made.python)
        entry = [python, "-I", str(_ENTER), "none" if network.isolated else "host"]
        facts = {**made.facts, "network": "none" if network.isolated else "host"}
        facts["network_note"] = network.note
        facts["clock"] = self._baseline.clock
        self._process = ProcessLauncher(
            argv=[*entry, python, "-m", "harness.adapter.serve"],
            env={
                "PATH": f"{made.python.parent}{os.pathsep}{os.defpath}",
                "PYTHONNOUSERSITE": "1",
                "PYTHONPATH": os.pathsep.join(made.python_path),
                "PYTHONSAFEPATH": "1",
                "PYTHONUNBUFFERED": "1",
                **self._baseline.environment,
            },
            cwd=None,
            adapter=self._baseline.adapter,
            limits=self._baseline.limits,
            facts=facts,
            kind=self.kind,
        )
        return facts

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        """Start one box and wait for its hello."""
        if self._process is None:
            self.prepare()
        assert self._process is not None
        return self._process.start(request, model_call)
