"""An adapter that misbehaves on request: the text of a query says how.

It stores turns in a list, so that everything else about it is a plain, working memory system.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from harness.adapter.contract import AdapterError, MemoryAdapter
from harness.adapter.records import (
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
    RetrievedItem,
)
from harness.adapter.serve import model_port

DRAWN_AT_IMPORT = str(uuid.uuid4())


class FaultAdapter(MemoryAdapter):
    def reset(self) -> None:
        self.turns: list[NormalizedTurn] = []

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        if turn.text == "fail once" and not getattr(self, "failed", False):
            self.failed = True
            raise AdapterError("LLM_UNAVAILABLE", "try again", retry_safe=True)
        self.turns.append(turn)

    def end_session(self, session_id: str) -> None:
        pass

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        return [
            MemorySnapshotRecord(turn.turn_id, turn.text, sources=(turn.turn_id,))
            for turn in self.turns
        ]

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        command, _, argument = query.text.partition(" ")
        action = getattr(self, "do_" + command.replace("-", "_"))
        text = action(argument)
        return RetrievalRecord((RetrievedItem("m1", "ok" if text is None else str(text)),))

    def get_capabilities(self) -> dict[str, Any]:
        return {"provenance": True}

    # -- things that go well -------------------------------------------------------------------

    def do_echo(self, argument: str) -> str:
        return argument

    def do_length(self, argument: str) -> int:
        return len(argument)

    def do_big(self, argument: str) -> str:
        return "x" * int(argument)

    def do_drawn(self, argument: str) -> str:
        return json.dumps([DRAWN_AT_IMPORT, str(uuid.uuid4()), random.random()])

    def do_numpy(self, argument: str) -> str:
        import numpy

        return str(numpy.random.random())

    def do_forked_uuid(self, argument: str) -> str:
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(uuid.uuid4()).encode())
            os._exit(0)
        drawn = os.read(read, 100).decode()
        os.wait()
        return json.dumps([drawn, str(uuid.uuid4())])

    # -- errors --------------------------------------------------------------------------------

    def do_raise(self, argument: str) -> None:
        raise ValueError(argument)

    def do_raise_unprintable(self, argument: str) -> None:
        class Unprintable(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        raise Unprintable

    def do_mock_clock(self, argument: str) -> None:
        time.perf_counter = lambda: float("nan")
        time.monotonic = lambda: float("nan")

    def do_typed(self, argument: str) -> None:
        raise AdapterError(argument, "said so", retry_safe=True, cause="LLM_ERROR")

    def do_sysexit(self, argument: str) -> None:
        sys.exit(int(argument))

    def do_recurse(self, argument: str) -> None:
        self.do_recurse(argument)

    def do_surrogate(self, argument: str) -> str:
        return "half \ud83d"

    def do_surrogate_error(self, argument: str) -> str:
        raise ValueError("half \ud83d")

    # -- ends ----------------------------------------------------------------------------------

    def do_sleep(self, argument: str) -> None:
        time.sleep(float(argument))

    def do_spin(self, argument: str) -> None:
        end = time.monotonic() + float(argument)
        while time.monotonic() < end:
            pass

    def do_exit(self, argument: str) -> None:
        os._exit(int(argument))

    def do_abort(self, argument: str) -> None:
        ctypes.string_at(0)

    def do_eat_memory(self, argument: str) -> None:
        hoard = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 20)) * 8)

    def do_child_eats_memory(self, argument: str) -> str:
        code = "h=[]\nwhile True: h.append(bytearray(b'x' * (1 << 23)))"
        return str(subprocess.run([sys.executable, "-c", code]).returncode)

    def do_fill(self, argument: str) -> None:
        path = Path(self.setup.state_dir) / "fill"
        with path.open("wb") as file:
            for _ in range(int(argument)):
                file.write(os.urandom(1 << 20))
                file.flush()
                time.sleep(0.005)
        time.sleep(30)

    def do_fill_unlinked(self, argument: str) -> None:
        """A file that is open and has no name any more, as databases have them."""
        path = Path(self.setup.state_dir) / "nameless"
        with path.open("wb") as file:
            path.unlink()
            for _ in range(int(argument)):
                file.write(os.urandom(1 << 20))
            file.flush()
            time.sleep(30)

    def do_fill_hidden(self, argument: str) -> None:
        """A file in a folder that nobody may look into."""
        folder = Path(self.setup.state_dir) / "hidden"
        folder.mkdir()
        with (folder / "fill").open("wb") as file:
            folder.chmod(0)
            for _ in range(int(argument)):
                file.write(os.urandom(1 << 20))
            file.flush()
            time.sleep(30)

    def do_fill_unwatched(self, argument: str) -> None:
        """Blind the box's own watch, as code that shares a process with it can."""
        from harness.adapter.meter import Meter

        Meter.measure_state = lambda self, **how: 0  # type: ignore[method-assign]
        self.do_fill(argument)

    def do_orphan(self, argument: str) -> None:
        """Leave a process behind that would hold a naive pipe open."""
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        os._exit(7)

    def do_leave_child(self, argument: str) -> int:
        """A child that would outlive the box by far."""
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid

    def do_leave_stray(self, argument: str) -> int:
        """A child in a session of its own."""
        code = "import time; time.sleep(60)"
        return subprocess.Popen([sys.executable, "-c", code], start_new_session=True).pid

    def do_freeze_soon(self, argument: str) -> None:
        """Stop the whole process, its reader too, right after this reply."""
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()

    # -- noise ---------------------------------------------------------------------------------

    def do_stderr(self, argument: str) -> None:
        line = "e" * 1023 + "\n"
        for _ in range(int(argument) * 1024):
            sys.stderr.write(line)

    def do_noise(self, argument: str) -> str:
        print("noise from print")
        os.write(1, b"noise from os.write\n")
        libc = ctypes.CDLL(None)
        libc.puts(b"noise from C puts")
        libc.fflush(None)
        subprocess.run(["sh", "-c", "echo noise from a child; cat"], check=True)
        if os.fork() == 0:
            os.write(1, b"noise from a fork\n")
            os._exit(0)
        os.wait()
        return "quiet"

    def do_corrupt(self, argument: str) -> str:
        """Write rubbish to every descriptor that leads to a pipe: only sabotage can do it."""
        for fd in range(3, 64):
            try:
                if "pipe" in str(Path(f"/proc/self/fd/{fd}").readlink()):
                    os.write(fd, b"rubbish\n")
            except OSError:
                continue
        return "done"

    # -- what a box can see --------------------------------------------------------------------

    def do_look(self, argument: str) -> str:
        return json.dumps(
            {
                "uid": os.getuid(),
                "env": dict(os.environ),
                "state_dir": self.setup.state_dir,
                "caps": [
                    line.split()[1]
                    for line in Path("/proc/self/status").read_text().splitlines()
                    if line.startswith(("CapEff", "CapBnd"))
                ],
                "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
                "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
            }
        )

    def do_connect(self, argument: str) -> str:
        host, port = argument.split()
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return "connected"

    def do_resolve(self, argument: str) -> str:
        try:
            return str(socket.getaddrinfo(argument, 443))
        except OSError as error:
            return f"{type(error).__name__}: {error}"

    def do_write(self, argument: str) -> str:
        try:
            Path(argument).write_text("x")
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return "written"

    def do_size(self, argument: str) -> int:
        """Of the file system at a path, in bytes."""
        about = os.statvfs(argument)
        return about.f_blocks * about.f_frsize

    def do_list(self, argument: str) -> str:
        return json.dumps(sorted(path.name for path in Path(argument).iterdir()))

    def do_threads(self, argument: str) -> str:
        done = threading.Event()
        threads = [threading.Thread(target=done.wait) for _ in range(int(argument))]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError as error:
            return str(error)
        finally:
            done.set()
        return "all started"

    # -- models --------------------------------------------------------------------------------

    def do_model(self, argument: str) -> str:
        """``model N``: ask N times at once, return the answers in order."""
        count = int(argument)
        answers: list[Any] = [None] * count

        def ask(i: int) -> None:
            try:
                answers[i] = model_port().call({"n": i}, timeout=30)["n"]
            except Exception as error:
                answers[i] = str(error)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return json.dumps(answers)

    def do_model_later(self, argument: str) -> None:
        """Ask and do not wait: the call is still pending when the reply goes out."""
        threading.Thread(target=model_port().call, args=({"n": 1},), daemon=True).start()
        time.sleep(0.2)
