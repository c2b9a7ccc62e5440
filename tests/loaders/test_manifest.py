"""The 76 one-fault bundles and five whole ones of the outside data, each behaviour by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.loaders import open_dataset
from harness.outcomes import DataError
from harness.samples import (
    AnswerKind,
    Dataset,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    PointKind,
    Question,
    Sample,
    Turn,
)

pytestmark = pytest.mark.data

MAIN = "domain_a_v2.json"
POINTS = "stage4_memory_points.jsonl"
CHECKPOINTS = "stage4b_qa_checkpoints.jsonl"

#: Byte for byte the bundle of ``ev_future``, for which the manifest wants a warning; the evidence
#: that comes too late is left out of a denominator, and that is never silent.
CONTRADICTED = {"cp_window": "ev_future"}

REFUSED: dict[str, tuple[str, ...]] = {
    "enc_utf16": (MAIN, "not UTF-8", "UTF-16"),
    "enc_lone_surrogate": (f"{MAIN}:36:", "sample 'm1'", "session 'S01'", "turn 0", "surrogate"),
    "json_truncated_line": (f"{CHECKPOINTS}:1:", "truncated"),
    "json_nan": (f"{POINTS}:1:", "NaN"),
    "json_array_in_jsonl": (f"{POINTS}:1:", "a JSON array, expected one object a line"),
    "json_main_is_object": (MAIN, "expected an array of samples"),
    "json_main_empty_array": (MAIN, "no samples"),
    "file_missing_two": (f"{POINTS}: the file is missing", f"{CHECKPOINTS}: the file is missing"),
    "sample_duplicate": ("'m1'", "positions 0 and 1"),
    "sample_id_path": ("'../../etc/x'", "could leave a folder"),
    "sample_without_rows": (f"{POINTS}: ", f"{CHECKPOINTS}: ", "the samples 'm1', 'm2'"),
    "sample_two_stage4_rows": (POINTS, "'m1'", "lines 1 and 2"),
    "sample_no_sessions": ("sample 'm1'", "no sessions"),
    "sess_no_id": (MAIN, "sample 'm1'", "the session at 1 is missing"),
    "sess_duplicate_id": ("sample 'm1'", "'S01'", "positions 1 and 2"),
    "sess_dialogue_object": ("sample 'm1'", "session 'S01'", "an object, expected a list"),
    "turn_not_object": (f"{MAIN}:39:", "sample 'm1'", "session 'S01'", "position 1 is text"),
    "turn_role_missing": ("sample 'm1'", "session 'S01'", "turn 0", "role is missing"),
    "turn_role_unknown": (f"{MAIN}:35:", "session 'S01'", "turn 0", "'customer'"),
    "gold_is_update_word": (f"{POINTS}:1:", "point 'p2'", "'maybe'"),
    "gold_same_id_other_text": ("'p1'", "'S01'", "'S02'", "two texts"),
    "gold_points_not_list": ("sample 'm1'", "session 'S01'", "an object, expected a list"),
    "cp_unknown_session": ("checkpoint 'c1'", "'S09'"),
    "cp_duplicate_id": ("checkpoint id 'c1'", "positions 0 and 1"),
    "qa_answer_null": ("checkpoint 'c1'", "question 0", "answer is missing"),
}


def one(dataset: Dataset) -> Sample:
    return dataset.sample("m1")


def turn(dataset: Dataset) -> Turn:
    """The first turn of S01, which most faults of turns spoil."""
    return one(dataset).sessions[1].turns[0]


def point(dataset: Dataset, name: str) -> GoldPoint:
    return next(p for p in one(dataset).points if p.id == name)


def question(dataset: Dataset) -> Question:
    return one(dataset).checkpoints[0].questions[0]


def left(dataset: Dataset, what: str) -> list[str]:
    return [f"{e.where}: {e.reason}" for e in dataset.balance.left_out if e.what == what]


def warned(dataset: Dataset, *texts: str) -> bool:
    said = "\n".join(dataset.balance.warnings)
    return all(text in said for text in texts)


def evidence(dataset: Dataset) -> list[tuple[EvidenceKind, str, EvidenceState]]:
    return [(e.kind, e.id, e.state) for e in question(dataset).evidence]


def stamped(raw: str, iso: str | None) -> Callable[[Dataset], bool]:
    return lambda d: (turn(d).timestamp, turn(d).time) == (raw, iso)


def is_base(dataset: Dataset) -> bool:
    """The unspoilt bundle, by every count, kind and text."""
    sample, balance = one(dataset), dataset.balance
    counts = (balance.sessions, balance.turns, balance.gold_points, balance.checkpoints)
    kinds = [(p.id, p.session_id, p.kind.value) for p in sample.points]
    texts = [t.text for session in sample.sessions for t in session.turns]
    return (
        counts == (3, 6, 4, 1)
        and kinds
        == [
            ("p0", "S00", "new"),
            ("p1", "S01", "new"),
            ("p2", "S02", "update"),
            ("p3", "S02", "interference"),
        ]
        and texts[0] == "My name is Tove."
        and texts[-1] == "Blue now."
        and not any("\r" in text or "\ufeff" in text for text in texts)
        and question(dataset).answers == ("Blue",)
        and sample.checkpoints[0].trigger_session == "S02"
    )


def updated(kind: PointKind) -> Callable[[Dataset], bool]:
    return lambda d: point(d, "p2").kind is kind


RESOLVED, UNRESOLVED, FUTURE = EvidenceState
POINT = EvidenceKind.POINT

HOLDS: dict[str, Callable[[Dataset], bool]] = {
    "ok_base": is_base,
    "enc_bom": is_base,
    "enc_crlf": is_base,
    "enc_no_final_newline": is_base,
    "enc_nul": lambda d: "\x00" in turn(d).text and warned(d, "NUL", "'S01'"),
    "sample_uuid_mismatch": lambda d: is_base(d) and warned(d, "'u1'", "'other'", POINTS),
    "sess_out_of_order": lambda d: (
        [s.id for s in one(d).sessions] == ["S00", "S01", "S02"]
        and len(d.balance.warnings) == 1
        and warned(d, "go back", "'S02'")
    ),
    "turn_blank_content": lambda d: (
        turn(d).is_empty
        and d.balance.turns == 6
        and len(left(d, "turn")) == 1
        and one(d).sessions[1].turns[1].index == 1
    ),
    "turn_content_number": lambda d: turn(d).text == "640" and warned(d, "'640'"),
    "turn_role_variants": lambda d: (
        [t.role for s in one(d).sessions for t in s.turns] == ["user", "assistant"] * 3
        and warned(d, "'User'", "'ASSISTANT'", "'human'", "'ai'")
    ),
    "turn_same_role_twice": lambda d: (
        [(t.index, t.role) for t in one(d).sessions[1].turns][:2] == [(0, "user"), (1, "user")]
    ),
    "turn_very_long": lambda d: len(turn(d).text) >= 200_000,
    "ts_iso_off": stamped("2025-01-02T10:00:00+08:00", "2025-01-02T10:00:00+08:00"),
    "ts_halumem": stamped("Jan 02, 2025, 10:00:00", "2025-01-02T10:00:00"),
    "ts_locomo": stamped("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
    "ts_longmemeval": stamped("2023/05/30 (Tue) 21:56", "2023-05-30T21:56:00"),
    "ts_epoch": stamped("1735812000", "2025-01-02T10:00:00+00:00"),
    "ts_null": lambda d: (turn(d).timestamp, turn(d).time) == (None, None),
    "ts_garbage": lambda d: stamped("soon", None)(d) and len(d.balance.warnings) == 1,
    "ts_impossible": lambda d: (
        stamped("2025-02-30T10:00:00", None)(d) and len(d.balance.warnings) == 1
    ),
    "att_null": lambda d: turn(d).images == () and d.balance.attachments == 0,
    "att_object": lambda d: [i.caption for i in turn(d).images] == ["a red bike"],
    "att_lfs_pointer": lambda d: (
        turn(d).images[0].path is None
        and turn(d).images[0].caption == "a red bike"
        and warned(d, "LFS")
    ),
    "att_url": lambda d: (
        turn(d).images[0].path is None
        and turn(d).images[0].caption == "a red bike"
        and warned(d, "nothing is fetched")
    ),
    "att_duplicate_image_id": lambda d: (
        d.balance.attachments == 2
        and [i.image_id for s in one(d).sessions for t in s.turns for i in t.images] == ["i1", "i1"]
        and warned(d, "'i1'")
    ),
    "gold_is_update_str_True": updated(PointKind.UPDATE),
    "gold_is_update_str_False": updated(PointKind.NEW),
    "gold_is_update_str_false": updated(PointKind.NEW),
    "gold_is_update_empty": updated(PointKind.NEW),
    "gold_is_update_int0": updated(PointKind.NEW),
    "gold_is_update_null": updated(PointKind.NEW),
    "gold_source_unknown": lambda d: (
        point(d, "p2").kind is not PointKind.INTERFERENCE and warned(d, "'dialogue'")
    ),
    "gold_interference_update": lambda d: (
        [p.kind for p in one(d).points].count(PointKind.UPDATE) == 1
        and point(d, "p3").kind is PointKind.INTERFERENCE
    ),
    "gold_update_no_original": lambda d: (
        point(d, "p2").kind is PointKind.UPDATE
        and not point(d, "p2").in_update_handling
        and len(left(d, "update handling")) == 1
    ),
    "gold_no_id": lambda d: (
        [(p.id, p.citable) for p in one(d).points][1] == ("m1/S01/0", False)
        and warned(d, "m1/S01/0")
    ),
    "gold_unknown_session": lambda d: (
        (d.balance.gold_points, len(one(d).points)) == (5, 4)
        and "'S09'" in left(d, "gold point")[0]
    ),
    "gold_s00_in_stage4": lambda d: is_base(d),
    "gold_s00_in_both": lambda d: (
        point(d, "p0").text == "The user's name is Tove"
        and len(left(d, "gold point")) == 1
        and warned(d, "p0", "win")
    ),
    "cp_window": lambda d: (
        [c.id for c in one(d).checkpoints_after("S01")] == ["c1"]
        and one(d).checkpoints_after("S02") == ()
        and all("checkpoint" not in e.what for e in d.balance.left_out)
    ),
    "cp_unordered_repeated": lambda d: (
        one(d).checkpoints[0].covered == ("S00", "S02")
        and [c.id for c in one(d).checkpoints_after("S02")] == ["c1"]
        and one(d).checkpoints_after("S00") == ()
    ),
    "cp_no_questions": lambda d: (
        one(d).checkpoints == ()
        and d.balance.checkpoints == 1
        and len(left(d, "checkpoint")) == 1
        and d.balance.questions == 0
    ),
    "qa_duplicate_question": lambda d: (
        [(q.position, q.text) for q in one(d).checkpoints[0].questions]
        == [(0, "What colour is the bike?"), (1, "What colour is the bike?")]
        and len({q.id for q in one(d).checkpoints[0].questions}) == 2
    ),
    "qa_answer_int": lambda d: question(d).answers == ("15",),
    "qa_answer_list": lambda d: (
        question(d).answers == ("Blue", "navy") and question(d).answer_kind is AnswerKind.VARIANTS
    ),
    "qa_answer_bool": lambda d: question(d).answers == ("false",) and warned(d, "'false'"),
    "ev_unknown": lambda d: (
        evidence(d) == [(POINT, "p2", RESOLVED), (POINT, "p77", UNRESOLVED)]
        and "unresolved" in left(d, "evidence")[0]
    ),
    "ev_text": lambda d: evidence(d) == [(POINT, "p2", RESOLVED)],
    "ev_future": lambda d: (
        evidence(d) == [(POINT, "p2", FUTURE)] and "future" in left(d, "evidence")[0]
    ),
    "ev_interference": lambda d: (
        evidence(d) == [(POINT, "p3", RESOLVED)] and warned(d, "'p3' is interference")
    ),
    "ev_null": lambda d: evidence(d) == [],
    "ev_duplicate": lambda d: evidence(d) == [(POINT, "p2", RESOLVED)] and warned(d, "twice"),
}

#: samples, sessions, turns, images, gold points (S00 + stage4), checkpoints, questions: the table
#: of the folder's README.
BALANCES = {
    "seed_example": (1, 2, 4, 1, 1 + 1, 1, 1),
    "synthetic_full": (2, 8, 20, 3, 5 + 11, 4, 11),
    "user_memory_8": (8, 16, 1396, 0, 0 + 24, 8, 8),
    "locomo_conv30": (1, 19, 369, 72, 0 + 169, 2, 105),
    "mem_gallery_dog": (1, 11, 360, 38, 0 + 0, 1, 63),
}


@pytest.fixture(scope="module")
def folder(test_data: Path) -> Path:
    return test_data / "domain_a_v2"


def manifest(folder: Path) -> list[dict[str, str]]:
    cases: list[dict[str, str]] = json.loads((folder / "malformed/manifest.json").read_text())[
        "cases"
    ]
    return cases


def test_every_case_of_the_manifest_has_its_check(folder: Path) -> None:
    cases = {case["id"]: case["expect"] for case in manifest(folder)}
    assert {name for name, expect in cases.items() if expect == "fatal"} == set(REFUSED)
    assert {name for name, expect in cases.items() if expect != "fatal"} == set(HOLDS)
    assert len(cases) == len(REFUSED) + len(HOLDS) == 76


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, folder: Path) -> None:
    with pytest.raises(DataError) as refused:
        open_dataset(folder / "malformed" / name)
    for text in REFUSED[name]:
        assert text in str(refused.value)


@pytest.mark.parametrize("name", HOLDS)
def test_loads(name: str, folder: Path) -> None:
    expect = {case["id"]: case["expect"] for case in manifest(folder)}[name]
    dataset = open_dataset(folder / "malformed" / name)
    if name not in CONTRADICTED:
        assert bool(dataset.balance.warnings) is (expect == "warning"), dataset.balance.warnings
    assert HOLDS[name](dataset)
    assert "None" not in repr([t.text for s in one(dataset).sessions for t in s.turns])


@pytest.mark.parametrize(("name", "twin"), CONTRADICTED.items())
def test_the_contradiction_in_the_manifest_is_one(name: str, twin: str, folder: Path) -> None:
    for file in (MAIN, POINTS, CHECKPOINTS):
        ours, theirs = (folder / "malformed" / n / file for n in (name, twin))
        assert ours.read_bytes() == theirs.read_bytes()


def test_equal_content_has_an_equal_hash_and_other_bytes_another(folder: Path) -> None:
    names = ("ok_base", "enc_bom", "enc_crlf", "enc_no_final_newline")
    opened = [open_dataset(folder / "malformed" / name) for name in names]
    assert len({dataset.content_sha256 for dataset in opened}) == 1
    assert len({dataset.sha256 for dataset in opened}) == len(opened)


def test_strict_refuses_points_of_an_unknown_session(folder: Path) -> None:
    with pytest.raises(DataError, match="'S09'"):
        open_dataset(folder / "malformed/gold_unknown_session", strict=True)


@pytest.mark.parametrize("name", BALANCES)
def test_balance_of_a_whole_bundle(name: str, folder: Path) -> None:
    dataset = open_dataset(folder / name)
    b = dataset.balance
    counts = (b.samples, b.sessions, b.turns, b.attachments, b.gold_points, b.checkpoints)
    assert (*counts, b.questions) == BALANCES[name]
    assert b.left_out == ()
    samples = list(dataset)
    assert sum(len(s.turns) for sample in samples for s in sample.sessions) == b.turns
    assert sum(len(sample.points) for sample in samples) == b.gold_points


def test_synthetic_full_is_read_as_its_readme_says(folder: Path) -> None:
    dataset = open_dataset(folder / "synthetic_full")
    english = dataset.sample("syn_en_01")
    kinds = {p.id: p.kind.value for p in english.points}
    assert kinds["mp_S04_1"] == "update" and kinds["mp_S04_2"] == "new"
    assert kinds["mp_S01_3"] == "interference"
    images = [i for s in english.sessions for t in s.turns for i in t.images]
    assert [i.media_type for i in images] == ["image/png"] * 3
    assert english.sessions[3].turns == ()
    assert english.sessions[0].date == "2025-01-06T09:00:00"
    visual = english.checkpoints[1].questions[1]
    assert [(e.kind.value, e.id, e.state.value) for e in visual.evidence] == [
        ("image", "S02_img_2", "resolved")
    ]
    assert dataset.sample("syn_zh_01").points[2].text.startswith("林晓雨周三下午三点")


def test_locomo_speakers_turns_and_refusals(folder: Path) -> None:
    (sample,) = open_dataset(folder / "locomo_conv30")
    first = sample.sessions[0].turns[0]
    assert (first.name, first.role, first.source_ids) == ("Gina", "assistant", ("D1:1",))
    questions = [q for c in sample.checkpoints for q in c.questions]
    refused = [q for q in questions if q.answer_kind is AnswerKind.REFUSAL]
    assert len(refused) == 24
    assert {q.type_id for q in refused} == {"ADV"}
    assert sample.points[0].source_ids == ("D1:3",)


def test_mem_gallery_keeps_turn_and_image_evidence_and_opens_no_file_outside(folder: Path) -> None:
    dataset = open_dataset(folder / "mem_gallery_dog")
    (sample,) = dataset
    pieces = [e for c in sample.checkpoints for q in c.questions for e in q.evidence]
    assert {e.kind.value for e in pieces} == {"turn", "image"}
    assert all(e.state is EvidenceState.RESOLVED for e in pieces)
    assert dataset.balance.question_attachments == 21
    assert all(i.path is None for s in sample.sessions for t in s.turns for i in t.images)


def test_user_memory_answers_are_rubrics(folder: Path) -> None:
    dataset = open_dataset(folder / "user_memory_8")
    kinds = {q.answer_kind for s in dataset for c in s.checkpoints for q in c.questions}
    assert kinds == {AnswerKind.RUBRIC}


SHOW_HASHES = """
import sys
from pathlib import Path
from harness.loaders import open_dataset
for folder in sys.argv[1:]:
    print(open_dataset(Path(folder)).content_sha256)
"""


def test_the_hosts_time_zone_changes_nothing(folder: Path) -> None:
    names = [f"malformed/{name}" for name in HOLDS if name.startswith("ts_")]
    folders = [str(folder / name) for name in (*names, *BALANCES)]
    said = set()
    for zone in ("UTC", "Asia/Shanghai", "America/St_Johns"):
        done = subprocess.run(
            [sys.executable, "-c", SHOW_HASHES, *folders],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
