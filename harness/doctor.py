"""What this machine has and what it lacks: one line a check, and the command that mends it.

Every check is quick, changes nothing that stays, and works where the others fail. A key is looked
at by its name only.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.catalog import Catalog
from harness.outcomes import EngineError, MemrigError
from harness.sandbox.base_image import at_hand
from harness.sandbox.engine import Engine
from harness.sandbox.lockfile import TORCH_VERSION, find_torch
from harness.sandbox.venv import find_uv, probe_network
from harness.settings import NO_INDEX, Settings

State = Literal["ok", "warn", "fail"]

#: Free space in GB below which a build will fail, or may.
DISK_FAIL_GB, DISK_WARN_GB = 2.0, 10.0

#: Seconds for one answer of the package index.
INDEX_S = 15

_ATE = 42
_EAT = f"b = bytearray(256 * 2**20)\nb[::4096] = b'x' * len(b[::4096])\nraise SystemExit({_ATE})"


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, how it is, what was found, and what mends it."""

    name: str
    state: State
    found: str
    fix: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def examine(
    settings: Settings, catalog: Catalog, env: Mapping[str, str] | None = None
) -> list[Check]:
    """Look at everything. One check that breaks is a failed line, not the end."""
    env = os.environ if env is None else env
    engine, reasons = _ask_engine(settings)
    checks: dict[str, Callable[[], Check]] = {
        "python": _python,
        "uv": _uv,
        "git": _git,
        "engine": lambda: _engine(engine, reasons),
        "base image": lambda: _base_image(engine, settings),
        "memory limit": lambda: _limits(engine, settings),
        "venv network": _network,
        "disk": lambda: _disk(engine, settings),
        "package index": lambda: _index(settings),
        "CPU torch": lambda: _torch(settings),
        "keys": lambda: _keys(env),
        "baselines": lambda: _baselines(catalog),
    }
    found = [_guarded(name, check) for name, check in checks.items()]
    found += [Check("settings", "warn", note) for note in settings.notes]
    if engine is not None:
        engine.close()
    return found


def healthy(checks: Iterable[Check]) -> bool:
    """Nothing failed. A warning is no failure."""
    return all(check.state != "fail" for check in checks)


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (MemrigError, OSError) as error:
        return Check(name, "fail", str(error))


def _ask_engine(settings: Settings) -> tuple[Engine | None, list[str]]:
    try:
        return Engine.diagnose(settings.engine)
    except MemrigError as error:
        return None, [str(error)]


def _python() -> Check:
    return Check("python", "ok", platform.python_version())


def _uv() -> Check:
    try:
        return Check("uv", "ok", find_uv())
    except MemrigError as error:
        return Check("uv", "fail", str(error), f"{sys.executable} -m pip install uv")


def _git() -> Check:
    found = shutil.which("git")
    if found is None:
        return Check("git", "warn", "missing; pinned sources need it", "apt-get install git")
    return Check("git", "ok", found)


def _engine(engine: Engine | None, reasons: list[str]) -> Check:
    if engine is None:
        why = "; ".join(reasons) or "none was found"
        return Check(
            "engine",
            "warn",
            f"none answers ({why}); bench runs systems in a venv",
            "make engine",
        )
    info = engine.info()
    gigabytes = info["memory_bytes"] / 1e9
    found = (
        f"{info['name']} {info['version']}, {info['platform']}, cgroup v{info['cgroup_version']}, "
        f"{info['cpus']} cores, {gigabytes:.0f} GB"
    )
    if info["memory_bytes"] and gigabytes < 4:
        return Check("engine", "warn", f"{found}: little for systems with models")
    return Check("engine", "ok", found)


def _base_image(engine: Engine | None, settings: Settings) -> Check:
    origin = settings.origins.get("base_image", "default")
    shown = f"{settings.base_image} ({origin})"
    if engine is None:
        return Check("base image", "warn", f"{shown}: no engine to ask", "make engine")
    if engine.inspect_image(settings.base_image) is not None:
        return Check("base image", "ok", shown)
    other = at_hand(engine, settings).base_image
    if other != settings.base_image:
        found = f"{shown} is not here; bench pulls it, and where it cannot it takes {other}"
        return Check("base image", "ok", found)
    fails = "fails" if "base_image" in settings.origins else "runs systems in a venv"
    found = f"{shown} is not here yet; bench pulls it, and where it cannot it {fails}"
    return Check("base image", "warn", found, "make engine")


def _limits(engine: Engine | None, settings: Settings) -> Check:
    """Start a container that wants four times what it may have, and see it die of that."""
    name = "memory limit"
    if engine is None:
        return Check(name, "warn", "holds in containers only, and no engine answers", "make engine")
    settings = at_hand(engine, settings)
    if engine.inspect_image(settings.base_image) is None:
        return Check(name, "warn", "not tried: there is no base image", "make engine")
    options = ["--memory=64m", "--memory-swap=64m", "--user=10001:10001"]
    try:
        state, said = engine.run(settings.base_image, ["python3", "-c", _EAT], options)
    except EngineError as error:
        return Check(name, "fail", f"could not be tried: {error}", "make engine")
    if state.exit_code == 137 or state.oom_killed:
        return Check(name, "ok", "a container over its limit was killed")
    if state.exit_code == _ATE:
        return Check(
            name,
            "fail",
            "a container took 256 MB with a limit of 64",
            "give the engine the memory controller (rootless: cgroup v2 with delegation)",
        )
    return Check(name, "fail", f"exit code {state.exit_code}: {said.strip()[-200:]}", "make engine")


