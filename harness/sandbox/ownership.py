"""Who owns a box, and whether that process still lives: labels instead of a side-car.

A box carries ``memrig.owner=<pid>:<start ticks>:<boot id>`` and ``memrig.host``, the machine and
process namespace in which that pid means something. A box whose owner is gone belongs to nobody.
One whose owner lives on another machine, or in another container, cannot be judged from here and
is left alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

RUN = "memrig.run"
BASELINE = "memrig.baseline"
OWNER = "memrig.owner"
HOST = "memrig.host"
CREATED = "memrig.created"


def owner_labels() -> dict[str, str]:
    """The labels that say: this process made it, here and now."""
    return {
        OWNER: owner_of(os.getpid()),
        HOST: host_id(),
        CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
    }


def owner_of(pid: int) -> str:
    """The identity of a running process."""
    return f"{pid}:{_start_mark(pid)}:{_boot_id()}"


def host_id() -> str:
    """Where pids have the meaning they have here."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = "none"
    return f"{socket.gethostname()}/{namespace}"


def is_orphan(labels: dict[str, str]) -> bool:
    """What carries these labels was made on this machine by a process that is gone."""
    owner, host = labels.get(OWNER), labels.get(HOST)
    if owner is None or host != host_id():
        return False
    pid, _, _ = owner.partition(":")
    return not pid.isdecimal() or owner != owner_of(int(pid))


def _start_mark(pid: int) -> str:
    """Something that differs between two processes that had the same number; "" for none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        asked = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip().replace(" ", "-").replace(":", ".")
    # The name of the program, in parentheses, may hold spaces; the fields after it do not.
    return stat.rpartition(")")[2].split()[19]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
