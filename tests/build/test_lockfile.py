"""A lock is trusted only if every line pins one version and names its files by hash."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import DEPENDENCY, write_wheel

from harness.outcomes import DataError
from harness.sandbox.lockfile import TORCH_VERSION, TORCH_WHEELS, find_torch, read_lock

HASH = "--hash=sha256:" + "a" * 64
OTHER = "--hash=sha256:" + "b" * 64


def lock(folder: Path, text: str) -> Path:
    (folder / "requirements.lock").write_text(text)
    return folder


def test_no_lock_and_an_empty_lock_have_nothing_to_install(tmp_path: Path) -> None:
    assert read_lock(tmp_path, "none").empty
    assert read_lock(lock(tmp_path, "# nothing\n\n"), "none").empty


def test_what_uv_writes_is_understood(tmp_path: Path) -> None:
    text = (
        f"# made by uv\nNum_Py==2.0 \\\n    {HASH} \\\n    {OTHER}\n    # via x\n"
        f"six==1.16.0 ; python_version >= '3.9' {HASH}\n"
    )
    found = read_lock(lock(tmp_path, text), "none")
    assert set(found.hashes) == {"num-py", "six"}
    assert found.hashes["num-py"] == ("a" * 64, "b" * 64)


@pytest.mark.parametrize(
    ("text", "torch", "line", "says"),
    [
        ("six==1.0\n", "none", 1, "no --hash"),
        (f"\nsix>=1.0 {HASH}\n", "none", 2, "not pinned"),
        ("--index-url https://x\n", "none", 1, "only pinned packages"),
        ("-e .\n", "none", 1, "only pinned packages"),
        (f"torch==2.0 {HASH}\n", "none", 1, "torch: cpu"),
        (f"torch==2.0 {HASH}\n", "cpu", 1, "leave it out"),
        (f"nvidia-cudnn-cu12==9 {HASH}\n", "cpu", 1, "CUDA"),
    ],
)
def test_refused(tmp_path: Path, text: str, torch: str, line: int, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_lock(lock(tmp_path, text), torch)
    assert caught.value.problems[0].line == line


def test_only_wheels_that_the_lock_permits_are_taken(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    text = write_wheel(wheels)
    found = read_lock(lock(tmp_path, text), "none")
    assert list(found.hashes) == [DEPENDENCY]
    wheel = next(wheels.glob("*.whl"))
    (wheels / "other-1.0-py3-none-any.whl").write_bytes(b"x")
    assert found.wheels_in(wheels) == [wheel]
    assert found.wheels_in(None) == []
    wheel.write_bytes(wheel.read_bytes() + b"tampered")
    assert found.wheels_in(wheels) == []


def test_a_known_torch_wheel_with_other_bytes_is_refused(tmp_path: Path) -> None:
    assert find_torch(None) == find_torch(tmp_path) == []
    unknown = tmp_path / f"torch-{TORCH_VERSION}+cpu-cp399-cp399-linux_mips.whl"
    unknown.write_bytes(b"x")
    assert find_torch(tmp_path) == [unknown]
    (tmp_path / next(iter(TORCH_WHEELS))).write_bytes(b"not it")
    with pytest.raises(DataError, match="SHA-256"):
        find_torch(tmp_path)
