"""The box's main program as a bare child process: what it answers, and when it goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faultbox import ADAPTER, FAULT, ROOT

from harness.adapter import wire


class RawBox:
    """``python -m harness.adapter.serve`` with its descriptors in the open."""

    def __init__(self, state: Path, **env: str) -> None:
        self.state = state
        self.stderr = state.parent / "stderr"
        base = {"PYTHONPATH": f"{ROOT}:{FAULT}", "PATH": os.defpath, "MEMRIG_STATE_DIR": str(state)}
        with self.stderr.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harness.adapter.serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**base, **env},
                start_new_session=True,
            )
        self.last_id = 0

    def put(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def get(self) -> wire.Message:
        assert self.process.stdout is not None
        return wire.decode(self.process.stdout.readline())

    def send(self, method: str, params: dict[str, Any]) -> int:
        self.last_id += 1
        self.put(wire.encode(wire.Request(self.last_id, method, params)))
        return self.last_id

    def call(self, method: str, params: dict[str, Any]) -> wire.Message:
        call_id = self.send(method, params)
        message = self.get()
        assert message.id == call_id
        return message

    def initialize(self, **changes: Any) -> wire.Message:
        params = {
            "protocol": wire.PROTOCOL,
            "seed": 7,
            "sample": "s0001",
            "options": {},
            "routes": [],
            "adapter": ADAPTER,
        }
        return self.call("initialize", {**params, **changes})

    def ready(self) -> RawBox:
        assert isinstance(self.initialize(), wire.Result)
        assert isinstance(self.call("reset", {}), wire.Result)
        return self

    def ask(self, command: str) -> wire.Message:
        return self.call("retrieve", {"query": {"text": command}, "top_k": 1})

    def told(self, command: str) -> str:
        message = self.ask(command)
        assert isinstance(message, wire.Result), message
        return str(message.value["items"][0]["text"])

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[RawBox]:
    box = RawBox(tmp_path / "state")
    yield box
    box.end()


def test_hello_says_what_is_inside(raw: RawBox) -> None:
    hello = raw.initialize()
    assert isinstance(hello, wire.Result)
    assert hello.value["protocol"] == wire.PROTOCOL
    assert hello.value["python"].startswith("3.")
    assert hello.value["packages"]["hypothesis"]
    assert len(hello.value["adapter_sha256"]) == 64
    assert hello.value["capabilities"]["provenance"] is True
    assert hello.value["capabilities"]["snapshot"] == "full"
    assert set(hello.meta) == {"ms", "rss", "oom_kills", "state_bytes", "pending_calls"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"protocol": 2}, "protocol 2; this box speaks 1"),
        ({"seed": "7"}, "seed must be an integer"),
        ({"options": None}, "options must be an object"),
        ({"adapter": "adapter"}, "not of the form module:Class"),
        ({"adapter": "adapter:Path"}, "no subclass of MemoryAdapter"),
        ({"adapter": "adapter:Nothing"}, "no subclass of MemoryAdapter"),
        ({"adapter": "no_such_module:X"}, "No module named 'no_such_module'"),
    ],
)
def test_initialize_refuses_by_name(raw: RawBox, changes: dict[str, Any], says: str) -> None:
    answer = raw.initialize(**changes)
    assert isinstance(answer, wire.Failure)
    assert says in answer.message


def test_a_call_before_and_a_second_initialize_are_refused(raw: RawBox) -> None:
    early = raw.call("reset", {})
    assert isinstance(early, wire.Failure)
    assert "before initialize" in early.message
    raw.ready()
    again = raw.initialize()
    assert isinstance(again, wire.Failure)
    assert "twice" in again.message
    assert raw.told("echo still here") == "still here"


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("retrieve", {}, "query is missing"),
        ("retrieve", {"query": {"text": "x"}}, "top_k is missing"),
        ("retrieve", {"query": {"text": "x"}, "top_k": 0}, "top_k is 0"),
        ("retrieve", {"query": {"text": "x"}, "top_k": True}, "top_k: bool"),
        ("retrieve", {"query": {"text": 1}, "top_k": 1}, "Query.text"),
        ("retrieve", {"query": {"text": "x", "gold": "y"}, "top_k": 1}, "unknown field 'gold'"),
        ("retrieve", {"query": {"text": "x"}, "top_k": 1, "k": 1}, "unknown parameter 'k'"),
        ("end_session", {"session_id": 3}, "session_id: int"),
        ("ingest_turns", {"turns": {}}, "turns: dict"),
        ("ingest_turns", {"turns": [{"text": "x"}]}, "NormalizedTurn"),
        ("snapshot_memories", {"all": True}, "unknown parameter 'all'"),
    ],
)
def test_wrong_parameters_are_refused_by_name(
    raw: RawBox, method: str, params: dict[str, Any], says: str
) -> None:
    answer = raw.ready().call(method, params)
    assert isinstance(answer, wire.Failure)
    assert answer.code == wire.INVALID_PARAMS
    assert says in answer.message
    assert raw.told("echo still here") == "still here"


def test_every_exception_is_a_typed_error_and_the_box_lives_on(raw: RawBox) -> None:
    raw.ready()
    for command, kind, says in (
        ("raise oh", "BASELINE_ERROR", "ValueError: oh"),
        ("typed STORE_FAILED", "STORE_FAILED", "said so"),
        ("sysexit 3", "BASELINE_ERROR", "SystemExit: 3"),
        ("recurse", "BASELINE_ERROR", "RecursionError"),
        ("surrogate", "BASELINE_ERROR", "RetrievedItem.text"),
        ("surrogate-error", "BASELINE_ERROR", "half \\ud83d"),
        ("no-such-command", "BASELINE_ERROR", "AttributeError"),
    ):
        answer = raw.ask(command)
        assert isinstance(answer, wire.Failure), command
        assert answer.kind == kind
        assert says in answer.message
        assert answer.traceback
    typed = raw.ask("typed LLM_ERROR")
    assert isinstance(typed, wire.Failure)
    assert (typed.retry_safe, typed.cause) == (True, "LLM_ERROR")
    assert raw.told("echo still here") == "still here"


def test_noise_of_any_kind_stays_out_of_the_stream(raw: RawBox) -> None:
    raw.ready()
    assert raw.told("noise") == "quiet"
    assert raw.told("echo after") == "after"
    log = raw.stderr.read_text()
    for source in ("print", "os.write", "C puts", "a child", "a fork"):
        assert f"noise from {source}" in log


def test_the_box_goes_at_once_when_the_host_does_however_busy_it_is(raw: RawBox) -> None:
    raw.ready()
    raw.send("retrieve", {"query": {"text": "spin 60"}, "top_k": 1})
    time.sleep(0.3)
    started = time.monotonic()
    raw.hang_up()
    raw.process.wait(10)
    assert time.monotonic() - started < 2


def test_what_the_box_started_goes_with_it_when_the_host_is_gone(raw: RawBox) -> None:
    raw.ready()
    orphan = int(raw.told("leave-child"))
    raw.hang_up()
    raw.process.wait(10)
    deadline = time.monotonic() + 5
    while _runs(orphan):
        assert time.monotonic() < deadline, "the child of a dead box lives on"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("junk", [b"rubbish\n", b"\n", b'{"jsonrpc":"2.0","id":1}\n', b"\xff\n"])
def test_an_unknown_line_ends_the_box(raw: RawBox, junk: bytes) -> None:
    raw.ready().put(junk)
    assert raw.process.wait(10) == wire.EXIT_PROTOCOL
    assert "the host broke the protocol" in raw.stderr.read_text()


def test_an_answer_that_nobody_asked_for_ends_the_box(raw: RawBox) -> None:
    raw.ready().put(wire.encode(wire.Result(5, {}, {})))
    assert raw.process.wait(10) == wire.EXIT_PROTOCOL
    assert "which is not open" in raw.stderr.read_text()


def test_shutdown_says_what_was_used_and_goes(raw: RawBox) -> None:
    raw.ready()
    (raw.state / "kept").write_bytes(b"x" * 100_000)
    answer = raw.call("shutdown", {})
    assert isinstance(answer, wire.Result)
    usage = answer.meta["usage"]
    assert usage["cpu_s"] > 0
    assert usage["peak_memory_bytes"] > 1_000_000
    assert usage["state_bytes"] >= 100_000
    assert raw.process.wait(10) == 0


def test_state_over_its_limit_ends_the_box_by_name(tmp_path: Path) -> None:
    box = RawBox(tmp_path / "state", MEMRIG_DISK_BYTES=str(4 * 1024 * 1024))
    try:
        box.ready().send("retrieve", {"query": {"text": "fill 50"}, "top_k": 1})
        assert box.process.wait(20) == wire.EXIT_DISK_LIMIT
        assert "over its limit of 4194304" in box.stderr.read_text()
    finally:
        box.end()


def test_a_state_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, no folder")
    box = RawBox(tmp_path / "state")
    try:
        answer = box.initialize()
        assert isinstance(answer, wire.Failure)
        assert "cannot be written" in answer.message
    finally:
        box.end()


def test_a_crash_leaves_its_trace(raw: RawBox) -> None:
    raw.ready().send("retrieve", {"query": {"text": "abort"}, "top_k": 1})
    assert raw.process.wait(10) == -signal.SIGSEGV
    assert "Current thread" in raw.stderr.read_text()


def drawn(tmp_path: Path, name: str, sample: str = "s0001", seed: int = 7) -> list[Any]:
    """What a box draws: an id at import, then an id and a number after reset, twice; numpy."""
    box = RawBox(tmp_path / name / "state") if (tmp_path / name).mkdir() is None else None
    assert box is not None
    try:
        assert isinstance(box.initialize(sample=sample, seed=seed), wire.Result)
        told = []
        for _ in range(2):
            assert isinstance(box.call("reset", {}), wire.Result)
            told.append([json.loads(box.told("drawn")), box.told("numpy")])
        told.append(json.loads(box.told("forked-uuid")))
        return told
    finally:
        box.end()


def test_what_a_box_draws_repeats_and_depends_on_the_sample(tmp_path: Path) -> None:
    first = drawn(tmp_path, "a")
    assert drawn(tmp_path, "b") == first
    assert drawn(tmp_path, "c", sample="s0002") != first
    assert drawn(tmp_path, "d", seed=8) != first
    assert first[0] == first[1], "a reset starts the generators anew"
    at_import, after_reset, _ = first[0][0]
    assert at_import != after_reset
    in_child, in_parent = first[2]
    assert in_child != in_parent


def test_a_reset_may_name_another_sample(tmp_path: Path) -> None:
    fresh = drawn(tmp_path, "fresh", sample="s0002")[0][0][1:]
    (tmp_path / "used").mkdir()
    box = RawBox(tmp_path / "used" / "state").ready()
    try:
        box.told("drawn")
        assert isinstance(box.call("reset", {"sample": "s0002"}), wire.Result)
        assert json.loads(box.told("drawn"))[1:] == fresh
    finally:
        box.end()


def test_model_calls_go_through_the_pipe_and_pending_ones_are_counted(raw: RawBox) -> None:
    raw.ready()
    call_id = raw.send("retrieve", {"query": {"text": "model 3"}, "top_k": 1})
    asked = [raw.get() for _ in range(3)]
    assert all(isinstance(a, wire.Request) and a.method == "model.call" for a in asked)
    for request in reversed(asked):
        assert isinstance(request, wire.Request)
        n = request.params["n"]
        raw.put(wire.encode(wire.Result(request.id, {"n": n + 10}, {})))
    answer = raw.get()
    assert isinstance(answer, wire.Result)
    assert answer.id == call_id
    assert json.loads(answer.value["items"][0]["text"]) == [10, 11, 12]
    assert answer.meta["pending_calls"] == 0
    raw.send("retrieve", {"query": {"text": "model-later"}, "top_k": 1})
    messages = [raw.get(), raw.get()]
    reply = next(m for m in messages if isinstance(m, wire.Result))
    assert reply.meta["pending_calls"] == 1


def test_at_most_sixty_four_model_calls_are_on_the_pipe(raw: RawBox) -> None:
    raw.ready()
    raw.send("retrieve", {"query": {"text": "model 100"}, "top_k": 1})
    first = [raw.get() for _ in range(64)]
    raw.put(wire.encode(wire.Failure(first[0].id, wire.MODEL_FAILED, "no", kind="LLM_ERROR")))
    rest = [*first[1:], raw.get()]
    done = 1
    while rest:
        request = rest.pop()
        assert isinstance(request, wire.Request)
        raw.put(wire.encode(wire.Result(request.id, {"n": 1}, {})))
        done += 1
        if done + len(rest) < 100:
            rest.append(raw.get())
    answer = raw.get()
    assert isinstance(answer, wire.Result)
    told = json.loads(answer.value["items"][0]["text"])
    assert sorted(map(str, told)) == ["1"] * 99 + ["LLM_ERROR: no"]


def test_a_reply_over_the_limit_is_refused_by_name_and_the_box_lives_on(raw: RawBox) -> None:
    raw.ready()
    answer = raw.ask(f"big {wire.MAX_LINE}")
    assert isinstance(answer, wire.Failure)
    assert answer.kind == "MESSAGE_TOO_LARGE"
    assert raw.told("echo still here") == "still here"
