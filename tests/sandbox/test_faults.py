"""Fifteen faults, each ending in its typed failure with nothing left behind.

Against real containers, and against process boxes where a process can have that fault. The
fixtures check after each test that no container is left.
"""

from __future__ import annotations

import threading
import time

import pytest
from faultbox import LIMITS, Boxes, ask, failure

from harness.adapter import wire
from harness.outcomes import AdapterFailure, SandboxFailure
from harness.sandbox.base import BoxRequest
from harness.sandbox.box import PipedBox
from harness.sandbox.client import MemoryClient
from harness.sandbox.container import ContainerBody, ContainerLauncher

#: Closing takes a fraction of this; the machine may be busy.
CLOSE_S = 5.0


def close_quickly(box: PipedBox) -> None:
    started = time.monotonic()
    box.close()
    assert time.monotonic() - started < CLOSE_S


def test_01_a_healthy_box(boxes: Boxes) -> None:
    box = boxes.start()
    assert ask(box, "echo 你好 😀 \u2028 \x00") == "你好 😀 \u2028 \x00"
    close_quickly(box)
    with pytest.raises(SandboxFailure, match="closed"):
        ask(box, "echo x")


def test_02_fifty_megabytes_both_ways(boxes: Boxes) -> None:
    box = boxes.start()
    assert ask(box, "length " + "x" * 50_000_000) == "50000000"
    assert len(ask(box, "big 50000000")) == 50_000_000
    close_quickly(box)


@pytest.mark.parametrize("how", ["sleep", "spin"])
def test_03_a_call_that_hangs(boxes: Boxes, how: str) -> None:
    box = boxes.start()
    started = time.monotonic()
    end = failure(box, f"{how} 60", timeout_s=0.5)
    assert time.monotonic() - started < 10
    assert end.kind == "CALL_TIMEOUT"
    assert end.call == "retrieve"
    assert "0.5 s" in end.message
    close_quickly(box)


def test_04_a_box_that_hangs_while_the_host_writes(boxes: Boxes) -> None:
    box = boxes.start()
    ask(box, "freeze-soon")
    time.sleep(0.6)
    end = failure(box, "length " + "x" * 50_000_000, timeout_s=2.0)
    assert end.kind == "CALL_TIMEOUT"
    close_quickly(box)


def test_05_a_box_that_exits(boxes: Boxes) -> None:
    box = boxes.start()
    end = failure(box, "exit 7")
    assert end.kind == "EXITED"
    assert end.box_exit == 7
    assert "exit code 7" in end.message
    close_quickly(box)


def test_06_a_box_that_is_killed_from_outside(boxes: Boxes) -> None:
    box = boxes.start()

    def kill() -> None:
        if isinstance(box.body, ContainerBody):
            box.body.kill()
        else:
            box.child.kill()

    threading.Timer(0.5, kill).start()
    end = failure(box, "sleep 60", timeout_s=30)
    assert end.kind == "KILLED"
    assert end.signal == 9
    close_quickly(box)


@pytest.mark.docker
def test_07_a_box_that_runs_out_of_memory(container: Boxes) -> None:
    box = container.start()
    end = failure(box, "eat-memory", timeout_s=60)
    assert end.kind == "OUT_OF_MEMORY"
    assert end.box_exit == 137
    close_quickly(box)


@pytest.mark.docker
def test_08_a_child_of_the_box_that_runs_out_of_memory(container: Boxes) -> None:
    box = container.start()
    client = MemoryClient(box)
    client.snapshot_memories()
    assert client.last.meta["oom_kills"] == 0
    assert ask(box, "child-eats-memory", timeout_s=60) == "-9"
    client.snapshot_memories()
    assert client.last.meta["oom_kills"] >= 1
    usage = box.close()
    assert usage.oom_kills is not None
    assert usage.oom_kills >= 1


@pytest.mark.docker
def test_08b_an_exit_after_a_childs_out_of_memory_is_an_exit(container: Boxes) -> None:
    box = container.start()
    ask(box, "child-eats-memory", timeout_s=60)
    end = failure(box, "exit 3")
    assert end.kind == "EXITED"
    assert end.box_exit == 3


