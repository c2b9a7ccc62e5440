"""Boxes in containers: sealed from the network and from the host's files, with hard limits.

``create`` and then ``start -a -i`` as a child process; the box's messages are that child's stdin
and stdout. Client first, container second, whenever something is to be ended.

``/state`` is a nameless volume: on disk (so that it does not count as memory), owned by the box's
user because the image's own ``/state`` is, and gone with its container. The box itself watches its
size and ends by name over the limit; that works wherever the engine runs, also while the adapter
is busy. Where the engine is local and the host may look into the volume, the host watches it too.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.outcomes import EngineError, SandboxFailure
from harness.sandbox import ownership
from harness.sandbox.base import BoxRequest, Limits, ModelCall
from harness.sandbox.box import Ending, PipedBox
from harness.sandbox.child import CappedLog, Child
from harness.sandbox.engine import Engine
from harness.sandbox.engine_link import BoxState, proxy_names

#: The whole environment that a box gets beside its image's own.
FIXED_ENV = {
    "HOME": "/state/home",
    "MEMRIG_OWN_CGROUP": "1",
    "MEMRIG_STATE_DIR": "/state",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",  # noqa: S108  (the box's own)
    "TZ": "UTC",
}


class ContainerBody:
    """The container behind an attached client."""

    def __init__(self, engine: Engine, box: str) -> None:
        self.engine = engine
        self.id = box

    def kill(self) -> None:
        """End the container; its client is gone already."""
        self.engine.kill(self.id)

    def ending(self, child: Child) -> Ending:
        """From the container's state.

        Out of memory only if the flag is set and the main process was killed: the flag alone is
        also set where a child of the box was killed and the box itself lived on.
        """
        try:
            state = self.engine.wait_ended(self.id)
        except EngineError as error:
            return Ending(note=f"no post-mortem: {error}")
        if state is None:
            return Ending(note="its container was removed by somebody else")
        if state.running:
            return Ending(note="its stream ended, but the container still runs")
        if state.status in ("created", "configured", "initialized"):
            return Ending(note=f"its container never started; {state.error}".rstrip("; "))
        return _ending(state)

    def state_folder(self) -> Path | None:
        """The volume's folder, if the engine runs on this machine."""
        return self.engine.mounted(self.id, "/state") if self.engine.local else None

    def remove(self) -> None:
        """Remove the container and its volume."""
        self.engine.remove(self.id)


def _ending(state: BoxState) -> Ending:
    killed_by = state.exit_code - 128
    return Ending(
        code=state.exit_code,
        signal=killed_by if 0 < killed_by <= 64 else None,
        out_of_memory=state.oom_killed and state.exit_code == 137,
        note=state.error,
    )


def _shared_memory(shm_mb: int) -> list[str]:
    """``/dev/shm`` of the size that was asked for, or none: the engine's own can be written to."""
    return ["--ipc=private", f"--shm-size={shm_mb}m"] if shm_mb else ["--ipc=none"]


@dataclass(frozen=True)
class ContainerLauncher:
    """Starts boxes from an image.

    Args:
        image_id: ``sha256:...`` or a tag. The image holds ``/state``, owned by ``user``.
        adapter: ``module:Class``; the image's PYTHONPATH leads to it and to ``harness``.
        limits: all of them hold.
        engine: the engine that has the image.
        labels: added to the owner's own, e.g. ``memrig.run`` and ``memrig.baseline``.
        env: added to :data:`FIXED_ENV`; never a key.
        command: what to run; nothing for the image's own command.
        user: ``uid:gid``; ``None`` for the image's own, which must not be root.
        facts: what :meth:`prepare` returns for the manifest, beside the image and the engine.
    """

    image_id: str
    adapter: str
    limits: Limits
    engine: Engine
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    user: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``container``."""
        return "container"

    def prepare(self) -> dict[str, Any]:
        """Nothing to build: the image is there."""
        return {"image_id": self.image_id, "engine": self.engine.info(), **self.facts}

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> PipedBox:
        """Start one box and wait for its hello; see :class:`harness.sandbox.base.Launcher`."""
        name = self._name(request.sample)
        stderr = CappedLog.create(request.log_dir, request.sample)
        try:
            box_id = self.engine.create(self.image_id, self.options(name), self.command)
        except BaseException as error:
            stderr.close()
            self.engine.remove(name)  # it may have been made although no answer came
            if isinstance(error, EngineError):
                raise SandboxFailure("START_FAILED", str(error), log=stderr.path) from None
            raise
        body = ContainerBody(self.engine, box_id)
        try:
            child = Child(self.engine.attach_argv(box_id), self.engine.client_env(), stderr)
        except BaseException:
            stderr.close()
            body.remove()
            raise
        box = PipedBox(child, body, self.limits, model_call)
        box.initialize(request, self.adapter)
        return box

    def _name(self, sample: str) -> str:
        baseline = self.labels.get(ownership.BASELINE, "box")
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{baseline}-{sample}")
        return f"memrig-{plain}-{secrets.token_hex(4)}"

    def options(self, name: str) -> list[str]:
        """The arguments of ``create`` that seal and limit a box."""
        limits = self.limits
        labels = {**ownership.owner_labels(), **self.labels}
        env = {name: "" for name in proxy_names()}
        env |= {**FIXED_ENV, "MEMRIG_DISK_BYTES": str(limits.disk_mb * 1024 * 1024), **self.env}
        scratch_mb = max(16, limits.memory_mb // 2)  # /tmp counts as memory: full before it is
        options = [
            f"--name={name}",
            "--init",
            "--hostname=box",
            f"--user={self._user()}",
            "--network=none",
            "--read-only",
            f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={scratch_mb}m",
            *_shared_memory(limits.shm_mb),
            f"--mount={self.engine.volume_option('/state', labels)}",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--memory={limits.memory_mb}m",
            f"--memory-swap={limits.memory_mb}m",
            f"--cpus={limits.cpus:g}",
            f"--pids-limit={limits.pids}",
            "--ulimit=core=0:0",
            "--log-driver=none",
        ]
        options += [f"--label={label}={value}" for label, value in labels.items()]
        return options + [f"--env={variable}={value}" for variable, value in env.items()]

    def _user(self) -> str:
        """Who the box runs as; root is refused, also where an image says nothing."""
        user = self.user
        if user is None:
            image = self.engine.inspect_image(self.image_id)
            if image is None:
                raise EngineError(f"there is no image {self.image_id}; build it first")
            user = str(image.get("Config", {}).get("User") or "")
        if user.split(":")[0] in ("", "0", "root"):
            raise EngineError(f"the image {self.image_id} runs as root; a box must not")
        return user
