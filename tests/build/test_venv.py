"""A real environment for a tiny baseline, and what a box in it can and cannot see."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import write_baseline, write_wheel

from harness.catalog import Baseline, Catalog
from harness.outcomes import BuildError
from harness.sandbox import venv
from harness.sandbox.base import BoxRequest
from harness.sandbox.client import MemoryClient
from harness.sandbox.venv import VenvLauncher, probe_network
from harness.settings import NO_INDEX, Settings


@pytest.fixture
def offline(settings: Settings) -> Settings:
    return replace(settings, package_index=NO_INDEX, extra_index=())


def facts_of(launcher: VenvLauncher, logs: Path) -> dict[str, str]:
    box = launcher.start(BoxRequest("s0001", 0, {}, logs))
    try:
        client = MemoryClient(box)
        client.reset()
        return {record.memory_id: record.text for record in client.snapshot_memories()}
    finally:
        box.close()


def test_a_box_is_private(
    tiny: Baseline, offline: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    launcher = VenvLauncher(tiny, offline)
    prepared = launcher.prepare()
    assert prepared["files"] == "not isolated"
    assert prepared["network"] in ("none", "host")
    seen = facts_of(launcher, tmp_path / "logs")
    assert seen["dep"] == "forty-two"
    assert "MY_API_KEY" not in seen["env"]
    assert not {"/somewhere", str(Path.cwd())} & set(seen["path"].split(os.pathsep))
    assert seen["cwd"] not in (str(Path.cwd()), str(Path.home()))
    assert seen["home"].startswith(seen["cwd"])
    assert not Path(seen["cwd"]).exists(), "the state folder outlived its box"
    assert seen["loopback"] == "reached"


def test_a_box_has_no_network_where_the_kernel_allows_it(
    tiny: Baseline, offline: Settings, tmp_path: Path
) -> None:
    launcher = VenvLauncher(tiny, offline)
    isolated = launcher.prepare()["network"] == "none"
    assert isolated == probe_network().isolated
    seen = facts_of(launcher, tmp_path / "logs")
    assert (seen["interfaces"] == "lo") == isolated
    if isolated:
        assert "unreachable" in seen["outside"]


def test_an_unchanged_baseline_is_made_once(tiny: Baseline, offline: Settings) -> None:
    said: list[str] = []
    first = venv.ensure(tiny, offline, said.append)
    made = (first.root / "ready.json").stat().st_mtime_ns
    second = venv.ensure(tiny, offline, said.append)
    assert (first.root, made) == (second.root, (second.root / "ready.json").stat().st_mtime_ns)
    assert len(said) == 1
    (tiny.home / "adapter.py").write_text((tiny.home / "adapter.py").read_text() + "\n# more\n")
    assert venv.ensure(tiny, offline, said.append).root != first.root
    assert len(said) == 2


def test_two_at_a_time_make_one(tiny: Baseline, offline: Settings) -> None:
    said: list[str] = []
    threads = [
        threading.Thread(target=venv.ensure, args=(tiny, offline, said.append)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 1


def test_what_was_left_half_made_is_made_anew(tiny: Baseline, offline: Settings) -> None:
    root = venv.ensure(tiny, offline).root
    (root / "ready.json").unlink()
    (root / "box" / "baseline" / "adapter.py").write_text("broken")
    assert (
        "class Adapter"
        in (venv.ensure(tiny, offline).root / "box" / "baseline" / "adapter.py").read_text()
    )


def test_a_lock_that_cannot_be_met_names_its_log(tmp_path: Path, offline: Settings) -> None:
    lock = f"memrig-tiny-dep==1.0 --hash=sha256:{'0' * 64}\n"
    row = Catalog([write_baseline(tmp_path / "mine", lock)], shipped=None).get("Tiny")
    with pytest.raises(BuildError, match="could not be made") as caught:
        venv.ensure(row, offline)
    assert caught.value.log is not None
    assert "memrig-tiny-dep" in caught.value.log.read_text()
    with pytest.raises(BuildError):
        venv.ensure(row, offline)


def test_another_file_under_a_permitted_name_is_refused(tiny: Baseline, offline: Settings) -> None:
    assert offline.wheel_dir is not None
    wheel = next(offline.wheel_dir.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes().replace(b"forty-two", b"forty-six"))
    with pytest.raises(BuildError):
        venv.ensure(tiny, offline)


def test_a_missing_dependency_of_a_dependency_is_found(tmp_path: Path, offline: Settings) -> None:
    """Locks are installed without resolving; that they are whole is checked afterwards."""
    assert offline.wheel_dir is not None
    lock = write_wheel(offline.wheel_dir, requires="not-locked")
    row = Catalog([write_baseline(tmp_path / "mine", lock)], shipped=None).get("Tiny")
    with pytest.raises(BuildError, match="not-locked"):
        venv.ensure(row, offline)


def test_torch_is_never_asked_of_the_package_index(tmp_path: Path, offline: Settings) -> None:
    yaml = "name: Tiny\nsummary: s\nbuild: {torch: cpu}\n"
    row = Catalog([write_baseline(tmp_path / "mine", yaml=yaml)], shipped=None).get("Tiny")
    with pytest.raises(BuildError, match=r"CPU build of torch.*--wheel-dir"):
        venv.ensure(row, offline)
