"""The engine's program: what differs between docker and podman as data, and how it is run.

Part of :mod:`harness.sandbox.engine`, which is what the rest of memrig sees.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.outcomes import EngineError
from harness.sandbox import ownership

#: A command of the engine's program, or a request to it, is given up after this many seconds.
COMMAND_S = 60

#: How long finding out whether an engine answers may take.
PROBE_S = 10


@dataclass(frozen=True)
class Dialect:
    """How one engine's program is spoken to.

    ``endpoint``: arguments that print the address of its HTTP interface. ``attach``: arguments
    before a box's id that start it with stdin and stdout on ours. ``volume``: the mount of a
    nameless volume; ``{labels}`` is filled in where the engine can label one. ``remedy``: what to
    do where it is installed and does not answer.
    """

    name: str
    endpoint: tuple[str, ...]
    create: tuple[str, ...] = ("create", "-i", "--pull", "never")
    attach: tuple[str, ...] = ("start", "-a", "-i")
    volume: str = "type=volume,dst={path}{labels}"
    remedy: str = "is its daemon running, and may this user reach it?"


DIALECTS = (
    Dialect("docker", ("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")),
    Dialect(
        "podman",
        ("info", "--format", "unix://{{.Host.RemoteSocket.Path}}"),
        volume="type=volume,dst={path},U=true",
        remedy="start its interface: systemctl --user start podman.socket",
    ),
)


@dataclass(frozen=True)
class BoxInfo:
    """A container that memrig made. ``orphan``: its owner is gone."""

    id: str
    name: str
    image: str
    status: str
    run: str
    baseline: str
    owner: str
    created: str
    orphan: bool


@dataclass(frozen=True)
class BoxState:
    """How a container is, or how it ended."""

    running: bool
    status: str
    exit_code: int
    oom_killed: bool
    error: str


def endpoint_of(dialect: Dialect, program: str) -> str:
    """Where the engine listens: DOCKER_HOST, else what the program's current context says."""
    given = os.environ.get("DOCKER_HOST" if dialect.name == "docker" else "CONTAINER_HOST")
    return given or command([program, *dialect.endpoint], PROBE_S).strip()


def command(argv: Sequence[str], timeout_s: float = COMMAND_S) -> str:
    """Run a program; its own session keeps Ctrl-C from cutting it off half-way."""
    shown = " ".join([Path(argv[0]).name, *argv[1:2]])
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{shown} did not end within {timeout_s:g} s") from None
    except OSError as error:
        raise EngineError(f"{shown}: {error}") from None
    if done.returncode != 0:
        raise EngineError(f"{shown}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def proxy_names() -> list[str]:
    """Proxy variables that the client would put into every box, from its own settings."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(settings, dict) or not settings.get("proxies"):
        return []
    names = ["http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"]
    return [*names, *(name.upper() for name in names)]


def box_info(entry: Mapping[str, Any]) -> BoxInfo:
    """A container as the engine lists it."""
    labels = dict(entry.get("Labels") or {})
    return BoxInfo(
        id=str(entry["Id"]),
        name=str((entry.get("Names") or ["/"])[0]).lstrip("/"),
        image=str(entry.get("Image", "")),
        status=str(entry.get("State", "unknown")),
        run=labels.get(ownership.RUN, ""),
        baseline=labels.get(ownership.BASELINE, ""),
        owner=labels.get(ownership.OWNER, ""),
        created=labels.get(ownership.CREATED, ""),
        orphan=ownership.is_orphan(labels),
    )
