"""Boxes without a container: a child process, or an adapter inside this very process.

A process box has a scrubbed environment, a private home and a state folder that is gone when it is
closed. Files and memory are not sealed off; ``harness.sandbox.venv`` builds on it.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.adapter import seeding, wire
from harness.adapter.contract import ERROR_KINDS, MemoryAdapter, Setup
from harness.adapter.dispatch import CallFailed, Dispatcher
from harness.adapter.meter import Meter
from harness.adapter.serve import hello
from harness.outcomes import AdapterFailure, SandboxFailure
from harness.sandbox.base import BoxRequest, Limits, ModelCall, Reply, Usage
from harness.sandbox.box import Ending, PipedBox
from harness.sandbox.child import CappedLog, Child

#: What every box's environment holds; nothing of the host's own comes along.
FIXED_ENV = {
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}


class ProcessBody:
    """Behind a process box: its state folder, and children that left its process group."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._state = root / "state"

    def kill(self) -> None:
        """End what the child started in sessions of their own."""
        end_strays(self._state)

    def ending(self, child: Child) -> Ending:
        """From the child's own exit code."""
        code = child.wait(3.0)
        if code is None:
            return Ending(note="its process does not end")
        return Ending(signal=-code) if code < 0 else Ending(code=code)

    def state_folder(self) -> Path | None:
        """The folder itself, as the box sees it."""
        return self._state

    def remove(self) -> None:
        """End strays and remove the state folder."""
        end_strays(self._state)
        shutil.rmtree(self._root, ignore_errors=True)


def end_strays(state: Path) -> None:
    """Kill every process that was started with a box's private state folder in its environment.

    A child in a session of its own is out of reach of the signal to the box's group, but it
    inherits the environment, and no other box's names this folder. Linux only; one that was started
    with another environment is not found.
    """
    mark = f"MEMRIG_STATE_DIR={state}".encode()
    for _ in range(_STRAY_ROUNDS):  # again, for one that was being forked meanwhile
        found = [pid for pid in _processes() if mark in _environment_of(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


#: How often strays are looked for at most.
_STRAY_ROUNDS = 20


def _processes() -> list[int]:
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]
    return []


def _environment_of(pid: int) -> list[bytes]:
    """What a process was started with; nothing for one that has ended or is another user's."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts ``argv`` as a box.

    Args:
        argv: the program, e.g. ``[python, "-m", "harness.adapter.serve"]``.
        env: added to the fixed environment; PYTHONPATH must lead to ``harness`` and the adapter.
        cwd: working folder.
        adapter: ``module:Class``.
        limits: of these, ``disk_mb``, ``start_s`` and ``call_s`` hold; memory and CPU do not.
        facts: what :meth:`prepare` returns for the manifest.
        kind: ``process`` or ``venv``.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path | None
    adapter: str
    limits: Limits = field(default_factory=Limits)
    facts: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "process"

    def prepare(self) -> dict[str, Any]:
        """Nothing to build."""
        return dict(self.facts)

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> PipedBox:
        """Start one box and wait for its hello; see :class:`harness.sandbox.base.Launcher`."""
        root = Path(tempfile.mkdtemp(prefix=f"memrig-{request.sample}-"))
        body = ProcessBody(root)
        stderr = CappedLog.create(request.log_dir, request.sample)
        try:
            child = Child(self.argv, self._environment(root), stderr, self.cwd)
        except OSError as error:
            stderr.close()
            body.remove()
            raise SandboxFailure(
                "START_FAILED", f"{self.argv[0]} cannot be started: {error}", log=stderr.path
            ) from None
        box = PipedBox(child, body, self.limits, model_call)
        box.initialize(request, self.adapter)
        return box

    def _environment(self, root: Path) -> dict[str, str]:
        state, scratch = root / "state", root / "tmp"
        for folder in (state / "home", scratch):
            folder.mkdir(parents=True)
        return {
            **FIXED_ENV,
            "PATH": os.defpath,
            "HOME": str(state / "home"),
            "TMPDIR": str(scratch),
            "MEMRIG_STATE_DIR": str(state),
            "MEMRIG_DISK_BYTES": str(self.limits.disk_mb * 1024 * 1024),
            **self.env,
        }


#: Builds an adapter for :class:`LocalLauncher`.
AdapterFactory = Callable[[Setup], MemoryAdapter]


class LocalBox:
    """An adapter in this process behind the same dispatcher; no pipe, no deadline, no limits."""

    def __init__(self, factory: AdapterFactory, request: BoxRequest) -> None:
        self._root = Path(tempfile.mkdtemp(prefix=f"memrig-{request.sample}-"))
        self._meter = Meter(self._root)
        self._lock = threading.Lock()
        self._usage: Usage | None = None
        setup = Setup(
            seed=seeding.seed_of(request.seed, request.sample),
            options=copy.deepcopy(request.options),
            state_dir=str(self._root),
        )
        try:
            adapter = factory(setup)
            self.hello = hello(adapter, "unknown")
        except Exception as error:
            shutil.rmtree(self._root, ignore_errors=True)
            raise SandboxFailure(
                "START_FAILED",
                f"the adapter could not be made: {type(error).__name__}: {error}",
                call="initialize",
            ) from error
        self._dispatcher = Dispatcher(adapter, meter=self._meter)

    def call(self, method: str, params: dict[str, Any], *, timeout_s: float | None = None) -> Reply:
        """Make one adapter call; see :class:`harness.sandbox.base.Box`."""
        with self._lock:
            if self._usage is not None:
                raise SandboxFailure("EXITED", "the box was closed", call=method)
            try:
                answer = self._dispatcher.call(method, params)
            except CallFailed as failed:
                raise _typed(failed.failure, method) from failed
            return Reply(answer.value, answer.meta)

    def close(self) -> Usage:
        """Remove the state folder."""
        if self._usage is None:
            self._usage = Usage(state_bytes=self._meter.measure_state(nameless=False))
            shutil.rmtree(self._root, ignore_errors=True)
        return self._usage


def _typed(failure: wire.Failure, method: str) -> Exception:
    if failure.code == wire.INVALID_PARAMS or failure.kind not in ERROR_KINDS:
        return SandboxFailure("PROTOCOL", failure.message, call=method)
    return AdapterFailure(
        failure.kind,
        failure.message,
        call=method,
        retry_safe=failure.retry_safe,
        cause=failure.cause,
        traceback=failure.traceback,
    )


@dataclass(frozen=True)
class LocalLauncher:
    """Adapters inside this process: for tests, and as the floor that boxes are measured against.

    ``factory`` takes a :class:`Setup` (an adapter class does). The process's own random generators
    are left alone; the adapter has ``setup.seed``.
    """

    factory: AdapterFactory
    kind: str = "process"

    def prepare(self) -> dict[str, Any]:
        """Nothing to build."""
        return {}

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> LocalBox:
        """Make the adapter."""
        return LocalBox(self.factory, request)
