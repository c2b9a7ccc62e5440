"""What a box measures about itself, cheaply enough to do it at every call.

Memory comes from ``/proc`` and from the control group that the box can read inside itself, version
1 or 2. Where a number cannot be had it is 0 in ``meta`` and absent in the final usage.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_PAGE = resource.getpagesize()

#: (file, key of the line) of the counter of killed processes, in version 2 and in version 1.
_KILLS = (
    ("/sys/fs/cgroup/memory.events", b"oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", b"oom_kill"),
)
_PEAKS = ("/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes")
_CPU_V1 = "/sys/fs/cgroup/cpuacct/cpuacct.usage"
_CPU_V2 = ("/sys/fs/cgroup/cpu.stat", b"usage_usec")


class Meter:
    """Measures this process and its state folder.

    Args:
        state_dir: the folder whose size is ``state_bytes``, or ``None`` for none.
        own_cgroup: this process is alone in its control group (a container). Only then the
            group's counters say something about this box and not about its neighbours.
    """

    def __init__(self, state_dir: Path | None, *, own_cgroup: bool = False) -> None:
        self.state_dir = state_dir
        self.state_bytes = 0
        self._own_cgroup = own_cgroup
        self._statm = _open("/proc/self/statm")
        self._kills = [(_open(path), key) for path, key in _KILLS if own_cgroup]
        self._kills_at_start = 0
        self._kills_at_start = self.oom_kills()

    def rss(self) -> int:
        """Resident memory of this process in bytes."""
        if self._statm is None:
            return 0
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE

    def oom_kills(self) -> int:
        """How many processes of this box the kernel killed for want of memory since it started."""
        for fd, key in self._kills:
            count = None if fd is None else _keyed(os.pread(fd, 4096, 0), key)
            if count is not None:
                return count - self._kills_at_start
        return 0

    def measure_state(self) -> int:
        """Walk the state folder; returns its size in bytes and keeps it as ``state_bytes``."""
        if self.state_dir is not None:
            self.state_bytes = folder_bytes(self.state_dir)
        return self.state_bytes

    def usage(self) -> dict[str, float | int]:
        """What the box used in its life, as far as it can tell."""
        used: dict[str, float | int] = {"state_bytes": self.measure_state()}
        if self._own_cgroup:
            used["oom_kills"] = self.oom_kills()
        cpu = self._cgroup_cpu_s()
        if cpu is None:
            mine = resource.getrusage(resource.RUSAGE_SELF)
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime
        used["cpu_s"] = round(cpu, 3)
        used["peak_memory_bytes"] = self._peak_memory()
        return used

    def _cgroup_cpu_s(self) -> float | None:
        if not self._own_cgroup:
            return None
        path, key = _CPU_V2
        micros = _keyed(_read(path), key)
        if micros is not None:
            return micros / 1e6
        nanos = _read(_CPU_V1).strip()
        return int(nanos) / 1e9 if nanos.isdigit() else None

    def _peak_memory(self) -> int:
        for path in _PEAKS if self._own_cgroup else ():
            peak = _read(path).strip()
            if peak.isdigit():
                return int(peak)
        for line in _read("/proc/self/status").splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024  # "VmHWM:   1234 kB"
        # Not on Linux, where ru_maxrss of a child begins at what its parent had.
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def folder_bytes(folder: Path) -> int:
    """Bytes that a folder takes on disk, links not followed; files that vanish meanwhile are 0."""
    total = 0
    todo = [str(folder)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def watch_disk(meter: Meter, limit_bytes: int, over: Callable[[int], None]) -> threading.Thread:
    """Call ``over(size)`` once the state folder is larger than its limit.

    Looks four times a second, and less often where a look takes long (a folder of very many
    files), so that watching costs at most a twentieth of one core.
    """

    def watch() -> None:
        while True:
            started = time.monotonic()
            size = meter.measure_state()
            if size > limit_bytes:
                over(size)
                return
            time.sleep(max(0.25, 20 * (time.monotonic() - started)))

    thread = threading.Thread(target=watch, name="memrig-disk", daemon=True)
    thread.start()
    return thread


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _keyed(text: bytes, key: bytes) -> int | None:
    for line in text.splitlines():
        name, _, number = line.partition(b" ")
        if name == key and number.strip().isdigit():
            return int(number)
    return None
