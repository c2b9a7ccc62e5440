"""What a box is to the rest of memrig: one call at a time, a typed failure, a close.

``pipeline`` sees only this module and :mod:`harness.sandbox.client`. Container, venv and
in-process boxes are three :class:`Launcher` classes behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: How the host answers a box's ``model.call``: parameters in, JSON result out. Raises
#: :class:`harness.outcomes.ModelFailure`.
ModelCall = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Limits:
    """Hard limits of a box. Constants in the manifest, never computed from free memory.

    ``memory_mb``, ``disk_mb`` in MiB (disk is /state), ``cpus`` in cores, ``pids`` processes and
    threads, ``start_s`` and ``call_s`` seconds. ``shm_mb`` in MiB is /dev/shm of a container, part
    of its memory; 0: there is none, so that nothing can be written outside /tmp and /state.
    """

    memory_mb: int = 2048
    cpus: float = 1.0
    pids: int = 256
    disk_mb: int = 2048
    start_s: float = 300.0
    call_s: float = 300.0
    shm_mb: int = 0


@dataclass(frozen=True)
class BoxRequest:
    """What a launcher needs to start one box.

    ``sample`` is the opaque ordinal (``s0001``) that seeds the box and names its log; ``log_dir``
    receives ``<sample>.<n>.stderr``.
    """

    sample: str
    seed: int
    options: dict[str, Any]
    log_dir: Path
    routes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A result and what the box measured while it made it.

    ``meta``: ``ms`` (float, inside the adapter), ``rss`` (bytes), ``oom_kills`` (int),
    ``state_bytes`` (int), ``pending_calls`` (int), ``degraded`` (reasons, if any); none negative.
    As the box sent it: :func:`harness.sandbox.meta.checked` says whether it can be.
    """

    value: Any
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """What a box used in its life; a field is absent where the kind of box cannot tell."""

    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    state_bytes: int | None = None
    oom_kills: int | None = None


class Box(Protocol):
    """A started baseline.

    ``hello`` is the reply to ``initialize``: protocol, adapter, versions, capabilities.
    """

    @property
    def hello(self) -> dict[str, Any]:
        """What the box said about itself when it started."""

    def call(self, method: str, params: dict[str, Any], *, timeout_s: float | None = None) -> Reply:
        """Make one adapter call.

        Raises:
            SandboxFailure: the box ended, hung or broke the protocol; it is not usable any more.
            AdapterFailure: the memory system failed and said so; the box lives on.
        """

    def close(self) -> Usage:
        """End the box and remove what it was made of. Safe to call twice and after a failure."""


class Launcher(Protocol):
    """Starts boxes of one baseline in one kind of sandbox."""

    @property
    def kind(self) -> str:
        """``container``, ``venv`` or ``process``."""

    def prepare(self) -> dict[str, Any]:
        """Build what is missing; returns the manifest's facts about it (image id, lock, ...).

        Raises:
            BuildError: with the path of the log.
        """

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        """Start one box and wait for its hello.

        Raises:
            SandboxFailure: START_FAILED, START_TIMEOUT, OUT_OF_MEMORY, PROTOCOL.
        """
