"""Each line of doctor: what it finds, and that a line that is not well names what mends it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from cli.doctor import doctor
from harness.catalog import Catalog
from harness.doctor import Check, examine, healthy
from harness.settings import NO_INDEX, Settings

EVERYTHING = {
    "python", "uv", "git", "engine", "base image", "memory limit", "venv network", "disk",
    "package index", "CPU torch", "keys", "baselines",
}  # fmt: skip


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without docker, podman or git on its path."""
    monkeypatch.setenv("PATH", str(tmp_path))


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.mark.usefixtures("nothing_installed")
def test_without_an_engine_it_warns_and_says_what_to_do(settings: Settings) -> None:
    found = by_name(examine(replace(settings, package_index=NO_INDEX), Catalog(shipped=None), {}))
    assert set(found) == EVERYTHING
    assert (found["engine"].state, found["engine"].fix) == ("warn", "make engine")
    assert "venv" in found["engine"].found
    assert found["memory limit"].state == "warn"
    assert found["git"].fix == "apt-get install git"
    assert healthy(list(found.values())), "a venv can run systems, so this is no failure"
    assert all(check.fix for check in found.values() if check.state != "ok")


@pytest.mark.usefixtures("nothing_installed")
def test_keys_are_named_and_never_shown(settings: Settings) -> None:
    env = {"OPENAI_API_KEY": "sk-very-secret", "HOME": "/root", "EMPTY_API_KEY": ""}
    checks = examine(replace(settings, package_index=NO_INDEX), Catalog(shipped=None), env)
    found = by_name(checks)["keys"].found
    assert "OPENAI_API_KEY" in found
    assert "EMPTY_API_KEY" not in found
    assert "sk-very-secret" not in str(checks)


@pytest.mark.usefixtures("nothing_installed")
def test_an_index_that_does_not_answer_and_a_broken_baseline_fail(
    settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "more" / "Half"
    folder.mkdir(parents=True)
    (folder / "baseline.yaml").write_text("name: Half\n")
    dead = replace(settings, package_index="http://127.0.0.1:9/simple")
    found = by_name(examine(dead, Catalog([folder], shipped=None), {}))
    assert found["package index"].state == "fail"
    assert "MEMRIG_PACKAGE_INDEX" in str(found["package index"].fix)
    assert found["baselines"].state == "fail"
    assert str(folder / "baseline.yaml") in found["baselines"].found
    assert not healthy(list(found.values()))


@pytest.mark.usefixtures("nothing_installed")
def test_what_was_not_picked_up_is_said(settings: Settings) -> None:
    noted = replace(settings, package_index=NO_INDEX, notes=("PIP_INDEX_URL is not used",))
    checks = examine(noted, Catalog(shipped=None), {})
    assert Check("settings", "warn", "PIP_INDEX_URL is not used") in checks


@pytest.mark.usefixtures("nothing_installed")
def test_json_for_programs(tmp_path: Path) -> None:
    app = Typer()
    app.command()(doctor)
    env = {"MEMRIG_WORK_DIR": str(tmp_path), "MEMRIG_PACKAGE_INDEX": "http://127.0.0.1:9/simple"}
    done = CliRunner().invoke(app, ["--json"], env=env)
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert report["ok"] is False
    assert {check["name"] for check in report["checks"]} >= EVERYTHING
    index = next(row for row in report["settings"] if row["field"] == "package_index")
    assert index["origin"] == "MEMRIG_PACKAGE_INDEX"
    plain = CliRunner().invoke(app, [], env=env)
    assert "mend: make engine" in plain.stdout


@pytest.mark.docker
def test_a_memory_limit_is_tried_and_not_believed(settings: Settings) -> None:
    found = by_name(examine(replace(settings, package_index=NO_INDEX), Catalog(shipped=None), {}))
    assert found["engine"].state == "ok"
    assert found["base image"].state == "ok"
    assert found["memory limit"] == Check(
        "memory limit", "ok", "a container over its limit was killed"
    )
