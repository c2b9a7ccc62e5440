"""One JSON a sample: the same sample comes out as from the three files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from loader_bundles import Bundle, base, png

from harness.loaders import open_dataset
from harness.outcomes import DataError


def arena(bundle: Bundle, **fields: Any) -> dict[str, Any]:
    """A bundle of three files as one sample object, without a uuid."""
    made = {
        "sample_id": bundle.sample["sample_id"],
        "sessions": bundle.sessions,
        "memory_points": bundle.stage4,
        "qa_checkpoints": bundle.checkpoints["checkpoints"],
    }
    return made | fields


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_one_file_says_what_three_files_say(tmp_path: Path) -> None:
    three = open_dataset(base().write(tmp_path / "three"))
    one = open_dataset(write(tmp_path / "w1.json", arena(base())))
    assert (one.format, one.name) == ("worldmemarena", "w1")
    assert dataclasses.replace(one.balance, warnings=()) == three.balance
    ours, theirs = one.sample("w1"), three.sample("w1")
    assert ours.points == theirs.points and ours.points[0].session_id == "S00"
    assert ours.sessions == theirs.sessions and ours.checkpoints == theirs.checkpoints
    assert ours.uuid is None


def test_a_folder_is_read_in_order_of_its_paths(tmp_path: Path) -> None:
    bundle = base()
    image = {"caption": "van", "image_id": "i1", "file_path": "images/b/v.png"}
    bundle.turn["attachments"] = [image]
    write(tmp_path / "lifelong/b.json", arena(bundle, sample_id="b"))
    (tmp_path / "lifelong/images/b").mkdir(parents=True)
    (tmp_path / "lifelong/images/b/v.png").write_bytes(png())
    write(tmp_path / "agent/gui/a.json", arena(base(), sample_id="a"))
    write(tmp_path / "small_ids.json", ["a"])
    dataset = open_dataset(tmp_path)
    assert dataset.sample_ids == ("a", "b")
    assert dataset.sample("a").labels == {"subcategory": "agent/gui"}
    found = dataset.sample("b").sessions[1].turns[0].images[0]
    assert found.path is not None and found.media_type == "image/png"
    assert [(e.what, e.where.split(",")[0]) for e in dataset.balance.left_out] == [("file", "")]
    assert "small_ids.json" in dataset.balance.left_out[0].reason


def test_an_image_path_may_not_leave_the_opened_folder(tmp_path: Path) -> None:
    bundle = base()
    bundle.turn["attachments"] = [{"caption": "van", "file_path": "../../v.png"}]
    (tmp_path / "v.png").write_bytes(png())
    write(tmp_path / "data/x/w1.json", arena(bundle))
    dataset = open_dataset(tmp_path / "data")
    assert "leaves the data folder" in dataset.balance.warnings[0]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sample_id": None}, "sample_id is missing"),
        ({"sample_id": "../x"}, "could leave a folder"),
        ({"sessions": []}, "no sessions"),
        ({"memory_points": {}}, "memory_points: an object, expected a list"),
        ({"qa_checkpoints": {}}, "an object, expected a list"),
    ],
)
def test_refused(fields: dict[str, Any], says: str, tmp_path: Path) -> None:
    write(tmp_path / "w1.json", arena(base(), **fields))
    with pytest.raises(DataError, match=says):
        open_dataset(tmp_path)


def test_one_id_in_two_files_and_a_broken_file_are_named_at_once(tmp_path: Path) -> None:
    write(tmp_path / "a.json", arena(base()))
    write(tmp_path / "b.json", arena(base()))
    (tmp_path / "c.json").write_text('{"sessions": [', encoding="utf-8")
    with pytest.raises(DataError) as refused:
        open_dataset(tmp_path)
    said = str(refused.value)
    assert "'w1' stands in a.json and in b.json" in said
    assert "c.json:1:" in said


def test_missing_gold_is_warned_about(tmp_path: Path) -> None:
    write(tmp_path / "w1.json", arena(base(), memory_points=None, qa_checkpoints=None))
    dataset = open_dataset(tmp_path)
    assert any("no gold points" in warning for warning in dataset.balance.warnings)
    assert any("no checkpoints" in warning for warning in dataset.balance.warnings)
    assert [p.id for p in dataset.sample("w1").points] == ["g0"]
