"""A judge is one file; its id changes exactly when its verdicts may."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import pytest

from harness.judging import gold_found, keyed, load_preset, match, preset_names
from harness.judging.preset import preset_from
from harness.outcomes import DataError, UnknownName

LOCK = Path(__file__).parent / "judge_code.json"
CODE = ("match.py", "numerals.py", "keyed.py", "gold_found.py", "refusal.py", "sources.py")


def test_the_presets_that_ship() -> None:
    assert preset_names() == ["gold_found", "keyed"]
    for name in preset_names():
        preset = load_preset(name)
        assert preset.name == name and preset.id.startswith(f"{name}-") and preset.title


TEXT = "name: mine\nkind: keyed\ntitle: My judge\nsettings: {refusals: ['no idea']}\n"


def test_another_judge_is_one_more_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT, encoding="utf-8")
    preset = load_preset(str(file))
    assert preset.name == "mine" and preset.id.startswith("mine-")


def test_the_id_is_a_hash_of_what_decides() -> None:
    same = preset_from(TEXT + "summary: other words\n", file="x")
    other = preset_from(TEXT.replace("no idea", "dunno"), file="x")
    assert preset_from(TEXT, file="x").id == same.id != other.id


@pytest.mark.parametrize(
    "text",
    [
        "name: x\n",
        "[]",
        "name: [",
        TEXT + "unknown: 1\n",
        TEXT.replace("kind: keyed", "kind: oracle"),
        TEXT.replace("['no idea']", "7"),
    ],
)
def test_what_is_no_preset_is_refused_by_name(text: str) -> None:
    with pytest.raises(DataError, match=r"bad\.yaml|refusals"):
        preset_from(text, file="bad.yaml")


def test_unknown_names() -> None:
    with pytest.raises(UnknownName, match="keyed"):
        load_preset("keyd")
    with pytest.raises(DataError, match="no such judge preset"):
        load_preset("nowhere/mine.yaml")


def test_judging_code_has_not_changed_unnoticed() -> None:
    """If this fails: count up the VERSION of what can now give another verdict, then write the new
    hashes into judge_code.json (the failure shows them).
    """
    folder = resources.files("harness.judging")
    now = {
        "versions": {
            "match": match.VERSION,
            "keyed": keyed.VERSION,
            "gold_found": gold_found.VERSION,
        },
        "sha256": {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16] for name in CODE
        },
    }
    assert now == json.loads(LOCK.read_text()), json.dumps(now, indent=2)


@pytest.mark.parametrize("text", ["settings: &a [*a]\n", "name: " + "[" * 20_000])
def test_a_preset_that_would_blow_up_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"bad\.yaml:1: (anchors|nested)"):
        preset_from(text, file="bad.yaml")