def test_09_twenty_megabytes_of_stderr(boxes: Boxes) -> None:
    box = boxes.start()
    assert ask(box, "stderr 20") == "ok"
    assert ask(box, "echo still here") == "still here"
    close_quickly(box)
    log = box.child.log.path
    assert log.stat().st_size < 17 * 1024 * 1024
    text = log.read_bytes()
    assert text.startswith(b"eeee")
    assert text.endswith(b"eeee\n")
    assert b"memrig cut" in text


def test_10_noise_on_the_channels_descriptors(boxes: Boxes) -> None:
    box = boxes.start()
    assert ask(box, "noise") == "quiet"
    assert ask(box, "echo still here") == "still here"
    close_quickly(box)
    log = box.child.log.path.read_text()
    for source in ("print", "os.write", "C puts", "a child", "a fork"):
        assert f"noise from {source}" in log


def test_10b_sabotage_of_the_channel_is_a_breach(boxes: Boxes) -> None:
    box = boxes.start()
    end = failure(box, "corrupt")
    assert end.kind == "PROTOCOL"
    assert "rubbish" in end.message
    close_quickly(box)


def test_11_lines_over_the_limit(boxes: Boxes) -> None:
    box = boxes.start()
    end = failure(box, f"big {wire.MAX_LINE}")
    assert end.kind == "MESSAGE_TOO_LARGE"
    assert "the reply" in end.message
    end = failure(box, "length " + "x" * wire.MAX_LINE)
    assert end.kind == "MESSAGE_TOO_LARGE"
    assert "the request" in end.message
    assert ask(box, "echo still here") == "still here"
    close_quickly(box)


def test_12_closing_with_sixty_megabytes_unread(boxes: Boxes) -> None:
    """Nobody reads: a client is attached whose pipe is full, which is where removing can hang."""
    box = boxes.start()
    reader = threading.Event()
    readline = box.child.readline

    def stuck() -> bytes:
        reader.wait(30)
        return readline()

    box.child.readline = stuck  # type: ignore[method-assign]  # the reader's next turn stands still
    ask(box, "echo the reader now stands still")
    line = wire.encode(
        wire.Request(99, "retrieve", {"query": {"text": "big 60000000"}, "top_k": 1})
    )
    box.child.write(line)
    time.sleep(2)
    started = time.monotonic()
    box.child.kill()
    box.child.wait(3)
    box.body.kill()
    box.body.remove()
    assert time.monotonic() - started < CLOSE_S
    reader.set()


def test_12b_closing_while_a_call_is_open(boxes: Boxes) -> None:
    box = boxes.start()
    ends: list[SandboxFailure] = []
    caller = threading.Thread(target=lambda: ends.append(failure(box, "sleep 60")))
    caller.start()
    time.sleep(0.5)
    close_quickly(box)
    caller.join(10)
    assert [end.kind for end in ends] == ["EXITED"]


def test_13_a_call_after_death(boxes: Boxes) -> None:
    box = boxes.start()
    first = failure(box, "exit 7")
    started = time.monotonic()
    again = failure(box, "echo x")
    assert time.monotonic() - started < 0.1
    assert again is first
    close_quickly(box)
    assert failure(box, "echo x") is first


@pytest.mark.docker
def test_14_not_root_and_a_read_only_root(container: Boxes) -> None:
    box = container.start()
    assert ask(box, "write /opt/memrig/x").startswith("OSError: [Errno 30]")
    assert ask(box, "write /state/x") == "written"
    assert ask(box, "write /tmp/x") == "written"
    close_quickly(box)


def test_15_an_unknown_operation(boxes: Boxes) -> None:
    box = boxes.start()
    with pytest.raises(AdapterFailure) as caught:
        box.call("divine", {})
    assert caught.value.kind == "UNSUPPORTED"
    assert "divine" in caught.value.message
    assert ask(box, "echo still here") == "still here"
    close_quickly(box)


def test_15b_an_error_that_cannot_be_printed(boxes: Boxes) -> None:
    box = boxes.start()
    with pytest.raises(
        AdapterFailure, match=r"Unprintable: .*__str__ raised RuntimeError"
    ) as caught:
        ask(box, "raise-unprintable")
    assert caught.value.kind == "BASELINE_ERROR"
    assert "do_raise_unprintable" in (caught.value.traceback or "")
    assert ask(box, "echo still here") == "still here"
    close_quickly(box)


