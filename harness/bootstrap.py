"""Bring a bare Debian machine to a running container engine and a base image (`make engine`).

Each step looks first and acts only where something is missing, so a second run takes seconds.
What it found out for this machine (base image, whether builds need the host's network) is written
to ``.memrig/engine.toml``, which :mod:`harness.settings` reads; nothing else is configured.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.outcomes import BuildError, EngineError, UsageError
from harness.sandbox import context, dockerfile
from harness.sandbox.context import File
from harness.sandbox.engine import Engine
from harness.sandbox.image import ImageBuilder
from harness.settings import DEFAULT_BASE_IMAGE, Settings
from harness.settings import LOCAL_BASE_IMAGE as LOCAL_BASE
from harness.settings import LOCAL_BASE_SUITE as SUITE

BASE_PACKAGES = "python3,python3-venv,ca-certificates"

#: Seconds.
APT_S, BASE_S, ENGINE_START_S = 1200, 1800, 90

_NO_APT = (
    "this machine has no apt-get, and `make engine` knows Debian and its kin only. Install docker "
    "or podman as your system does it, start it, and see `memrig doctor`"
)


@dataclass(frozen=True)
class Plan:
    """What is missing here. ``install``: Debian packages; ``base``: how the base image comes."""

    engine: bool = False
    install: tuple[str, ...] = ()
    base: bool = False
    probe: bool = False

    @property
    def lines(self) -> list[str]:
        """What will be done, for the user, before anything is."""
        said = []
        if self.install:
            said.append(f"apt-get update, then install {' '.join(self.install)} and what they need")
        if self.engine:
            said.append("start the docker daemon in the background")
        if self.base:
            said.append(
                f"get the base image {DEFAULT_BASE_IMAGE}; if no registry serves it, make "
                f"{LOCAL_BASE} from Debian packages ({BASE_PACKAGES}){_with_mmdebstrap()}"
            )
        if self.probe:
            said.append("try out which network a build needs")
        return said

    @property
    def needs_root(self) -> bool:
        """Installing and starting a daemon do; asking a running one does not."""
        return bool(self.install) or self.engine


class Bootstrap:
    """Plans and carries out. ``say`` is told each step in one line; ``root``: we are root."""

    def __init__(
        self, settings: Settings, say: Callable[[str], None], *, root: bool | None = None
    ) -> None:
        self._settings = settings
        self._say = say
        self._root = os.geteuid() == 0 if root is None else root
        self._log = settings.work_dir / "logs" / "engine.log"
        self._record = settings.work_dir / "engine.toml"

    def plan(self) -> Plan:
        """Find out what is missing; changes nothing.

        Raises:
            EngineError: an engine is missing and this is no Debian machine.
        """
        engine = Engine.detect(self._settings.engine)
        if engine is None:
            missing = (
                () if shutil.which("dockerd") and shutil.which("docker") else _engine_packages()
            )
            return Plan(engine=True, install=missing, base=True, probe=True)
        with engine:
            base = engine.inspect_image(self._settings.base_image) is None
        return Plan(base=base, probe="build_network_host" not in self._settings.origins)

    def carry_out(self, plan: Plan) -> Settings:
        """Do what the plan says; returns the settings with what was found out.

        Raises:
            UsageError: root is needed. EngineError, BuildError: a step failed, naming its log.
        """
        if plan.needs_root and not self._root:
            raise UsageError("installing and starting an engine needs root: sudo make engine")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if plan.install:
            self._install(plan.install)
        engine = Engine.detect(self._settings.engine) or self._start()
        with engine:
            found: dict[str, str | bool] = {}
            if plan.base:
                found["base_image"] = self._base(engine)
                self._settings = replace(self._settings, base_image=str(found["base_image"]))
            if plan.probe:
                needed = self._host_network_needed(engine)
                if needed is not None:
                    found["build_network_host"] = needed
        self._write(found)
        return Settings.load({"work_dir": self._settings.work_dir})

    # -- the engine ----------------------------------------------------------------------------

    def _install(self, packages: tuple[str, ...]) -> None:
        self._say(f"installing {' '.join(packages)} (log: {self._log})")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        self._run(["apt-get", "update", "-q"], APT_S, env)
        flags = ["-y", "-q", "--no-install-recommends"]
        self._run(["apt-get", "install", *flags, *packages], APT_S, env)

    def _start(self) -> Engine:
        """Start dockerd: by systemd where that runs the machine, else in the background."""
        log = self._log.with_name("dockerd.log")
        daemon: subprocess.Popen[bytes] | None = None
        if Path("/run/systemd/system").is_dir():
            self._say("starting docker.service")
            self._run(["systemctl", "start", "docker.service"], ENGINE_START_S)
        else:
            self._say(f"starting dockerd in the background (log: {log})")
            program = shutil.which("dockerd") or "/usr/sbin/dockerd"
            with log.open("ab") as stream:
                daemon = subprocess.Popen(
                    [program],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # it outlives this command and its terminal
                )
        deadline = time.monotonic() + ENGINE_START_S
        while time.monotonic() < deadline:
            engine = Engine.detect(self._settings.engine)
            if engine is not None:
                return engine
            if daemon is not None and daemon.poll() is not None:
                break
            time.sleep(0.5)
        raise EngineError(f"docker did not start; its last words:\n{_tail(log)}\n  log: {log}")

    # -- the base image ------------------------------------------------------------------------

    def _base(self, engine: Engine) -> str:
        """The base image's name once it is there: as configured, pulled, or made here."""
        wanted = self._settings.base_image
        if engine.inspect_image(wanted) is not None:
            return wanted
        self._say(f"pulling {wanted}")
        try:
            engine.pull(wanted)
            return wanted
        except EngineError as error:
            self._say(f"no registry serves {wanted}: {str(error).splitlines()[0]}")
        if engine.inspect_image(LOCAL_BASE) is None:
            self._make_base(engine)
        return LOCAL_BASE

    def _make_base(self, engine: Engine) -> None:
        if shutil.which("mmdebstrap") is None:
            if shutil.which("apt-get") is None:
                raise EngineError(_NO_APT)
            if not self._root:
                raise UsageError("installing mmdebstrap needs root: sudo make engine")
            self._install(("mmdebstrap",))
        self._say(f"making {LOCAL_BASE} from Debian packages (log: {self._log})")
        scratch = self._settings.work_dir / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            archive = Path(folder) / "base.tar"
            argv = ["mmdebstrap", "--variant=minbase", f"--include={BASE_PACKAGES}"]
            argv += ["--aptopt=Acquire::Languages none", SUITE, str(archive)]
            self._run(argv, BASE_S)
            repository, _, tag = LOCAL_BASE.partition(":")
            engine.import_image(archive, repository, tag)

    # -- the network of builds -----------------------------------------------------------------

    def _host_network_needed(self, engine: Engine) -> bool | None:
        """Whether a build reaches the package index only by the host's network.

        ``None``: in neither way; then nothing is recorded and the user is told.
        """
        self._say("trying out which network a build needs")
        for host in (False, True):
            settings = replace(self._settings, build_network_host=host)
            try:
                _probe_build(engine, settings)
            except BuildError as error:
                self._say(f"a build on the {'host' if host else 'default'} network failed: {error}")
            else:
                return host
        self._say(
            "builds do not reach a package index. If this network needs one: "
            "MEMRIG_PACKAGE_INDEX=URL, MEMRIG_CA_FILE=PEM or MEMRIG_WHEEL_DIR=DIR"
        )
        return None

    def _write(self, found: Mapping[str, str | bool]) -> None:
        """Add what was found out to what was recorded before."""
        known: dict[str, str | bool] = {}
        for name in ("base_image", "build_network_host"):
            if self._settings.origins.get(name) == "memrig engine":
                known[name] = getattr(self._settings, name)
        known |= found
        if not found:
            return
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in sorted(known.items())]
        text = "# Written by `memrig engine` for this machine; safe to delete.\n[build]\n"
        temporary = self._record.with_suffix(".tmp")
        temporary.write_text(text + "".join(lines), encoding="utf-8")
        temporary.replace(self._record)
        self._say(f"recorded in {self._record}: " + "; ".join(line.strip() for line in lines))

    def _run(self, argv: list[str], limit_s: float, env: Mapping[str, str] | None = None) -> None:
        with self._log.open("a", encoding="utf-8") as stream:
            stream.write(f"$ {' '.join(argv)}\n")
            stream.flush()
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=None if env is None else dict(env),
                    timeout=limit_s,
                    check=False,
                )
            except FileNotFoundError:
                raise EngineError(f"{argv[0]} is not installed") from None
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"{argv[0]} took over {limit_s:g} s\n  log: {self._log}"
                ) from None
        if done.returncode != 0:
            raise EngineError(
                f"{' '.join(argv[:3])} failed:\n{_tail(self._log)}\n  log: {self._log}"
            )


