"""`memrig data`: balances as JSON and text, exit codes 0 and 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loader_bundles import base, point
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
