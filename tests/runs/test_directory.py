"""The run directory by itself: torn tails, locks, manifests, readers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.outcomes import ManifestMismatch, RunError, Status, VerifyError
from harness.records import QARecord, SessionRecord
from harness.runs import Manifest, Run, diff
from harness.runs.aggregates import read_aggregate
from harness.runs.directory import PIPELINE_QUESTIONS, PIPELINE_SAMPLES, PIPELINE_SESSIONS
from harness.runs.snapshots import Chain, Replay

STAGE_FILES = (PIPELINE_SESSIONS, PIPELINE_QUESTIONS, PIPELINE_SAMPLES)


def manifest(**pipeline: Any) -> Manifest:
    return Manifest(
        {"row": "X", "dataset": {"sha256": "d1"}, "top_k": 5, **pipeline},
        {"id": "keyed-1"},
        {"sessions": 3, "questions": 3},
        {"created": "today"},
    )


def record_sample(run: Run, n: int, *, attempt_text: str = "") -> None:
    with run.next_attempt(f"sample/{n}", f"s000{n}") as attempt:
        for position in range(n + 1):
            attempt.session(
                SessionRecord(f"sample/{n}", f"S{position}", position, Status.OK, turns_sent=n)
            )
        attempt.question(
            QARecord(f"sample/{n}", "cp", "S0", "q", 0, Status.OK, question="ü" + attempt_text)
        )
        run.append_sample(attempt)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    with Run.create(tmp_path / "whole", manifest()) as run:
        for n in range(3):
            record_sample(run, n)
    return tmp_path / "whole"


def test_stage_files_hold_record_lines_and_nothing_else(finished: Path) -> None:
    for name in (PIPELINE_SESSIONS, PIPELINE_QUESTIONS):
        for line in (finished / name).read_text("utf-8").splitlines():
            assert line.startswith('{"sample_id":"sample/')
    run = Run.open(finished)
    assert [r.position for r in run.sessions()] == [0, 0, 1, 0, 1, 2]
    assert [r.sample_id for r in run.questions()] == ["sample/0", "sample/1", "sample/2"]
    assert {entry.name for entry in (finished / "attempts").iterdir()} == {
        f"s000{n}_sample-{n}" for n in range(3)
    }


def resumed_after_cut(whole: Path, name: str, size: int, scratch: Path) -> list[str]:
    """Cut one file, resume, do what is missing; the samples that survived the cut."""
    if scratch.exists():
        shutil.rmtree(scratch)
    scratch.mkdir()
    shutil.copy(whole / "manifest.json", scratch)
    for stage_file in STAGE_FILES:
        data = (whole / stage_file).read_bytes()
        (scratch / stage_file).write_bytes(data[:size] if stage_file == name else data)
    reader = Run.open(scratch)
    with Run.resume(scratch, manifest()) as run:
        kept = [entry.sample_id for entry in run.finished]
        assert [entry.sample_id for entry in reader.finished] == kept
        for stage_file in STAGE_FILES:
            assert (whole / stage_file).read_bytes().startswith((scratch / stage_file).read_bytes())
        for n in range(3):
            if f"sample/{n}" not in kept:
                record_sample(run, n)
    return kept


def test_a_tail_torn_anywhere_is_cut_back_to_whole_samples(finished: Path, tmp_path: Path) -> None:
    """Offsets all over the files, closest in the last block and its end marker."""
    order = [f"sample/{n}" for n in range(3)]
    whole = Run.open(finished)
    for name in STAGE_FILES:
        size = (finished / name).stat().st_size
        last = size - (size // 4 if name == PIPELINE_SAMPLES else 900)
        for offset in [*range(0, last, 211), *range(last, size, 13), size - 1]:
            kept = resumed_after_cut(finished, name, offset, tmp_path / "cut")
            assert kept == order[: len(kept)] and len(kept) < 3
            assert diff(whole, Run.open(tmp_path / "cut")).equal


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damage_anywhere_is_found_and_done_again(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    with Run.create(folder / "whole", manifest()) as run:
        for n in range(3):
            record_sample(run, n)
    name = data.draw(st.sampled_from(STAGE_FILES))
    content = bytearray((folder / "whole" / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    shutil.copytree(folder / "whole", folder / "hurt")
    (folder / "hurt" / name).write_bytes(content)
    try:
        Run.resume(folder / "hurt", manifest()).close()
    except RunError as error:
        assert name == PIPELINE_SAMPLES and "more follows it" in str(error)
        assert (folder / "hurt" / name).read_bytes() == bytes(content)
        return
    with Run.resume(folder / "hurt", manifest()) as run:
        assert len(run.finished) < 3
        for n in range(3):
            if not run.is_finished(f"sample/{n}"):
                record_sample(run, n)
    assert diff(Run.open(folder / "whole"), Run.open(folder / "hurt")).equal


def bytes_of(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in STAGE_FILES}


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_damaged_marker_before_others_is_refused_and_nothing_is_cut(finished: Path) -> None:
    flip(finished / PIPELINE_SAMPLES, 20)
    before = bytes_of(finished)
    with pytest.raises(RunError, match=r"line 1 is no end marker(.|\n)*another --output-dir"):
        Run.resume(finished, manifest())
    with pytest.raises(RunError, match="memrig verify"):
        Run.rejudge(finished, manifest().with_judge({"id": "keyed-2"}))
    assert bytes_of(finished) == before
    assert Manifest.read(finished).judge == {"id": "keyed-1"}


def test_what_a_resumed_run_cuts_is_set_aside_and_a_judge_cuts_nothing(finished: Path) -> None:
    flip(finished / PIPELINE_SAMPLES, (finished / PIPELINE_SAMPLES).stat().st_size - 9)
    before = bytes_of(finished)
    with pytest.raises(RunError, match="after the last end marker"):
        Run.rejudge(finished, manifest())
    assert bytes_of(finished) == before
    with Run.resume(finished, manifest()) as run:
        assert len(run.finished) == 2
    for name, data in before.items():
        kept = (finished / name).read_bytes()
        assert kept + (finished / "logs" / f"cut-1-{name}").read_bytes() == data


def test_a_refused_folder_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for refused in (Run.create, Run.resume, Run.rejudge):
        with pytest.raises(RunError):
            refused(tmp_path, manifest())
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_record_of_a_newer_memrig_is_named(finished: Path) -> None:
    path = finished / PIPELINE_SESSIONS
    path.write_text(path.read_text("utf-8").replace('"schema_version":1', '"schema_version":9'))
    with pytest.raises(RunError, match=r"schema version 9; .*newer memrig"):
        list(Run.open(finished).sessions())
    with pytest.raises(RunError, match=r"schema version 9; .*newer memrig"):
        list(Run.open(finished).judged(PIPELINE_SESSIONS))


@pytest.mark.parametrize("text", ["[]", '"x"', "{}", "[" * 200_000, '{"schema_version": 9}'])
def test_an_aggregate_that_is_none_is_refused_with_what_mends_it(finished: Path, text: str) -> None:
    (finished / "aggregate_metrics.json").write_text(text)
    with pytest.raises(RunError, match=r"memrig aggregate .* makes it anew"):
        read_aggregate(finished)


def test_an_unequal_manifest_is_not_resumed_into(finished: Path) -> None:
    with pytest.raises(ManifestMismatch) as caught:
        Run.resume(finished, manifest(dataset={"sha256": "d2"}))
    assert "pipeline.dataset.sha256" in str(caught.value)
    assert "'d1'" in str(caught.value) and "'d2'" in str(caught.value)
    other_judge = manifest().with_judge({"id": "keyed-2"})
    with pytest.raises(ManifestMismatch, match=r"judge\.id(.|\n)*--eval-only"):
        Run.resume(finished, other_judge)
    with Run.resume(finished, other_judge, rejudge=True) as run:
        assert run.manifest.judge == {"id": "keyed-2"}
    assert Manifest.read(finished).judge == {"id": "keyed-2"}
    with Run.resume(finished, replace(other_judge, about={"created": "tomorrow"})):
        pass


def test_a_manifest_changed_by_hand_is_refused(finished: Path) -> None:
    path = finished / "manifest.json"
    path.write_text(path.read_text().replace('"top_k": 5', '"top_k": 6'))
    with pytest.raises(RunError, match="changed after it was written"):
        Run.open(finished)


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"holds thesis\.tex"):
        Run.create(tmp_path, manifest())
    with pytest.raises(RunError, match="no run directory"):
        Run.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        Run.create(tmp_path / "file", manifest())
    with Run.create(tmp_path / "new", manifest()), pytest.raises(RunError, match="another memrig"):
        Run.start(tmp_path / "new", manifest())


def test_only_the_writer_writes(finished: Path) -> None:
    with pytest.raises(RunError, match="reading only"):
        Run.open(finished).next_attempt("x", "s0009")
    with Run.resume(finished, manifest()) as run, pytest.raises(RunError, match="recorded already"):
        record_sample(run, 0)


def test_attempts_are_numbered_and_kept(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", manifest()) as run:
        numbers = []
        for _ in range(3):
            with run.next_attempt("../../etc/passwd", "s0001") as attempt:
                numbers.append(attempt.number)
                assert attempt.folder.resolve().is_relative_to((tmp_path / "run").resolve())
    assert numbers == [1, 2, 3]


def test_the_first_boxs_hello_is_kept_and_another_is_named(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", manifest()) as run:
        assert run.greet({"python": "3.11", "packages": {"a": "1"}}) is None
        assert run.greet({"python": "3.11", "packages": {"a": "1"}}) is None
        assert "packages" in (run.greet({"python": "3.11", "packages": {"a": "2"}}) or "")


# Snapshots

items = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y"])),
    unique_by=lambda pair: pair[0],
    max_size=8,
).map(lambda pairs: [{"memory_id": key, "text": text} for key, text in pairs])


@given(st.lists(st.tuples(items, st.booleans()), max_size=6))
def test_a_chain_of_snapshots_comes_back_as_it_was(
    chain: list[tuple[list[dict[str, Any]], bool]],
) -> None:
    writer, reader = Chain(), Replay()
    for snapshot, whole in chain:
        record = writer.add(snapshot, whole=whole)
        assert (record.items is not None) == whole
        assert reader.next(record) == snapshot


@given(st.lists(items, min_size=2, max_size=4), st.data())
def test_a_broken_chain_is_noticed(chain: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    writer = Chain()
    records = [writer.add(snapshot, whole=False) for snapshot in chain]
    lost = data.draw(st.integers(0, len(records) - 2))
    if not (records[lost].changed or records[lost].removed):
        return  # nothing is lost with it
    reader = Replay()
    left = records[:lost] + records[lost + 1 :]
    after = [s for n, s in enumerate(chain) if n != lost]
    for record, snapshot in zip(left, after, strict=True):
        try:
            found = reader.next(record)
        except VerifyError:
            return
        assert found == snapshot, "accepted a snapshot that was not"
