"""What a box measures about itself, cheaply enough to do it at every call.

Memory comes from ``/proc`` and from the control group that the box can read inside itself, version
1 or 2. Where a number cannot be had it is 0 in ``meta`` and absent in the final usage.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Bound before an adapter is imported, for there are libraries that put others in their place.
_monotonic, _sleep = time.monotonic, time.sleep

#: A look into a folder that fails so says nothing about the folder: it vanished, or this process
#: has no descriptor or memory left for the look.
_NO_MATTER = (errno.ENOENT, errno.ENOTDIR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)

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
        #: A place in the state folder whose size cannot be told, as of the last look.
        self.unmeasured: str | None = None
        self._nameless_bytes = 0
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

    def measure_state(self, *, nameless: bool = True) -> int:
        """What the state takes on disk, in bytes; kept as ``state_bytes``.

        Counts the folder's tree, and files that have no name any more but are still open, as
        databases hold them (in a container: of all its processes that let themselves be read; else:
        of this process's session). Not seen: a nameless file that is mapped and not open.

        Args:
            nameless: look for nameless files, which takes milliseconds: every process's open files
                are gone through. Else what was last found of them counts (within a call, whose time
                is measured; the watch looks all the time).
        """
        if self.state_dir is not None:
            unmeasured: list[str] = []
            size = folder_bytes(self.state_dir, unmeasured)
            if nameless:
                self._nameless_bytes = deleted_bytes(self.state_dir, everybody=self._own_cgroup)
            self.state_bytes = size + self._nameless_bytes
            self.unmeasured = unmeasured[0] if unmeasured else None
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


def folder_bytes(folder: Path, unmeasured: list[str] | None = None) -> int:
    """Bytes that a folder takes on disk, links not followed; files that vanish meanwhile are 0.

    A file with several names in it counts once. What this process may not look into is 0 too, and
    its path is put into ``unmeasured``.
    """
    total = 0
    linked: set[tuple[int, int]] = set()
    todo = [str(folder)]
    while todo:
        path = todo.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            if (status.st_dev, status.st_ino) in linked:
                                continue
                            linked.add((status.st_dev, status.st_ino))
                        total += status.st_blocks * 512
        except OSError as error:
            if error.errno not in _NO_MATTER and unmeasured is not None:
                unmeasured.append(path)
    return total


def deleted_bytes(folder: Path, *, everybody: bool) -> int:
    """Bytes on disk of files that were in a folder, have no name any more, and are still open.

    ``everybody``: look at all processes that can be read, else at those of this one's session.
    """
    prefix = os.path.realpath(folder) + "/"
    sizes: dict[tuple[int, int], int] = {}
    for link in _descriptors(everybody):
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            if target.startswith(prefix) and target.endswith(" (deleted)"):
                status = link.stat()
                if status.st_nlink == 0:  # else it has another name, or is just called so
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _descriptors(everybody: bool) -> Iterator[Path]:
    session = os.getsid(0)
    for pid in _names("/proc"):
        with contextlib.suppress(OSError):
            if pid.isdigit() and (everybody or os.getsid(int(pid)) == session):
                for number in _names(f"/proc/{pid}/fd"):
                    yield Path(f"/proc/{pid}/fd/{number}")


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:  # another user's process, one that has ended, or not Linux
        return []


def watch_disk(meter: Meter, limit_bytes: int, over: Callable[[str], None]) -> threading.Thread:
    """Call ``over(reason)`` once the state is larger than its limit or its size cannot be told.

    Looks four times a second, and less often where a look takes long (a folder of very many
    files), so that watching costs at most a twentieth of one core.
    """

    def watch() -> None:
        while True:
            started = _monotonic()
            size = meter.measure_state()
            if size > limit_bytes:
                over(f"{meter.state_dir} holds {size} bytes, over its limit of {limit_bytes}")
                return
            if meter.unmeasured is not None:
                over(
                    f"{meter.unmeasured} cannot be looked into, so nobody can tell whether "
                    f"{meter.state_dir} keeps to its limit of {limit_bytes} bytes"
                )
                return
            _sleep(max(0.25, 20 * (_monotonic() - started)))

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
