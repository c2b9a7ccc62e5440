"""Process boxes: their environment, their log, and what they leave."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from faultbox import ADAPTER, FAULT, LIMITS, ROOT, ask, failure, process_launcher

from harness.outcomes import SandboxFailure
from harness.sandbox.base import BoxRequest
from harness.sandbox.child import CappedLog
from harness.sandbox.process import ProcessLauncher


def test_the_environment_is_scrubbed_and_the_state_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-the-host")
    box = process_launcher().start(BoxRequest("s0001", 0, {}, tmp_path))
    try:
        seen = json.loads(ask(box, "look"))
        assert "sk-a-key" not in json.dumps(seen)
        assert set(seen["env"]) <= {
            "HOME", "LANG", "LC_CTYPE", "MEMRIG_DISK_BYTES", "MEMRIG_STATE_DIR", "PATH",
            "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH", "TMPDIR", "TZ",
        }  # fmt: skip
        state = Path(seen["state_dir"])
        assert Path(seen["env"]["HOME"]).is_dir()
        assert ask(box, f"write {state}/x") == "written"
    finally:
        usage = box.close()
    assert not state.exists()
    assert not state.parent.exists()
    assert usage.cpu_s is not None
    assert usage.oom_kills is None, "a process box cannot tell"


@pytest.mark.parametrize("end", ["close", "exit 7"])
def test_a_child_in_a_session_of_its_own_ends_with_its_box(tmp_path: Path, end: str) -> None:
    other = process_launcher().start(BoxRequest("s0001", 0, {}, tmp_path))
    box = process_launcher().start(BoxRequest("s0001", 0, {}, tmp_path))
    try:
        kept, stray = int(ask(other, "leave-stray")), int(ask(box, "leave-stray"))
        assert alive(stray)
        if end != "close":
            failure(box, end)
        box.close()
        assert not alive(stray)
        assert alive(kept), "another box's"
    finally:
        box.close()
        other.close()
    assert not alive(kept)


def alive(pid: int) -> bool:
    """Runs, and is not just a number that nobody has asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    launcher = ProcessLauncher([str(tmp_path / "python")], {}, None, ADAPTER, LIMITS)
    with pytest.raises(SandboxFailure, match="cannot be started") as caught:
        launcher.start(BoxRequest("s0001", 0, {}, tmp_path))
    assert caught.value.kind == "START_FAILED"


def test_logs_are_numbered_and_never_overwritten(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        log = CappedLog.create(tmp_path / "logs", "s0001")
        os.write(log.fd, b"x")
        log.close()
        names.append(log.path.name)
    assert names == ["s0001.1.stderr", "s0001.2.stderr", "s0001.3.stderr"]


def test_a_log_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", cap=1000, keep=200)
    os.write(log.fd, b"head\n")
    for i in range(300):
        os.write(log.fd, f"line {i}\n".encode())
        log.trim()
        assert log.path.stat().st_size <= 1010
    text = log.path.read_text()
    assert text.startswith("head\nline 0\n")
    assert text.endswith("line 299\n")
    assert text.count("memrig cut") == 1
    cut = int(text.split("memrig cut ")[1].split()[0])
    written = 5 + sum(len(f"line {i}\n") for i in range(300))
    marker = len(text) - len(
        text.replace(f"\n... memrig cut {cut} bytes out of this log ...\n", "")
    )
    assert len(text) - marker + cut == written
    assert log.tail(lines=2) == "line 298\nline 299"
    log.close()
    log.close()


def test_the_adapter_s_hash_is_in_the_hello(tmp_path: Path) -> None:
    from harness.adapter.fingerprint import folder_sha256

    box = process_launcher().start(BoxRequest("s0001", 0, {}, tmp_path))
    box.close()
    assert box.hello["adapter_sha256"] == folder_sha256(FAULT)
    assert (ROOT / "harness").is_dir()
