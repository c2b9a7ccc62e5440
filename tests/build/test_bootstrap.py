"""`make engine`: what it plans, what it refuses, what it records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from cli.engine import engine as engine_command
from harness.bootstrap import Bootstrap, Plan
from harness.outcomes import EngineError, UsageError
from harness.settings import Settings


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A path with nothing on it but what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_on_a_bare_debian_machine_it_says_all_it_will_do(bare: Path, settings: Settings) -> None:
    program(bare, "apt-get", "exit 0")
    program(bare, "apt-cache", "exit 100")
    plan = Bootstrap(settings, print).plan()
    assert plan.install[0] == "docker.io"
    assert "mmdebstrap" in plan.install
    assert plan.needs_root
    said = "\n".join(plan.lines)
    for word in ("apt-get update", "docker.io", "start the docker daemon", "base image"):
        assert word in said


def test_elsewhere_it_says_so(bare: Path, settings: Settings) -> None:
    with pytest.raises(EngineError, match="no apt-get"):
        Bootstrap(settings, print).plan()


def test_without_root_nothing_is_begun(bare: Path, settings: Settings) -> None:
    with pytest.raises(UsageError, match="sudo make engine"):
        Bootstrap(settings, print, root=False).carry_out(Plan(engine=True, install=("docker.io",)))
    assert not settings.work_dir.exists()


def test_without_a_terminal_it_needs_a_yes(bare: Path, tmp_path: Path) -> None:
    program(bare, "apt-get", "exit 0")
    program(bare, "apt-cache", "exit 100")
    app = Typer()
    app.command()(engine_command)
    done = CliRunner().invoke(app, [], env={"MEMRIG_WORK_DIR": str(tmp_path / "work")})
    assert isinstance(done.exception, UsageError)
    assert "YES=1" in str(done.exception)
    assert "docker.io" in done.stderr
    assert not (tmp_path / "work").exists()


def test_a_failing_installation_shows_its_end_and_its_log(bare: Path, settings: Settings) -> None:
    program(bare, "apt-get", 'echo "E: no such luck: $1"; exit 100')
    with pytest.raises(EngineError, match=r"no such luck: update(.|\n)*engine\.log") as caught:
        Bootstrap(settings, lambda line: None).carry_out(Plan(install=("docker.io",)))
    log = settings.work_dir / "logs" / "engine.log"
    assert str(log) in str(caught.value)
    assert "$ apt-get update" in log.read_text()


def test_a_daemon_that_does_not_start_shows_its_end(bare: Path, settings: Settings) -> None:
    program(bare, "dockerd", "echo cannot make a bridge; exit 1")
    with pytest.raises(EngineError, match=r"cannot make a bridge(.|\n)*dockerd\.log"):
        Bootstrap(settings, lambda line: None).carry_out(Plan(engine=True))


@pytest.mark.docker
def test_where_all_is_there_it_does_nothing(settings: Settings) -> None:
    known = replace(settings, origins={**settings.origins, "build_network_host": "memrig engine"})
    said: list[str] = []
    bootstrap = Bootstrap(known, said.append)
    plan = bootstrap.plan()
    assert plan == Plan()
    assert plan.lines == []
    bootstrap.carry_out(plan)
    assert said == []
    assert not (settings.work_dir / "engine.toml").exists()


@pytest.mark.docker
def test_what_it_found_out_is_used_by_later_commands(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network of builds is tried out for real, once; a recorded base image is kept."""
    for name in ("MEMRIG_BUILD_NETWORK_HOST", "MEMRIG_BASE_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    settings.work_dir.mkdir()
    (settings.work_dir / "engine.toml").write_text(
        f'[build]\nbase_image = "{settings.base_image}"\n'
    )
    mine = Settings.load({"work_dir": settings.work_dir}, root=tmp_path)
    bootstrap = Bootstrap(mine, lambda line: None)
    assert bootstrap.plan() == Plan(probe=True)
    bootstrap.carry_out(bootstrap.plan())
    later = Settings.load({"work_dir": settings.work_dir}, root=tmp_path)
    assert later.base_image == settings.base_image
    assert later.origins["build_network_host"] == "memrig engine"
    assert Bootstrap(later, print).plan() == Plan()
