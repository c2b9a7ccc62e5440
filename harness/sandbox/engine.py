"""The only module that talks to docker or podman.

Two ways, each for what it is good at. The SDK (over the engine's HTTP interface, which podman
serves too) builds, lists, inspects and removes. The command line program makes and attaches boxes:
as a child process with the box's stdin and stdout on its own pipes it loses no output, passes the
end of the stream on, and can be killed. What differs between docker and podman is data
(:mod:`harness.sandbox.engine_link`), not code.

Removing a box while a client that nobody reads is still attached to it hangs in the daemon: callers
end the client first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import requests
from docker.context import ContextAPI
from docker.utils import kwargs_from_env

import docker
from docker import errors as docker_errors
from harness.outcomes import BuildError, EngineError
from harness.sandbox import ownership
from harness.sandbox.engine_link import (
    COMMAND_S,
    DIALECTS,
    PROBE_S,
    BoxInfo,
    BoxState,
    Dialect,
    box_info,
    command,
    endpoint_of,
    first_line,
)


class Link(NamedTuple):
    """An engine that answers: its program, its address, and a connection."""

    dialect: Dialect
    program: str
    endpoint: str
    api: docker.APIClient


def connect(dialect: Dialect) -> Link:
    """Reach an engine.

    Raises:
        EngineError: it is not installed or does not answer.
    """
    program = shutil.which(dialect.name)
    if program is None:
        raise EngineError("not installed")
    endpoint = endpoint_of(dialect, program)
    try:
        _knock(endpoint)
        api = _client(endpoint)
    except (docker_errors.DockerException, requests.RequestException, OSError) as error:
        said = first_line(error)
        raise EngineError(f"does not answer at {endpoint} ({said}); {dialect.remedy}") from None
    return Link(dialect, program, endpoint, api)


class Engine:
    """A container engine that answers. Make one with :meth:`detect`."""

    def __init__(self, link: Link) -> None:
        self.dialect = link.dialect
        self.endpoint = link.endpoint
        self._program = link.program
        self._api = link.api
        self._commands = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
        self._platform: str | None = None

    @classmethod
    def detect(cls, name: str = "auto") -> Engine | None:
        """The first engine that answers (docker, then podman), or the named one; else ``None``."""
        return cls.diagnose(name)[0]

    @classmethod
    def diagnose(cls, name: str = "auto") -> tuple[Engine | None, list[str]]:
        """Like :meth:`detect`, with a line about each engine that does not answer."""
        reasons: list[str] = []
        for dialect in DIALECTS:
            if name not in ("auto", dialect.name):
                continue
            try:
                return cls(connect(dialect)), reasons
            except EngineError as error:
                reasons.append(f"{dialect.name}: {error}")
        return None, reasons

    @property
    def name(self) -> str:
        """``docker`` or ``podman``."""
        return self.dialect.name

    @property
    def local(self) -> bool:
        """The engine runs on this machine, as far as its address tells."""
        return self.endpoint.startswith(("unix:", "npipe:"))

    def close(self) -> None:
        """Let go of connections."""
        self._api.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the engine itself ---------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Facts for ``doctor`` and for the manifest."""
        with asking("info"):
            info, version = self._api.info(), self._api.version()
        options = [str(option) for option in info.get("SecurityOptions") or ()]
        return {
            "name": self.name,
            "version": version.get("Version", "unknown"),
            "api_version": version.get("ApiVersion", "unknown"),
            "endpoint": self.endpoint,
            "local": self.local,
            "platform": f"{version.get('Os', 'linux')}/{version.get('Arch', 'unknown')}",
            "os": info.get("OperatingSystem", "unknown"),
            "kernel": info.get("KernelVersion", "unknown"),
            "cgroup_version": str(info.get("CgroupVersion", "unknown")),
            "storage_driver": info.get("Driver", "unknown"),
            "cpus": info.get("NCPU", 0),
            "memory_bytes": info.get("MemTotal", 0),
            "memory_limit": bool(info.get("MemoryLimit", False)),
            "root_dir": info.get("DockerRootDir", ""),
            "rootless": any("rootless" in option for option in options),
            "warnings": list(info.get("Warnings") or ()),
        }

    def platform(self) -> str:
        """Of the daemon, e.g. ``linux/amd64``."""
        if self._platform is None:
            with asking("version"):
                version = self._api.version()
            self._platform = f"{version.get('Os', 'linux')}/{version.get('Arch', 'unknown')}"
        return self._platform

    # -- images --------------------------------------------------------------------------------

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """The image's facts, or ``None`` where there is no such image."""
        with asking(f"image inspect {reference}"):
            try:
                found: dict[str, Any] = self._api.inspect_image(reference)  # type: ignore[no-untyped-call]
                return found
            except docker_errors.NotFound:
                return None

    def images(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Facts of all images that carry the labels; an empty value asks for the name only."""
        with asking("image list"):
            found: list[dict[str, Any]] = self._api.images(filters={"label": _filter(labels)})
        for image in found:  # an image that lost its tag to a newer one is listed as <none>
            image["RepoTags"] = [t for t in image.get("RepoTags") or () if "<none>" not in t]
        return found

    def pull(self, reference: str) -> None:
        """Fetch an image from its registry."""
        repository, _, tag = reference.partition("@")
        if not tag:
            head, _, last = reference.rpartition("/")
            last, _, tag = last.partition(":")
            repository, tag = f"{head}/{last}" if head else last, tag or "latest"
        with asking(f"pull {reference}"):
            for step in self._api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in step:
                    raise EngineError(f"{self.name} pull {reference}: {step['error']}")

    def import_image(self, archive: Path, repository: str, tag: str) -> None:
        """Make an image of one layer from a tar of a root file system."""
        with asking(f"import {archive}"):
            said = self._api.import_image_from_file(str(archive), repository=repository, tag=tag)
        if self.inspect_image(f"{repository}:{tag}") is None:
            raise EngineError(f"{self.name} import {archive}: {str(said).strip()[-200:]}")

    def remove_image(self, reference: str) -> None:
        """Remove an image; one that is not there is no error."""
        with asking(f"image remove {reference}"), contextlib.suppress(docker_errors.NotFound):
            self._api.remove_image(reference)

    def build(
        self,
        context: IO[bytes],
        *,
        tag: str,
        labels: Mapping[str, str],
        build_args: Mapping[str, str],
        network: str | None = None,
        no_cache: bool = False,
        log: Path,
    ) -> str:
        """Build an image from a tar of its context (``Dockerfile`` at its root).

        Returns:
            The image's id.

        Raises:
            BuildError: with the path of the log, which holds all that the engine said.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as out:
            try:
                steps = self._api.build(
                    fileobj=context,
                    custom_context=True,
                    tag=tag,
                    labels=dict(labels),
                    buildargs=dict(build_args),
                    network_mode=network,
                    nocache=no_cache,
                    rm=True,
                    forcerm=True,  # a failed step would leave its container behind
                    decode=True,
                )
                failure = None
                for step in steps:  # to its end, else the connection stays open
                    out.write(str(step.get("stream") or step.get("status") or ""))
                    if "error" in step:
                        failure = str(step["error"]).strip()
                        out.write(f"\nERROR: {failure}\n")
            except (docker_errors.DockerException, requests.RequestException) as error:
                out.write(f"\nERROR: {error}\n")
                failure = first_line(error)
        if failure is not None:
            raise BuildError(f"building {tag} failed: {failure}", log)
        # The id is asked for and not read out of the stream, whose wording is no interface.
        image = self.inspect_image(tag)
        if image is None:
            raise BuildError(f"{self.name} built {tag} without an error, but it is not there", log)
        return str(image["Id"])

    # -- boxes ---------------------------------------------------------------------------------

    def create(self, image: str, options: Sequence[str], command: Sequence[str] = ()) -> str:
        """Make a container that is ready to be attached to; returns its id.

        A name (``--name``) in ``options`` makes it safe to try once more.
        """
        argv = [*self.dialect.create, *options, image, *command]
        return self._run(argv).strip().splitlines()[-1]

    def attach_argv(self, box: str) -> list[str]:
        """The command that starts a made container with its stdin and stdout on its own."""
        return [self._program, *self.dialect.attach, box]

    def client_env(self) -> dict[str, str]:
        """The environment of the engine's program on the host. None of it reaches a box."""
        return dict(os.environ)

    def volume_option(self, path: str, labels: Mapping[str, str]) -> str:
        """The value of ``--mount`` for a nameless volume that goes when its container goes."""
        marks = "".join(f",volume-label={name}={value}" for name, value in labels.items())
        return self.dialect.volume.format(path=path, labels=marks)

    def state(self, box: str) -> BoxState | None:
        """How a container is; ``None`` where there is none of that id."""
        found = self.inspect(box)
        if found is None:
            return None
        state = found["State"]
        return BoxState(
            running=bool(state.get("Running")),
            status=str(state.get("Status", "unknown")),
            exit_code=int(state.get("ExitCode", 0)),
            oom_killed=bool(state.get("OOMKilled")),
            error=str(state.get("Error") or ""),
        )

    def inspect(self, box: str) -> dict[str, Any] | None:
        """All facts about a container, or ``None`` where there is none of that id."""
        with asking(f"inspect {box}"):
            try:
                found: dict[str, Any] = self._api.inspect_container(box)
                return found
            except docker_errors.NotFound:
                return None

    def mounted(self, box: str, path: str) -> Path | None:
        """Where the engine's machine keeps what a container has mounted at ``path``."""
        for mount in (self.inspect(box) or {}).get("Mounts") or ():
            if mount.get("Destination") == path and mount.get("Source"):
                return Path(mount["Source"])
        return None

    def kill(self, box: str) -> None:
        """End a container. One that has ended, or is not there, is no error."""
        with asking(f"kill {box}"):
            try:
                self._api.kill(box)
            except docker_errors.APIError:  # engines say differently that it does not run
                state = self.state(box)
                if state is not None and state.running:
                    raise

    def remove(self, box: str) -> None:
        """Remove a container, running or not, and its nameless volumes. Safe to call twice."""
        for last in (False, True):
            try:
                with asking(f"remove {box}"):
                    self._api.remove_container(box, v=True, force=True)
                return
            except docker_errors.NotFound:
                return
            except EngineError:
                # Also the answer while another removal of the same box is under way.
                if self.inspect(box) is None:
                    return
                if last:
                    raise
                time.sleep(0.5)

    def list_boxes(self, labels: Mapping[str, str] | None = None) -> list[BoxInfo]:
        """All containers that memrig made and that carry the labels, ended ones too."""
        wanted = {ownership.OWNER: "", **(labels or {})}
        with asking("list"):
            found = self._api.containers(all=True, filters={"label": _filter(wanted)})
        return [box_info(entry) for entry in found]

    def reap(self) -> list[BoxInfo]:
        """Remove what no living process owns: containers, and volumes left without one.

        Returns:
            The removed boxes.
        """
        orphans = [box for box in self.list_boxes() if box.orphan]
        for box in orphans:
            self.remove(box.id)
        with asking("volume list"):
            filters = {"label": [ownership.OWNER], "dangling": True}
            volumes = self._api.volumes(filters=filters).get("Volumes") or ()
            for volume in volumes:
                if ownership.is_orphan(volume.get("Labels") or {}):
                    with contextlib.suppress(docker_errors.APIError):  # in use after all
                        self._api.remove_volume(volume["Name"])
        return orphans

    def run(
        self, image: str, command: Sequence[str], options: Sequence[str] = (), timeout_s: float = 60
    ) -> tuple[BoxState, str]:
        """Run a command in a container of its own to its end; returns how it ended and its output.

        For ``doctor``: no network, and gone afterwards.
        """
        marks = [f"--label={name}={value}" for name, value in ownership.owner_labels().items()]
        box = self.create(image, ["--network=none", *marks, *options], command)
        try:
            done = subprocess.run(
                self.attach_argv(box),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                start_new_session=True,
                check=False,
            )
            state = self.wait_ended(box)
        except subprocess.TimeoutExpired:
            raise EngineError(f"{command[0]} in {image} took over {timeout_s:g} s") from None
        finally:
            self.remove(box)
        if state is None:
            raise EngineError(f"the container of {image} vanished while it ran")
        return state, done.stdout

    def wait_ended(self, box: str, patience_s: float = 3.0) -> BoxState | None:
        """The state of a container whose stream has ended; it may take a moment to say so."""
        deadline = time.monotonic() + patience_s
        while True:
            state = self.state(box)
            if state is None or not state.running or time.monotonic() > deadline:
                return state
            time.sleep(0.02)

    def _run(self, argv: Sequence[str]) -> str:
        """Run the engine's program to its end."""
        with self._commands:
            return command([self._program, *argv])


def _knock(endpoint: str) -> None:
    """Connect to a local address for a moment: the SDK leaks its socket when that fails."""
    scheme, _, path = endpoint.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(PROBE_S)
            probe.connect(path)


def _client(endpoint: str) -> docker.APIClient:
    """A connection, with the certificates of the environment or of the current context."""
    if os.environ.get("DOCKER_HOST"):
        return docker.APIClient(version="auto", timeout=COMMAND_S, **kwargs_from_env())
    tls = None
    if endpoint.startswith("tcp:"):
        context = ContextAPI.get_current_context()
        tls = getattr(context, "TLSConfig", None) or None
    return docker.APIClient(
        endpoint,
        version="auto",
        timeout=COMMAND_S,
        tls=tls or False,
        use_ssh_client=endpoint.startswith("ssh:"),
    )


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn the SDK's errors into ours; "not found" passes, since callers tell it apart."""
    try:
        yield
    except docker_errors.NotFound:
        raise
    except docker_errors.DockerException as error:
        raise EngineError(f"{what}: {first_line(error)}") from None
    except requests.RequestException as error:
        raise EngineError(f"{what}: the engine does not answer: {first_line(error)}") from None


def _filter(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" if value else name for name, value in labels.items()]
