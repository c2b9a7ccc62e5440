"""What a running container box is sealed from: as the engine says, and as seen from inside."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace

import pytest
from faultbox import LIMITS, Boxes, ask, failure

from harness.outcomes import SandboxFailure
from harness.sandbox.base import BoxRequest
from harness.sandbox.container import ContainerBody, ContainerLauncher
from harness.sandbox.engine import Engine

pytestmark = pytest.mark.docker


def test_what_inspect_says_of_a_running_box(container: Boxes, engine: Engine) -> None:
    box = container.start()
    assert isinstance(box.body, ContainerBody)
    facts = engine.inspect(box.body.id)
    assert facts is not None
    host, config = facts["HostConfig"], facts["Config"]
    assert facts["State"]["Running"] is True
    assert host["NetworkMode"] == "none"
    assert list(facts["NetworkSettings"]["Networks"]) == ["none"]
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == LIMITS.memory_mb * 1024 * 1024
    assert host["NanoCpus"] == 1_000_000_000
    assert host["PidsLimit"] == LIMITS.pids
    assert host["LogConfig"]["Type"] == "none"
    assert host["AutoRemove"] is False
    assert host["Init"] is True
    assert not host["Binds"]
    assert not host["PortBindings"]
    assert not host["Devices"]
    assert config["User"] not in ("", "0", "root")
    assert config["Tty"] is False
    assert [(m["Type"], m["Destination"]) for m in facts["Mounts"]] == [("volume", "/state")]
    labels = config["Labels"]
    assert labels["memrig.baseline"] == "Fault"
    assert labels["memrig.owner"].startswith(f"{os.getpid()}:")
    assert labels["memrig.created"].endswith("+00:00")


def test_what_a_box_sees(container: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-the-host")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-key")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy")
    seen = json.loads(ask(container.start(), "look"))
    assert seen["uid"] == 10001
    assert seen["caps"] == ["0000000000000000"] * 2
    assert seen["interfaces"] == ["lo"]
    assert seen["core"] == 0
    env = seen["env"]
    assert set(env) <= {
        "HOME", "HOSTNAME", "LC_CTYPE", "MEMRIG_DISK_BYTES", "MEMRIG_OWN_CGROUP",
        "MEMRIG_STATE_DIR", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
        "PYTHONPATH", "TMPDIR", "TZ",
    }  # fmt: skip
    assert env["HOME"].startswith("/state")
    assert (env["PYTHONHASHSEED"], env["TZ"]) == ("0", "UTC")
    assert "sk-a-key" not in str(env)
    assert "password" not in str(env)


def test_nothing_outside_of_the_loopback_can_be_reached(container: Boxes) -> None:
    box = container.start()
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass  # it does listen
        hosts = ["1.1.1.1", "172.17.0.1", "169.254.169.254", *own_addresses()]
        for host in hosts:
            told = ask(box, f"connect {host} {port}")
            assert "Network is unreachable" in told, (host, told)
        assert ask(box, f"connect 127.0.0.1 {port}").startswith("ConnectionRefusedError")
    assert ask(box, "resolve example.com").startswith("gaierror")


def own_addresses() -> list[str]:
    """An address of this machine that others see, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


@pytest.mark.parametrize(
    "path",
    [
        "/x", "/etc/x", "/opt/memrig/x", "/root/x", "/var/x", "/home/x", "/run/x", "/var/tmp/x",
        "/dev/x", "/dev/shm/x", "/dev/mqueue/x",
    ],
)  # fmt: skip
def test_nothing_can_be_written_elsewhere(container: Boxes, path: str) -> None:
    assert ask(container.start(), f"write {path}").split(":")[0] in (
        "OSError", "PermissionError", "FileNotFoundError",
    )  # fmt: skip


def test_shared_memory_is_there_where_it_is_asked_for(container: Boxes) -> None:
    box = container.start(replace(LIMITS, shm_mb=4))
    assert ask(box, "write /dev/shm/x") == "written"
    assert ask(box, "size /dev/shm") == str(4 * 1024 * 1024)


def test_state_and_scratch_can_be_written_and_start_empty(container: Boxes) -> None:
    first = container.start()
    assert ask(first, "write /state/x") == "written"
    assert ask(first, "write /state/home/x") == "written"
    assert ask(first, "write /tmp/x") == "written"
    assert sorted(json.loads(ask(first, "list /state"))) == ["home", "x"]
    first.close()
    assert json.loads(ask(container.start(), "list /state")) == ["home"]


def test_state_over_its_limit_ends_the_box_by_name(container: Boxes) -> None:
    box = container.start()
    end = failure(box, "fill 400")
    assert end.kind == "DISK_LIMIT"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("fill-unlinked 60", "/state holds"),
        ("fill-hidden 10", "/state/hidden cannot be looked into"),
        ("fill-unwatched 60", "the host saw"),
    ],
)
def test_the_limit_of_state_cannot_be_evaded(
    container: Boxes, engine: Engine, command: str, reason: str
) -> None:
    box = container.start()
    end = failure(box, command, timeout_s=25)
    assert end.kind == "DISK_LIMIT"
    assert reason in end.message
    assert isinstance(box.body, ContainerBody)
    state = engine.wait_ended(box.body.id)
    assert state is None or not state.running


def test_a_box_is_not_root_even_if_its_image_is(container: Boxes, engine: Engine) -> None:
    made = container.make(LIMITS)
    assert isinstance(made, ContainerLauncher)
    for user in ("0", "root", "0:0", ""):
        launcher = ContainerLauncher(made.image_id, "a:B", LIMITS, engine, user=user)
        with pytest.raises(SandboxFailure, match="runs as root"):
            launcher.start(BoxRequest("s0001", 0, {}, container.log_dir))


def test_the_limit_on_processes_holds(container: Boxes) -> None:
    assert "can't start new thread" in ask(container.start(), "threads 300")
