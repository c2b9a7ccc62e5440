"""One fault a bundle, of every group of the manifest and beyond it; built here, no outside data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fault_tools import Case, cp, g1, one, put, qa, turn
from faults_gold import GOLD, KEYS
from faults_history import SAMPLE, SESSION, TIMES, TURN
from faults_images import IMAGES
from faults_questions import CHECKPOINT, EVIDENCE, QUESTION
from faults_text import ENCODING, FILES, JSON
from loader_bundles import MAIN, POINTS, Break, base, png, point, renamed

from harness.loaders import open_dataset
from harness.outcomes import DataError

CASES = [
    *ENCODING, *JSON, *FILES, *SAMPLE, *SESSION, *TURN, *TIMES, *IMAGES, *GOLD, *CHECKPOINT,
    *QUESTION, *EVIDENCE, *KEYS,
]  # fmt: skip


def test_the_unspoilt_bundle_loads_without_a_warning(tmp_path: Path) -> None:
    balance = open_dataset(base().write(tmp_path)).balance
    assert balance.warnings == () and balance.left_out == ()
    assert (balance.samples, balance.sessions, balance.turns, balance.gold_points) == (1, 3, 6, 5)
    assert (balance.checkpoints, balance.questions, balance.attachments) == (1, 1, 0)


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault(case: Case, tmp_path: Path) -> None:
    bundle = base()
    case.fault(bundle)
    bundle.write(tmp_path)
    if case.expect == "fatal":
        with pytest.raises(DataError) as refused:
            open_dataset(tmp_path)
        said = str(refused.value)
    else:
        dataset = open_dataset(tmp_path)
        said = "\n".join(dataset.balance.warnings)
        assert bool(said) is (case.expect == "warning"), said
        assert case.holds is None or case.holds(one(dataset), dataset)
        assert "None" not in repr([t.text for s in one(dataset).sessions for t in s.turns])
    for text in case.says:
        assert text in said, f"{text!r} is not in:\n{said}"


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_dataset("no/such/folder")


def test_a_folder_of_no_known_format_names_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"domain_a_v2\.json[\s\S]*qa_checkpoints"):
        open_dataset(tmp_path)


def test_the_main_file_names_its_folder(tmp_path: Path) -> None:
    base().write(tmp_path)
    assert open_dataset(tmp_path / MAIN).sample_ids == ("w1",)


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    base().write(tmp_path)
    (tmp_path / POINTS).unlink()
    os.mkfifo(tmp_path / POINTS)
    with pytest.raises(DataError, match="not a regular file"):
        open_dataset(tmp_path)


def test_a_path_that_cannot_be_asked_about_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        open_dataset("x" * 5000)


def test_a_file_that_changes_or_goes_after_opening_is_noticed(tmp_path: Path) -> None:
    dataset = open_dataset(base().write(tmp_path))
    before = (tmp_path / POINTS).read_bytes()
    (tmp_path / POINTS).write_bytes(before.replace(b"boat", b"ship"))
    with pytest.raises(DataError, match="changed after"):
        one(dataset)
    (tmp_path / POINTS).unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        one(dataset)


def test_a_link_out_of_the_folder_is_never_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    outside.write_bytes(png())
    folder = tmp_path / "data"
    bundle = base()
    bundle.attach([{"caption": "van", "file_path": "v.png"}])
    bundle.write(folder)
    (folder / "v.png").symlink_to(outside)
    dataset = open_dataset(folder)
    assert "a link that leaves the data folder" in dataset.balance.warnings[0]
    assert turn(one(dataset)).images[0].path is None
    (folder / "v.png").unlink()
    (folder / "v.png").symlink_to("v.png")
    assert turn(one(open_dataset(folder))).images[0].path is None


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    bundle = base()
    bundle.turn["role"] = "customer"
    del bundle.sessions[2]["_v2_session_id"]
    bundle.stage4[0]["memory_points"][0]["is_update"] = "maybe"
    bundle.question["answer"] = None
    bundle.raw[MAIN] = json.dumps([bundle.sample, 5], indent=1).encode()
    with pytest.raises(DataError) as refused:
        open_dataset(bundle.write(tmp_path))
    said = str(refused.value)
    for text in ("'customer'", "session at 2", "'maybe'", "answer is missing", "position 1 is a"):
        assert text in said
    assert all(problem.file and problem.line for problem in refused.value.problems)


def test_the_line_of_a_fault_is_its_own(tmp_path: Path) -> None:
    bundle = base()
    bundle.turn["role"] = "customer"
    bundle.write(tmp_path)
    with pytest.raises(DataError) as refused:
        open_dataset(tmp_path)
    (problem,) = refused.value.problems
    assert problem.line is not None
    line = (tmp_path / MAIN).read_text().splitlines()[problem.line - 1]
    assert '"role": "customer"' in line


@pytest.mark.parametrize(
    "fault",
    [
        lambda b: b.stage4.append({"session_id": "S9", "memory_points": [point("x", "y")]}),
        put(g1, memory_content=""),
        put(qa, question=""),
        put(cp, questions=[]),
        lambda b: setattr(b, "point_rows", [b.points, renamed(b.points, "w9")]),
    ],
)
def test_strict_refuses_what_would_be_left_out_of_the_gold(fault: Break, tmp_path: Path) -> None:
    bundle = base()
    fault(bundle)
    bundle.write(tmp_path)
    assert open_dataset(tmp_path).balance.left_out
    with pytest.raises(DataError, match="strict"):
        open_dataset(tmp_path, strict=True)


def test_strict_takes_the_unspoilt_bundle(tmp_path: Path) -> None:
    assert open_dataset(base().write(tmp_path), strict=True).balance.questions == 1


def test_warnings_of_one_kind_are_counted_beyond_the_first_fifty(tmp_path: Path) -> None:
    bundle = base()
    bundle.sessions[1]["dialogue"] = [{"role": "User", "content": "Hi."} for _ in range(70)]
    warnings = open_dataset(bundle.write(tmp_path)).balance.warnings
    assert len(warnings) == 51
    assert warnings[-1] == "and 20 more warnings of this kind (role spelling)"
