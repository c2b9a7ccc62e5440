"""The box's main program: ``python -m harness.adapter.serve``.

Nothing but this file may touch the channel. Before any third-party import it takes file
descriptors 0 and 1 away: the pipe lives on private copies that children do not inherit, descriptor
0 becomes the null device and 1 becomes stderr. So a ``print``, a C library's ``puts`` or a child
that reads its input can neither spoil a message nor eat one.

One thread reads and never writes; when the host is gone it ends the box at once, however busy the
adapter is. One lock guards writing. The adapter runs in the main thread.

Environment: ``MEMRIG_STATE_DIR`` (default ``/state``), ``MEMRIG_DISK_BYTES`` (its limit),
``MEMRIG_OWN_CGROUP=1`` (the control group's counters are this box's own), ``MEMRIG_CLOCK``
(``session``: the clock follows the turns; default ``real``).
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import importlib
import importlib.metadata
import os
import platform
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import seeding, wire
from .contract import MemoryAdapter, Setup
from .dispatch import CallFailed, Dispatcher, InvalidParams, Seeding, capabilities_of, describe
from .fingerprint import folder_sha256
from .meter import Meter, watch_disk
from .modelport import ModelPort

if TYPE_CHECKING:  # both are imported where they are used, for most boxes use neither
    from .clock import SessionClock
    from .relay import Relay

__all__ = ["Channel", "Dispatcher", "ModelPort", "main", "model_port"]


class Channel:
    """The two descriptors of the pipe, and the lock that guards writing."""

    def __init__(self, inbox: int, outbox: int) -> None:
        self._inbox = os.fdopen(inbox, "rb", buffering=1 << 16)
        self._outbox = outbox
        self._lock = threading.Lock()

    @classmethod
    def take(cls) -> Channel:
        """Take descriptors 0 and 1 away from everybody else in this process."""
        inbox, outbox = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):
                stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
        channel = cls(inbox, outbox)
        os.register_at_fork(after_in_child=channel.abandon)
        return channel

    def read(self) -> bytes:
        """One line, or what there was of it at the end."""
        return self._inbox.readline(wire.MAX_LINE + 1)

    def write(self, line: bytes) -> None:
        """Write one line whole."""
        with self._lock:
            view = memoryview(line)
            while view:
                view = view[os.write(self._outbox, view) :]

    def send(self, message: wire.Message) -> None:
        """Write one message.

        Raises:
            wire.MessageTooLarge, wire.NotJson: it was not sent.
        """
        self.write(wire.encode(message))

    def abandon(self) -> None:
        """In a forked child: let go of the pipe, so that it ends when the box does."""
        for fd in (self._inbox.fileno(), self._outbox):
            with contextlib.suppress(OSError):
                os.close(fd)


#: The port of this process, for :mod:`relay` and for adapters that call models themselves.
_PORTS: list[ModelPort] = []


def model_port() -> ModelPort:
    """The box's way to the host's models.

    Raises:
        RuntimeError: this process is no box.
    """
    if not _PORTS:
        raise RuntimeError("no model port: this process was not started as a box")
    return _PORTS[0]


class Server:
    """Reads requests, calls the adapter, writes replies."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._requests: queue.SimpleQueue[wire.Request] = queue.SimpleQueue()
        self._state_dir = Path(os.environ.get("MEMRIG_STATE_DIR", "/state"))
        self._meter = Meter(self._state_dir, own_cgroup=os.environ.get("MEMRIG_OWN_CGROUP") == "1")
        self._dispatcher: Dispatcher | None = None
        self._relay: Relay | None = None
        self.port = ModelPort(channel.send)

    def run(self) -> NoReturn:
        """Serve until the host hangs up or says ``shutdown``."""
        threading.Thread(target=self._read, name="memrig-reader", daemon=True).start()
        limit = int(os.environ.get("MEMRIG_DISK_BYTES", "0"))
        if limit:
            watch_disk(self._meter, limit, self._over_disk)
        while True:
            request = self._requests.get()
            self._reply(request)
            if request.method == "shutdown":
                _leave(0)

    def _read(self) -> None:
        """Take lines apart. Never writes to the pipe, so that reading cannot come to a halt."""
        try:
            while True:
                line = self._channel.read()
                if not line:
                    _leave_with_children()
                message = wire.decode(line)
                if isinstance(message, wire.Request):
                    self._requests.put(message)
                else:
                    self.port.deliver(message)
        except wire.ProtocolError as error:
            _leave(wire.EXIT_PROTOCOL, f"memrig: the host broke the protocol: {error}")
        except BaseException as error:
            _leave(wire.EXIT_PROTOCOL, f"memrig: the reader failed: {error!r}")

    def _reply(self, request: wire.Request) -> None:
        try:
            self._channel.send(self._answer(request))
        except wire.MessageTooLarge as error:
            failure = wire.Failure(
                request.id, wire.TOO_LARGE, f"the reply: {error}", kind="MESSAGE_TOO_LARGE"
            )
            self._channel.send(failure)
        except wire.NotJson as error:
            message = f"the reply to {request.method} is not JSON: {error}"
            self._channel.send(
                wire.Failure(request.id, wire.ADAPTER_FAILED, message, kind="BASELINE_ERROR")
            )

    def _answer(self, request: wire.Request) -> wire.Message:
        if request.method == "initialize":
            try:
                value = self._initialize(request.params)
            except BaseException as error:
                return describe(error, request.id)
            return wire.Result(request.id, value, self._meta())
        if request.method == "shutdown":
            return wire.Result(request.id, {}, {**self._meta(), "usage": self._meter.usage()})
        if self._dispatcher is None:
            return describe(InvalidParams(f"{request.method} before initialize"), request.id)
        try:
            answer = self._dispatcher.call(request.method, request.params, request.id)
        except CallFailed as failed:
            return failed.failure
        return wire.Result(request.id, answer.value, answer.meta)

    def _meta(self) -> dict[str, Any]:
        return {
            "ms": 0.0,
            "rss": self._meter.rss(),
            "oom_kills": self._meter.oom_kills(),
            "state_bytes": self._meter.state_bytes,
            "pending_calls": self._pending_calls(),
        }

    def _pending_calls(self) -> int:
        queued = self._relay.queued() if self._relay is not None else 0
        return self.port.pending() + queued

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._dispatcher is not None:
            raise InvalidParams("initialize came twice")
        if params.get("protocol") != wire.PROTOCOL:
            spoken = params.get("protocol")
            raise InvalidParams(f"protocol {spoken!r}; this box speaks {wire.PROTOCOL}")
        run_seed, sample = params.get("seed"), params.get("sample")
        options, spec = params.get("options"), params.get("adapter")
        if not isinstance(run_seed, int) or not isinstance(sample, str):
            raise InvalidParams("seed must be an integer and sample a text")
        if not isinstance(options, dict) or not isinstance(spec, str):
            raise InvalidParams("options must be an object and adapter a text")
        routes = params.get("routes", [])
        if not isinstance(routes, list) or not all(isinstance(name, str) for name in routes):
            raise InvalidParams("routes must be a list of names")
        _require_writable(self._state_dir)
        relay = self._open_relay() if routes else None
        clock = _session_clock()
        seed = seeding.seed_of(run_seed, sample)
        generators = seeding.Generators(seed)
        adapter_class, folder = load_adapter(spec)
        setup = Setup(
            seed=seed,
            options=options,
            state_dir=str(self._state_dir),
            model_url=relay.url if relay else None,
            model_token=relay.token if relay else None,
        )
        adapter = adapter_class(setup)
        self._dispatcher = Dispatcher(
            adapter,
            meter=self._meter,
            pending_calls=self._pending_calls,
            clock=clock,
            take_degraded=relay.take_degraded if relay else tuple,
            seeding=Seeding(
                sample, lambda other: seeding.seed_of(run_seed, other), generators.apply
            ),
        )
        return hello(adapter, folder_sha256(folder), "session" if clock else "real")

    def _open_relay(self) -> Relay:
        """Open the model server and tell SDKs of it, before anything third-party is imported."""
        from .relay import Relay

        def failed(error: BaseException) -> None:
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            _leave(1, f"memrig: the model relay failed\n{trace}")

        self._relay = Relay(self.port, failed)
        os.environ.update(self._relay.environment())
        return self._relay

    def _over_disk(self, reason: str) -> None:
        _leave(wire.EXIT_DISK_LIMIT, f"memrig: {reason}")


