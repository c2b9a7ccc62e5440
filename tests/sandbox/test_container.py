"""The life of a container box: what it leaves, who owns it, and who removes it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faultbox import FAULT, LIMITS, ROOT, Boxes, ask

from harness.outcomes import BuildError, EngineError
from harness.sandbox import ownership
from harness.sandbox.box import PipedBox
from harness.sandbox.client import MemoryClient
from harness.sandbox.container import ContainerBody
from harness.sandbox.engine import Engine
from harness.sandbox.engine_link import proxy_names

docker = pytest.mark.docker


def body_of(box: PipedBox) -> ContainerBody:
    assert isinstance(box.body, ContainerBody)
    return box.body


def volume_of(engine: Engine, box: PipedBox) -> str:
    facts = engine.inspect(body_of(box).id)
    assert facts is not None
    return str(facts["Mounts"][0]["Name"])


def volumes() -> list[str]:
    """Asked of the program and not of the code under test."""
    done = subprocess.run(["docker", "volume", "ls", "-q"], capture_output=True, text=True)
    return done.stdout.split()


@docker
def test_closing_leaves_no_container_and_no_volume(container: Boxes, engine: Engine) -> None:
    box = container.start()
    volume = volume_of(engine, box)
    assert volume in volumes()
    ask(box, "write /state/x")
    MemoryClient(box).snapshot_memories()
    usage = box.close()
    assert engine.inspect(body_of(box).id) is None
    assert volume not in volumes()
    assert usage.cpu_s is not None
    assert usage.cpu_s > 0
    assert usage.peak_memory_bytes is not None
    assert 5_000_000 < usage.peak_memory_bytes <= LIMITS.memory_mb * 1024 * 1024
    assert usage.state_bytes is not None
    assert usage.oom_kills == 0
    assert box.close() is usage


@docker
def test_boxes_are_listed_with_their_run_and_owner(container: Boxes, engine: Engine) -> None:
    box = container.start()
    listed = {info.id: info for info in engine.list_boxes()}[body_of(box).id]
    assert listed.baseline == "Fault"
    assert listed.status == "running"
    assert listed.name.startswith("memrig-Fault-s0001-")
    assert listed.owner == ownership.owner_of(os.getpid())
    assert not listed.orphan
    assert engine.list_boxes({"memrig.baseline": "Other"}) == []


HOST = """
import sys, time
from pathlib import Path
sys.path[:0] = [{helpers!r}, {root!r}]
from faultbox import ADAPTER, LIMITS
from harness.sandbox.base import BoxRequest
from harness.sandbox.container import ContainerLauncher
from harness.sandbox.engine import Engine
labels = {{"memrig.run": {run!r}}}
launcher = ContainerLauncher({image!r}, ADAPTER, LIMITS, Engine.detect(), labels)
box = launcher.start(BoxRequest("s0001", 0, {{}}, Path({run!r})))
box.call("reset", {{}})
print(box.body.id, flush=True)
box.call("retrieve", {{"query": {{"text": {command!r}}}, "top_k": 1}})
"""


@contextlib.contextmanager
def other_host(image: str, run: Path, command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another host process with a box that is busy with a command; yields it and the box's id."""
    helpers = str(FAULT.parents[1])
    code = HOST.format(helpers=helpers, root=str(ROOT), run=str(run), image=image, command=command)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ended_within(engine: Engine, box: str, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        state = engine.state(box)
        if state is None or not state.running:
            return True
        time.sleep(0.05)
    return False


def gone_within(engine: Engine, box: str, patience_s: float) -> None:
    """Removed, be it by the reaper of a test that runs beside this one."""
    deadline = time.monotonic() + patience_s
    while engine.inspect(box) is not None:
        assert time.monotonic() < deadline, f"{box} was not reaped"
        time.sleep(0.05)


@docker
@pytest.mark.parametrize("command", ["sleep 60", "spin 60"])
def test_a_killed_host_takes_its_box_along_and_the_next_start_reaps_it(
    engine: Engine, fault_image: str, container: Boxes, tmp_path: Path, command: str
) -> None:
    mine = container.start()
    run = tmp_path / "other"
    run.mkdir()
    with other_host(fault_image, run, command) as (host, box):
        assert box
        facts = engine.inspect(box)
        assert facts is not None
        volume = facts["Mounts"][0]["Name"]
        assert box not in [gone.id for gone in engine.reap()], "its owner lives"
        time.sleep(0.5)
        host.send_signal(signal.SIGKILL)
        host.wait()
        assert ended_within(engine, box, 5)
    engine.reap()
    gone_within(engine, box, 5)
    assert volume not in volumes()
    assert ask(mine, "echo mine lives on") == "mine lives on"


@docker
def test_the_reaper_takes_volumes_that_lost_their_container(
    engine: Engine, fault_image: str, tmp_path: Path
) -> None:
    with other_host(fault_image, tmp_path, "sleep 60") as (host, box):
        facts = engine.inspect(box)
        assert facts is not None
        host.send_signal(signal.SIGKILL)
        host.wait()
    assert ended_within(engine, box, 5)
    subprocess.run(["docker", "rm", "-f", box], check=True, capture_output=True)  # without -v
    assert facts["Mounts"][0]["Name"] in volumes()
    engine.reap()
    assert facts["Mounts"][0]["Name"] not in volumes()


@docker
def test_a_container_that_somebody_removed(container: Boxes, engine: Engine) -> None:
    box = container.start()
    engine.remove(body_of(box).id)
    with pytest.raises(Exception, match="removed by somebody else"):
        ask(box, "echo x")
    box.close()


@docker
def test_the_engines_small_answers(engine: Engine, fault_image: str, tmp_path: Path) -> None:
    assert engine.inspect("memrig-no-such-box") is None
    assert engine.state("memrig-no-such-box") is None
    engine.remove("memrig-no-such-box")
    engine.kill("memrig-no-such-box")
    assert engine.inspect_image("memrig-no-such-image:1") is None
    engine.remove_image("memrig-no-such-image:1")
    info = engine.info()
    assert info["platform"] == engine.platform()
    assert info["platform"].startswith("linux/")
    assert info["cgroup_version"] in ("1", "2")
    state, output = engine.run(fault_image, ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert state.exit_code == 3
    assert sorted(output.split()) == ["err", "out"]
    eats = "h=[]\nwhile True: h.append(bytearray(b'x' * (1 << 23)))"
    limit = ["--memory=64m", "--memory-swap=64m"]
    state, _ = engine.run(fault_image, ["python3", "-c", eats], limit)
    assert (state.oom_killed, state.exit_code) == (True, 137)
    with pytest.raises(EngineError, match="took over 1 s"):
        engine.run(fault_image, ["sleep", "30"], timeout_s=1)
    assert [image["Id"] for image in engine.images({"memrig.kind": "test"})]
    with pytest.raises(EngineError, match="pull"):
        engine.pull("localhost:1/memrig-no-such-image:1")
    log = tmp_path / "build.log"
    with pytest.raises(BuildError, match=str(log)):
        build(engine, "FROM memrig-no-such-image:1\n", log)
    with pytest.raises(BuildError, match="returned a non-zero code: 4"):
        build(engine, f"FROM {fault_image}\nRUN echo hello from the build; exit 4\n", log)
    assert "hello from the build" in log.read_text()


def build(engine: Engine, dockerfile: str, log: Path) -> str:
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        tar.addfile(entry, io.BytesIO(dockerfile.encode()))
    out.seek(0)
    tag = "memrig-test-build:1"
    return engine.build(out, tag=tag, labels={"memrig.kind": "test"}, build_args={}, log=log)


def test_no_engine_is_said_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Engine.detect() is None
    engine, reasons = Engine.diagnose()
    assert engine is None
    assert reasons == ["docker: not installed", "podman: not installed"]
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert Engine.detect("docker") is None
    assert "does not answer at unix://" in Engine.diagnose("docker")[1][0]


def test_who_is_an_orphan() -> None:
    mine = ownership.owner_labels()
    assert not ownership.is_orphan(mine)
    assert not ownership.is_orphan({}), "not one of ours"
    pid, ticks, boot = mine[ownership.OWNER].split(":")
    assert ownership.is_orphan({**mine, ownership.OWNER: f"{pid}:1:{boot}"}), "the pid came again"
    assert ownership.is_orphan({**mine, ownership.OWNER: f"{pid}:{ticks}:other"}), "a reboot"
    assert ownership.is_orphan({**mine, ownership.OWNER: "rubbish"})
    elsewhere = {**mine, ownership.OWNER: f"{pid}:1:{boot}", ownership.HOST: "other/pid:[1]"}
    assert not ownership.is_orphan(elsewhere), "cannot be judged from here"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        labels = {**mine, ownership.OWNER: ownership.owner_of(process.pid)}
        assert not ownership.is_orphan(labels)
        process.communicate(b"\n")
    assert ownership.is_orphan(labels)


def test_proxies_of_the_clients_settings_are_blanked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert proxy_names() == []
    settings = tmp_path / "config.json"
    settings.write_text("{}")
    assert proxy_names() == []
    settings.write_text(json.dumps({"proxies": {"default": {"httpProxy": "http://u:p@proxy"}}}))
    assert "HTTP_PROXY" in proxy_names()
    assert "https_proxy" in proxy_names()


@docker
def test_proxies_of_the_clients_settings_do_not_reach_a_box(
    container: Boxes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    proxies = {"default": {"httpProxy": "http://user:password@proxy", "noProxy": "x"}}
    (config / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    env = json.loads(ask(container.start(), "look"))["env"]
    assert env["HTTP_PROXY"] == env["http_proxy"] == ""
    assert "password" not in str(env)
