"""`memrig clean` takes what nobody owns, asks first, and leaves the rest."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.clean import Item, environments, remove_all, running_commands, stray_boxes
from cli.main import app
from harness.outcomes import UsageError
from harness.sandbox.engine import BoxInfo
from harness.settings import Settings

runner = CliRunner()


def test_environments_in_use_are_left_alone(tmp_path: Path) -> None:
    settings = Settings.load({"work_dir": tmp_path})
    assert environments(settings) == []
    used, unused = tmp_path / "venvs" / "used-1", tmp_path / "venvs" / "unused-2"
    for root in (used, unused):
        (root / "venv").mkdir(parents=True)
    (tmp_path / "venvs" / "used-1.lock").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", str(used / "venv" / "python")],
        stdin=subprocess.PIPE,
    )
    try:
        while not any(str(used) in line for line in running_commands()):
            time.sleep(0.01)  # the kernel shows a program's words a moment after its start
        assert [item.what for item in environments(settings)] == ["environment unused-2"]
        assert remove_all(environments(settings), yes=True)
    finally:
        process.communicate()
    assert used.is_dir()
    assert not unused.exists()
    assert [item.what for item in environments(settings)] == ["environment used-1"]


def test_without_a_terminal_nothing_goes_unasked(tmp_path: Path) -> None:
    gone: list[str] = []
    with pytest.raises(UsageError, match="--yes"):
        remove_all([Item("a thing", lambda: gone.append("a"))], yes=False)
    assert gone == []


def test_one_that_cannot_be_removed_does_not_stop_the_others() -> None:
    gone: list[str] = []

    def fail() -> None:
        raise PermissionError(13, "Permission denied")

    from typer import Exit

    with pytest.raises(Exit) as ended:
        remove_all([Item("a", fail), Item("b", lambda: gone.append("b"))], yes=True)
    assert ended.value.exit_code == 1
    assert gone == ["b"]


class Boxes:
    """An engine that has containers and takes them away."""

    def __init__(self, *boxes: BoxInfo) -> None:
        self.boxes = list(boxes)

    def list_boxes(self) -> list[BoxInfo]:
        return list(self.boxes)

    def remove(self, box: str) -> None:
        self.boxes = [info for info in self.boxes if info.id != box]


def box(name: str, *, orphan: bool) -> BoxInfo:
    return BoxInfo(name, name, "img", "exited", "run", "BM25", "1:2:3", "today", orphan)


def test_only_containers_without_an_owner_are_named_and_removed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = Boxes(box("stray", orphan=True), box("live", orphan=False))
    assert remove_all(stray_boxes(engine), yes=True)  # type: ignore[arg-type]
    assert [info.name for info in engine.boxes] == ["live"]
    shown = capsys.readouterr().out
    assert "container stray of BM25 (exited)" in shown
    assert "live" not in shown


@pytest.fixture
def strays() -> Iterator[dict[str, str]]:
    """Two containers that were made and never started: one of a dead process, one of this one."""
    from harness.sandbox import ownership
    from harness.sandbox.engine import Engine

    engine = Engine.detect()
    assert engine is not None
    images = engine.images({})
    if not images:
        pytest.skip("the engine has no image to make a container of")
    mark = uuid.uuid4().hex[:8]
    mine = ownership.owner_labels()
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    pid = int(dead.stdout)
    boot = mine[ownership.OWNER].rpartition(":")[2]
    theirs = {**mine, ownership.OWNER: f"{pid}:1:{boot}"}
    made = {}
    for name, labels in (("live", mine), ("stray", theirs)):
        options = [f"--name=memrig-test-{name}-{mark}"]
        options += [f"--label={key}={value}" for key, value in labels.items()]
        made[name] = engine.create(str(images[0]["Id"]), options, ["true"])
    yield made
    for box in made.values():
        engine.remove(box)
    engine.close()


@pytest.mark.docker
def test_containers_of_dead_owners_go_and_those_of_live_ones_stay(strays: dict[str, str]) -> None:
    from harness.sandbox.engine import Engine

    done = runner.invoke(app, ["clean", "--yes"])
    assert done.exit_code == 0, done.output
    assert "memrig-test-live" not in done.output
    engine = Engine.detect()
    assert engine is not None
    with engine:
        assert engine.state(strays["stray"]) is None
        assert engine.state(strays["live"]) is not None