def test_15c_a_library_that_puts_another_clock_in_its_place(boxes: Boxes) -> None:
    box = boxes.start()
    ask(box, "mock-clock")
    assert ask(box, "echo still here") == "still here"
    slow = box.call("retrieve", {"query": {"text": "sleep 0.1"}, "top_k": 1})
    assert 100 <= slow.meta["ms"] < 10_000
    close_quickly(box)


def test_16_state_over_its_limit(boxes: Boxes) -> None:
    box = boxes.start()
    end = failure(box, "fill 400")
    assert end.kind == "DISK_LIMIT"
    assert "over its limit" in end.stderr_tail
    close_quickly(box)


def test_17_an_orphan_that_holds_the_stream_open(boxes: Boxes) -> None:
    box = boxes.start()
    started = time.monotonic()
    end = failure(box, "orphan")
    assert time.monotonic() - started < 10
    assert end.kind == "EXITED"
    assert end.box_exit == 7
    close_quickly(box)


def test_18_a_crash_of_the_interpreter(boxes: Boxes) -> None:
    box = boxes.start()
    end = failure(box, "abort")
    assert end.kind == "KILLED"
    assert end.signal == 11
    assert "Segmentation fault" in box.child.log.path.read_text()
    assert end.log == box.child.log.path


def test_19_model_calls(boxes: Boxes) -> None:
    box = boxes.start(model_call=lambda params: {"n": params["n"] + 1})
    assert ask(box, "model 100", timeout_s=30) == str(list(range(1, 101)))
    close_quickly(box)


def start_failure(boxes: Boxes, adapter: str, limits: object = LIMITS) -> SandboxFailure:
    made = boxes.make(LIMITS)
    kind = type(made)
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    launcher = kind(**{**fields, "adapter": adapter, "limits": limits})
    assert isinstance(launcher, kind)
    with pytest.raises(SandboxFailure) as caught:
        launcher.start(BoxRequest("s0001", 0, {}, boxes.log_dir))
    return caught.value


def test_20_an_adapter_that_cannot_be_imported(boxes: Boxes) -> None:
    end = start_failure(boxes, "no_such_module:Adapter")
    assert end.kind == "START_FAILED"
    assert "No module named 'no_such_module'" in end.message
    assert end.log is not None
    assert end.log.exists()


def test_21_an_adapter_that_exits_while_it_is_imported(boxes: Boxes) -> None:
    end = start_failure(boxes, "starts_badly:Exits")
    assert end.kind == "START_FAILED"
    assert end.box_exit == 5


def test_22_an_adapter_that_hangs_while_it_is_made(boxes: Boxes) -> None:
    limits = type(LIMITS)(**{**LIMITS.__dict__, "start_s": 3.0})
    end = start_failure(boxes, "starts_badly:Hangs", limits)
    assert end.kind == "START_TIMEOUT"
    assert "3 s" in end.message


@pytest.mark.docker
def test_23_an_image_that_is_not_there(container: Boxes, tmp_path: object) -> None:
    made = container.make(LIMITS)
    assert isinstance(made, ContainerLauncher)
    launcher = ContainerLauncher("memrig-no-such-image:1", "a:B", LIMITS, made.engine)
    with pytest.raises(SandboxFailure, match="memrig-no-such-image") as caught:
        launcher.start(BoxRequest("s0001", 0, {}, container.log_dir))
    assert caught.value.kind == "START_FAILED"


@pytest.mark.docker
def test_24_a_command_that_is_not_in_the_image(container: Boxes) -> None:
    made = container.make(LIMITS)
    assert isinstance(made, ContainerLauncher)
    launcher = ContainerLauncher(
        made.image_id, "a:B", LIMITS, made.engine, made.labels, command=["/no/such/program"]
    )
    with pytest.raises(SandboxFailure) as caught:
        launcher.start(BoxRequest("s0001", 0, {}, container.log_dir))
    assert caught.value.kind == "START_FAILED"
    assert "/no/such/program" in str(caught.value)