def _network() -> Check:
    network = probe_network()
    if network.isolated:
        return Check("venv network", "ok", "a venv box is cut off from the network")
    fix = {
        "/proc/sys/kernel/unprivileged_userns_clone": "kernel.unprivileged_userns_clone=1",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    }
    known = [setting for path, setting in fix.items() if Path(path).exists()]
    mend = f"sysctl -w {known[0]}" if known else "make engine"
    return Check("venv network", "warn", f"a venv box sees the network: {network.note}", mend)


def _disk(engine: Engine | None, settings: Settings) -> Check:
    places = [_existing(settings.work_dir)]
    if engine is not None and engine.local:
        root = Path(engine.info()["root_dir"] or "/")
        places.append(_existing(root))
    free = {place: shutil.disk_usage(place).free / 1e9 for place in places}
    place, least = min(free.items(), key=lambda entry: entry[1])
    found = f"{least:.0f} GB free on {place}"
    mend = "memrig clean --images --venvs"
    if least < DISK_FAIL_GB:
        return Check("disk", "fail", found, mend)
    if least < DISK_WARN_GB:
        return Check("disk", "warn", f"{found}; images of systems with torch take 2 GB", mend)
    return Check("disk", "ok", found)


def _existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _index(settings: Settings) -> Check:
    """Ask the index for one small package, with the tool and the settings that a venv uses."""
    name = "package index"
    origin = settings.origins.get("package_index", "default")
    if settings.package_index == NO_INDEX:
        where = settings.wheel_dir or "no folder is set"
        return Check(name, "ok" if settings.wheel_dir else "fail", f"none: wheels from {where}")
    shown = f"{settings.package_index or 'the public one'} ({origin})"
    argv = [find_uv(), "pip", "compile", "-", "--no-deps", "--no-header", "--quiet", "--no-cache"]
    if settings.package_index:
        argv += ["--default-index", settings.package_index]
    env = {**os.environ, "UV_HTTP_TIMEOUT": str(INDEX_S), "UV_HTTP_RETRIES": "0"}
    if settings.ca_file:
        env["SSL_CERT_FILE"] = str(settings.ca_file)
    try:
        done = subprocess.run(
            argv,
            input=b"filelock\n",
            capture_output=True,
            timeout=2 * INDEX_S,
            env=env,
            check=False,
        )
        said = done.stderr.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        found = f"{shown} gave no answer in {2 * INDEX_S} s{_UNBUILT}"
        return Check(name, "fail", found, _MEND_INDEX)
    if done.returncode == 0:
        return Check(name, "ok", f"{shown} answers")
    if "certificate" in said.lower() or "UnknownIssuer" in said:
        found = f"{shown}: its certificate is not trusted{_UNBUILT}"
        return Check(name, "fail", found, "MEMRIG_CA_FILE=PEM")
    last = " ".join(said.split())[-160:]
    return Check(name, "fail", f"{shown}: {last}{_UNBUILT}", _MEND_INDEX)


_UNBUILT = "; bench fails for systems with packages that are not built yet"
_MEND_INDEX = "MEMRIG_PACKAGE_INDEX=URL, or MEMRIG_WHEEL_DIR=DIR"


def _torch(settings: Settings) -> Check:
    origin = settings.origins.get("wheel_dir", "default")
    wheels = find_torch(settings.wheel_dir)
    if wheels:
        return Check("CPU torch", "ok", f"{wheels[0].name} in {settings.wheel_dir} ({origin})")
    if settings.torch_index:
        origin = settings.origins.get("torch_index", "default")
        return Check("CPU torch", "ok", f"from {settings.torch_index} ({origin})")
    return Check(
        "CPU torch",
        "warn",
        f"no wheel of torch {TORCH_VERSION}+cpu: systems that need it cannot be built",
        "MEMRIG_WHEEL_DIR=DIR, or MEMRIG_TORCH_INDEX=URL",
    )


def _keys(env: Mapping[str, str]) -> Check:
    names = sorted(name for name, value in env.items() if name.endswith("_API_KEY") and value)
    if not names:
        return Check("keys", "ok", "none set, and none needed without a paid profile")
    return Check("keys", "ok", f"{', '.join(names)} (names only; a key alone never spends)")


def _baselines(catalog: Catalog) -> Check:
    broken = catalog.broken()
    if broken:
        said = "; ".join(str(problem) for entry in broken for problem in entry.problems)
        return Check("baselines", "fail", said, "mend the file that is named")
    return Check("baselines", "ok", f"{len(catalog.names())} rows")