def _session_clock() -> SessionClock | None:
    """What moves the clock, where ``MEMRIG_CLOCK`` asks for it."""
    kind = os.environ.get("MEMRIG_CLOCK", "real")
    if kind not in ("real", "session"):
        raise InvalidParams(f"MEMRIG_CLOCK is {kind!r}, neither real nor session")
    if kind == "real":
        return None
    from .clock import SessionClock

    return SessionClock()


def load_adapter(spec: str) -> tuple[type[MemoryAdapter], Path]:
    """Import ``module:Class``; returns the class and the folder that holds its module.

    Raises:
        InvalidParams: the text is not of that form, or names no adapter class.
    """
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise InvalidParams(f"adapter {spec!r} is not of the form module:Class")
    module = importlib.import_module(module_name)
    adapter_class = getattr(module, class_name, None)
    if not isinstance(adapter_class, type) or not issubclass(adapter_class, MemoryAdapter):
        raise InvalidParams(f"{spec} is no subclass of MemoryAdapter")
    return adapter_class, Path(str(module.__file__)).parent


def hello(adapter: MemoryAdapter, adapter_sha256: str, clock: str = "real") -> dict[str, Any]:
    """What a box says about itself: protocol, Python, packages, adapter, capabilities, clock.

    ``clock``: ``real``, or ``session`` where "now" is the time of the turn or of the question.
    """
    return {
        "protocol": wire.PROTOCOL,
        "python": platform.python_version(),
        "packages": dict(_packages()),
        "adapter_sha256": adapter_sha256,
        "capabilities": capabilities_of(adapter),
        "clock": clock,
    }


