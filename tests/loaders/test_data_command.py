"""`memrig data`: balances as JSON and text, exit codes 0 and 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loader_bundles import base, point
from test_worldmemarena import arena
from typer.testing import CliRunner

from cli.main import app

runner = CliRunner()


def test_a_balance_as_json(tmp_path: Path) -> None:
    bundle = base()
    bundle.stage4.append({"session_id": "S9", "memory_points": [point("x", "y")]})
    done = runner.invoke(app, ["data", "check", str(bundle.write(tmp_path)), "--json"])
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    counts = {name: said[name] for name in ("samples", "sessions", "turns", "attachments")}
    assert counts == {"samples": 1, "sessions": 3, "turns": 6, "attachments": 0}
    assert (said["gold_points"], said["checkpoints"], said["questions"]) == (6, 1, 1)
    assert said["format"] == "domain_a_v2" and len(said["sha256"]) == 64
    assert len(said["warnings"]) == 1
    (entry,) = said["left_out"]
    assert entry["what"] == "gold point" and "'S9'" in entry["reason"]


def test_a_balance_for_people(tmp_path: Path) -> None:
    done = runner.invoke(app, ["data", "check", str(base().write(tmp_path / "vans"))])
    assert done.exit_code == 0
    assert "vans (domain_a_v2) loads." in done.stdout
    assert "gold points" in done.stdout


@pytest.mark.parametrize("as_json", [True, False])
def test_refused_data_end_in_2_with_every_reason(as_json: bool, tmp_path: Path) -> None:
    bundle = base()
    bundle.turn["role"] = "customer"
    bundle.question["answer"] = None
    arguments = ["data", "check", str(bundle.write(tmp_path)), *(["--json"] if as_json else [])]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 2
    if as_json:
        reasons = json.loads(done.stdout)["error"]
        assert len(reasons) == 2 and "'customer'" in reasons[0]
    else:
        assert done.stdout == ""
        assert "'customer'" in done.stderr and "answer is missing" in done.stderr
        assert "Traceback" not in done.stderr


def test_strict(tmp_path: Path) -> None:
    bundle = base()
    bundle.question["question"] = " "
    folder = str(bundle.write(tmp_path))
    assert runner.invoke(app, ["data", "check", folder]).exit_code == 0
    assert runner.invoke(app, ["data", "check", folder, "--strict"]).exit_code == 2


def test_a_missing_folder_is_refused() -> None:
    done = runner.invoke(app, ["data", "check", "no/such/folder", "--json"])
    assert done.exit_code == 2
    assert "no such file or folder" in json.loads(done.stdout)["error"][0]


def test_list() -> None:
    said = json.loads(runner.invoke(app, ["data", "list", "--json"]).stdout)
    assert [row["format"] for row in said["formats"]][:2] == ["domain_a_v2", "worldmemarena"]
    assert "memrig-sample" in [row["name"] for row in said["datasets"]]
    assert "not yet run on the real files" in runner.invoke(app, ["data", "list"]).stdout


def _json_of(path: Path, exit_code: int) -> dict[str, Any]:
    done = runner.invoke(app, ["data", "check", str(path), "--json"])
    assert done.exit_code == exit_code, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    assert (exit_code == 2) == ("error" in said)
    json.dumps(said, ensure_ascii=False).encode()  # can be written again as UTF-8
    return said


@pytest.mark.parametrize("place", ["", "bund\udcffle", "\udcffsub/one.json", "\udcff.json"])
def test_names_that_are_not_utf8(place: str, tmp_path: Path) -> None:
    if place.endswith(".json"):
        target = tmp_path / "data" / place
        target.parent.mkdir(parents=True)
        value = arena(base())
        target.write_text(json.dumps(value), encoding="utf-8")
        folder = tmp_path / "data"
    else:
        folder = base().write(tmp_path / place)
    said = _json_of(folder, 0)
    assert said["sha256"] == _json_of(folder, 0)["sha256"]
    if place and not place.endswith(".json"):
        assert said["name"] == "bund\\udcffle"


def test_a_broken_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "\udcff.json").write_text('{"sample_id": "x", "sessions": [', encoding="utf-8")
    assert _json_of(tmp_path, 2)["error"]


@pytest.mark.parametrize("name", ["x" * 300, "nowhere", "\udcff"])
def test_a_path_that_cannot_be_looked_at(name: str, tmp_path: Path) -> None:
    assert _json_of(tmp_path / name, 2)["error"]
    assert _json_of(Path(name), 2)["error"]


def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    """In a process of its own, which gives up being root where it is."""
    folder = base().write(tmp_path / "vans")
    folder.chmod(0)
    code = (
        "import os, sys, cli.main, harness.loaders.cards, harness.loaders, harness.forecast\n"
        "import harness.loaders.worldmemarena, harness.loaders.domain_a_v2\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        f"cli.main.app(['data', 'check', {folder.name!r}, '--json'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        folder.chmod(0o755)
    assert done.returncode == 2, done.stderr
    assert "Permission denied" in json.loads(done.stdout)["error"][0]