def _engine_packages() -> tuple[str, ...]:
    if shutil.which("apt-get") is None:
        raise EngineError(_NO_APT)
    packages = ["docker.io"]
    if _apt_knows("docker-cli"):  # since Debian 13 the client is a package of its own
        packages.append("docker-cli")
    apparmor = Path("/sys/module/apparmor/parameters/enabled")
    if apparmor.is_file() and apparmor.read_text().strip() == "Y":
        packages.append("apparmor")  # without its parser such a kernel starts no container
    if shutil.which("mmdebstrap") is None:
        packages.append("mmdebstrap")
    return tuple(packages)


def _apt_knows(package: str) -> bool:
    done = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return done.returncode == 0 and bool(done.stdout.strip())


def _probe_build(engine: Engine, settings: Settings) -> None:
    """Download one small package inside a build that is thrown away."""
    layer = ImageBuilder(engine, settings).layer()
    install = dockerfile.Install(
        settings.package_index, settings.extra_index, settings.ca_file is not None
    )
    text = "\n".join(
        [
            "ARG BASE_IMAGE",
            "FROM ${BASE_IMAGE}",
            "COPY build/ /tmp/build/",
            install.pip("--retries", "0", "--timeout", "15", "--target", "/tmp/probe", "filelock"),  # noqa: S108
        ]
    )
    files = [File("Dockerfile", text.encode()), File("build/README", b"a probe\n")]
    if settings.ca_file:
        files.append(File("build/ca.pem", source=settings.ca_file))
    archive = io.BytesIO()
    context.write_tar(files, archive)
    archive.seek(0)
    network = "host" if settings.build_network_host else None
    log = settings.work_dir / "logs" / f"probe-{network or 'default'}.log"
    tag = f"memrig-probe:{os.getpid()}"
    engine.build(
        archive,
        tag=tag,
        labels={},
        build_args={"BASE_IMAGE": layer},
        network=network,
        no_cache=True,
        log=log,
    )
    engine.remove_image(tag)


def _tail(log: Path, lines: int = 8) -> str:
    try:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:]
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in last)


def _with_mmdebstrap() -> str:
    return "" if shutil.which("mmdebstrap") else ", with mmdebstrap, which is installed for it"