@functools.lru_cache(maxsize=1)
def _packages() -> dict[str, str]:
    """Installed packages and versions; read once, for a process does not change its own."""
    packages: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            packages.setdefault(str(name).lower().replace("_", "-"), distribution.version)
    return dict(sorted(packages.items()))


def _require_writable(state_dir: Path) -> None:
    """Say at once what would otherwise be a puzzling failure at the first write."""
    home = Path(os.environ.get("HOME", state_dir))
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        if state_dir in home.parents:
            home.mkdir(parents=True, exist_ok=True)
        probe = state_dir / ".memrig-probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise RuntimeError(
            f"the state folder {state_dir} cannot be written by user {os.getuid()}: {error}. "
            "The image must hold it, owned by the box's user."
        ) from error


def _leave(code: int, reason: str = "") -> NoReturn:
    """End the box from any thread, without waiting for the adapter."""
    if reason:
        with contextlib.suppress(OSError):
            os.write(2, (reason + "\n").encode("utf-8", "backslashreplace"))
    os._exit(code)


def _leave_with_children() -> NoReturn:
    """The host is gone: end what this box started too, where its process group is its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    _leave(0)


def main() -> NoReturn:
    """Take the channel and serve."""
    channel = Channel.take()
    faulthandler.enable(file=2)
    server = Server(channel)
    _PORTS.append(server.port)
    server.run()


if __name__ == "__main__":
    # Under its real name, so that an adapter that imports it finds the same port.
    importlib.import_module("harness.adapter.serve").main()
