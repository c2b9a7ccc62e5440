"""A child process as the transport of a pipe, with its stderr in a capped regular file.

The child leads a session of its own, so that Ctrl-C reaches the host alone and one signal ends the
child with all it started. stderr is a regular file and never a pipe: a pipe that nobody empties
stops the box after 64 KB.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.adapter import wire

#: A log beyond this is cut in its middle.
LOG_CAP = 16 * 1024 * 1024

#: How much of a log's head and tail survives a cut.
LOG_KEEP = 4 * 1024 * 1024


class CappedLog:
    """A file that a child appends to and that does not grow without bound.

    ``trim`` is called now and then; over :data:`LOG_CAP` it keeps the head and the tail and says
    between them how much is missing. What the child writes in that very moment may be lost too.
    """

    def __init__(self, path: Path, cap: int = LOG_CAP, keep: int = LOG_KEEP) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        self._cap = cap
        self._keep = keep
        self._cut = 0
        self._marker = b""
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: Path, sample: str) -> CappedLog:
        """Make ``<sample>.<n>.stderr`` with the first free number n."""
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            try:
                return cls(folder / f"{sample}.{number}.stderr")
            except FileExistsError:
                number += 1

    def trim(self) -> None:
        """Cut the middle out if the file is over its cap."""
        with self._lock:
            if self.fd < 0:
                return
            size = os.fstat(self.fd).st_size
            if size <= self._cap:
                return
            tail = os.pread(self.fd, self._keep, size - self._keep)
            self._cut += size - 2 * self._keep - len(self._marker)
            self._marker = f"\n... memrig cut {self._cut} bytes out of this log ...\n".encode()
            os.ftruncate(self.fd, self._keep)
            os.write(self.fd, self._marker + tail)

    def tail(self, lines: int = 20, size: int = 8192) -> str:
        """The last lines, for a message."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - size))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def close(self) -> None:
        """Trim for the last time and let go."""
        self.trim()
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1


class Child:
    """A started process; see :class:`harness.sandbox.pipe.Transport`.

    Args:
        argv: program and arguments.
        env: its whole environment.
        log: where its stderr goes.
        cwd: its working folder.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], log: CappedLog, cwd: Path | None = None
    ) -> None:
        self.log = log
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.fd,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = os.fdopen(os.dup(self._process.stdout.fileno()), "rb", buffering=1 << 16)
        self._process.stdout.close()
        self._lock = threading.Lock()
        self._swept = False

    @property
    def pid(self) -> int:
        """The child's process id, which is also its group's."""
        return self._process.pid

    def write(self, data: bytes) -> None:
        """Write all of it, blocking."""
        view = memoryview(data)
        fd = self._stdin.fileno()
        while view:
            view = view[os.write(fd, view) :]

    def readline(self) -> bytes:
        """One line; ``b""`` at the end."""
        return self._stdout.readline(wire.MAX_LINE + 1)

    def gone(self) -> bool:
        """The process has ended. Those of its group who outlived it are ended too."""
        with self._lock:
            if self._process.poll() is None:
                return False
            self._sweep()
            return True

    def wait(self, timeout_s: float) -> int | None:
        """Exit code (negative: the signal), or ``None`` if it is still running after the wait."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode if self.gone() else None

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        with self._lock:
            if self._process.poll() is None:
                self._signal_group()
            else:
                self._sweep()

    def _sweep(self) -> None:
        """Once only, right after the leader was reaped: later its number may be somebody else's."""
        if not self._swept:
            self._swept = True
            self._signal_group()

    def _signal_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close both streams."""
        for stream in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                stream.close()
