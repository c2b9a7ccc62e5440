"""The shipped sample set: what its gold says is said in it, and its keys can decide.

The conversations are read here without the loader, so that a fault of either shows.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.judging.match import key_in
from harness.loaders import open_dataset
from harness.samples import AnswerKind, Key, PointKind

FOLDER = Path(__file__).parents[2] / "datasets" / "sample"
MAX_IMAGE_BYTES = 10_000

#: Answers that every refusal question accepts; none of them may stand in a dialogue.
REFUSAL = "not mentioned"


@dataclass(frozen=True)
class Raw:
    """One sample as it stands in the files. ``sessions`` maps ids to turns, in order."""

    id: str
    sessions: dict[str, list[dict[str, Any]]]
    points: dict[str, list[dict[str, Any]]]
    checkpoints: list[dict[str, Any]]

    def turn_text(self, turn: dict[str, Any]) -> str:
        """What a reader of the turn sees: its text and the captions of its images."""
        captions = [image["caption"] for image in turn.get("attachments", [])]
        return "\n".join([turn["content"], *captions])

    def session_texts(self, session_id: str) -> list[str]:
        return [self.turn_text(turn) for turn in self.sessions[session_id]]

    def turns(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for session_id, turns in self.sessions.items():
            for turn in turns:
                yield session_id, turn

    def all_points(self) -> list[tuple[str, dict[str, Any]]]:
        return [(sid, point) for sid, points in self.points.items() for point in points]

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """Every question with the session that triggers it."""
        return [
            (checkpoint["covered_sessions"][-1], question)
            for checkpoint in self.checkpoints
            for question in checkpoint["questions"]
        ]

    def texts_until(self, session_id: str) -> str:
        """Everything said up to and including a session, a line a turn."""
        order = list(self.sessions)
        until = order[: order.index(session_id) + 1]
        return "\n".join(text for sid in until for text in self.session_texts(sid))

    def evidence_text(self, evidence: dict[str, str]) -> str:
        """What one piece of evidence says in the dialogue (of a point: its source turns)."""
        by_turn = {turn["turn_id"]: self.turn_text(turn) for _, turn in self.turns()}
        if "memory_id" in evidence:
            point = next(p for _, p in self.all_points() if p["memory_id"] == evidence["memory_id"])
            return "\n".join(by_turn[turn_id] for turn_id in point["source_turns"])
        if "turn_id" in evidence:
            return by_turn[evidence["turn_id"]]
        if "session_id" in evidence:
            return "\n".join(self.session_texts(evidence["session_id"]))
        captions = {
            image["image_id"]: image["caption"]
            for _, turn in self.turns()
            for image in turn.get("attachments", [])
        }
        return str(captions[evidence["image_id"]])


def _lines(name: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]
    return {row["sample_id"]: row for row in rows}


@cache
def raw_samples() -> tuple[Raw, ...]:
    beside = _lines("stage4_memory_points.jsonl")
    asked = _lines("stage4b_qa_checkpoints.jsonl")
    made = []
    for entry in json.loads((FOLDER / "domain_a_v2.json").read_text("utf-8")):
        sample_id = entry["sample_id"]
        rows = beside[sample_id]["memory_sessions"]
        points = {"S00": entry["sessions"][0]["memory_points"]}
        points |= {row["session_id"]: row["memory_points"] for row in rows}
        sessions = {s["_v2_session_id"]: s["dialogue"] for s in entry["sessions"]}
        made.append(Raw(sample_id, sessions, points, asked[sample_id]["checkpoints"]))
    return tuple(made)


def key(value: str | dict[str, list[str]]) -> Key:
    if isinstance(value, str):
        return Key((value,))
    return Key(
        tuple(value["any"]), tuple(value.get("not_before", ())), tuple(value.get("not_after", ()))
    )


def carries(keys: list[Any], text: str) -> bool:
    return all(key_in(key(entry), text) for entry in keys)


def kind_of(point: dict[str, Any]) -> PointKind:
    if point["memory_source"] == "interference":
        return PointKind.INTERFERENCE
    return PointKind.UPDATE if point["is_update"] else PointKind.NEW


each_sample = pytest.mark.parametrize("sample", raw_samples(), ids=lambda sample: sample.id)


@each_sample
def test_every_point_is_stated_whole_in_one_of_its_source_turns(sample: Raw) -> None:
    for session_id, point in sample.all_points():
        turns = {turn["turn_id"]: turn for turn in sample.sessions[session_id]}
        assert point["source_turns"], point["memory_id"]
        texts = [sample.turn_text(turns[turn_id]) for turn_id in point["source_turns"]]
        # An image's caption may stand beside the turn that shows it.
        assert any(carries(point["keys"]["must"], text) for text in texts), point


@each_sample
def test_every_points_own_sentence_carries_its_keys(sample: Raw) -> None:
    for _, point in sample.all_points():
        assert carries(point["keys"]["must"], point["memory_content"]), point


@each_sample
def test_no_points_keys_are_met_by_another_points_sentence(sample: Raw) -> None:
    """Hearsay included: a system that holds the one may not be credited with the other."""
    for _, point in sample.all_points():
        others = [p for _, p in sample.all_points() if p["memory_id"] != point["memory_id"]]
        met = [p for p in others if carries(point["keys"]["must"], p["memory_content"])]
        assert not met, (point, met)


@each_sample
def test_an_updates_old_value_is_said_before_and_its_sentence_is_free_of_it(sample: Raw) -> None:
    order = list(sample.sessions)
    earlier = {p["memory_content"]: (sid, p) for sid, p in sample.all_points()}
    for session_id, point in sample.all_points():
        if kind_of(point) is not PointKind.UPDATE:
            assert "gone" not in point["keys"]
            assert not point["original_memories"]
            continue
        assert point["original_memories"], point
        gone = point["keys"]["gone"]
        assert not carries(gone, point["memory_content"]), point
        for text in point["original_memories"]:
            old_session, old = earlier[text]
            assert order.index(old_session) < order.index(session_id), point
            assert kind_of(old) is not PointKind.INTERFERENCE
            assert carries(gone, old["memory_content"]), point
            assert any(carries(gone, said) for said in sample.session_texts(old_session)), point


@each_sample
def test_a_store_of_just_the_gold_is_graded_perfect(sample: Raw) -> None:
    """Otherwise a key would be too loose: some other true fact would trip it."""
    store: dict[str, str] = {}
    for session_id in sample.sessions:
        points = sample.points[session_id]
        for point in points:
            if kind_of(point) is PointKind.INTERFERENCE:
                continue
            for old in point["original_memories"]:
                store = {name: text for name, text in store.items() if text != old}
            store[point["memory_id"]] = point["memory_content"]
        for point in points:
            must = point["keys"]["must"]
            holders = [name for name, text in store.items() if carries(must, text)]
            if kind_of(point) is PointKind.INTERFERENCE:
                assert not holders, (point, holders)
                continue
            assert point["memory_id"] in holders
            gone = point["keys"].get("gone")
            if gone:
                stale = [name for name, text in store.items() if carries(gone, text)]
                assert not stale, (point, stale)


@each_sample
def test_every_answer_is_said_in_its_evidence_before_it_is_asked(sample: Raw) -> None:
    order = list(sample.sessions)
    for trigger, question in sample.questions():
        if question["answer_kind"] == "refusal":
            continue
        first = question["keys"]["answers"][0]
        cited = "\n".join(sample.evidence_text(e) for e in question["evidence"])
        spoken = sample.texts_until(trigger)
        # Who said it may be the answer, and names stand beside the turns, not in them.
        names = {str(turn["name"]) for _, turn in sample.turns() if "name" in turn}
        if question["question_type_abbrev"] == "SA":
            cited = "\n".join([cited, *names])
        assert question["evidence"], question
        assert carries(first, cited), question
        assert carries(first, "\n".join([spoken, *names])), question
        for evidence in question["evidence"]:
            session_id = re.search(r"S\d\d", next(iter(evidence.values())))
            assert session_id is not None
            assert order.index(session_id[0]) <= order.index(trigger), question


@each_sample
def test_gold_answers_are_correct_by_their_own_keys(sample: Raw) -> None:
    for _, question in sample.questions():
        answers = question["answer"]
        for answer in answers if isinstance(answers, list) else [answers]:
            good = [alt for alt in question["keys"]["answers"] if carries(alt, answer)]
            assert good, question
            bad = [k for k in question["keys"]["forbidden"] if key_in(key(k), answer)]
            assert not bad, (question, bad)


@each_sample
def test_refusal_questions_have_no_evidence_and_no_answer_in_the_dialogue(sample: Raw) -> None:
    spoken = sample.texts_until(list(sample.sessions)[-1])
    refusals = [q for _, q in sample.questions() if q["answer_kind"] == "refusal"]
    assert refusals
    for question in refusals:
        assert question["evidence"] == []
        assert any(carries(alt, REFUSAL) for alt in question["keys"]["answers"])
        assert not any(carries(alt, spoken) for alt in question["keys"]["answers"])


@each_sample
def test_every_forbidden_value_is_there_to_be_got_wrong(sample: Raw) -> None:
    for trigger, question in sample.questions():
        forbidden = question["keys"]["forbidden"]
        assert forbidden, question
        heard = sample.texts_until(trigger)
        heard += "\n" + "\n".join(turn.get("name", "") for _, turn in sample.turns())
        for entry in forbidden:
            assert key_in(key(entry), heard), (question, entry)
        by_id = {p["memory_id"]: p["memory_content"] for _, p in sample.all_points()}
        for text in (by_id[e["memory_id"]] for e in question["evidence"] if "memory_id" in e):
            assert not any(key_in(key(k), text) for k in forbidden), (question, text)


@each_sample
def test_ids_are_unique_within_a_sample(sample: Raw) -> None:
    turn_ids = [turn["turn_id"] for _, turn in sample.turns()]
    point_ids = [point["memory_id"] for _, point in sample.all_points()]
    image_ids = [i["image_id"] for _, t in sample.turns() for i in t.get("attachments", [])]
    checkpoint_ids = [checkpoint["checkpoint_id"] for checkpoint in sample.checkpoints]
    for ids in (turn_ids, point_ids, image_ids, checkpoint_ids):
        assert not [name for name, count in Counter(ids).items() if count > 1]


@each_sample
def test_times_move_forward_over_days_and_no_two_turns_share_one(sample: Raw) -> None:
    loaded = open_dataset(FOLDER).sample(sample.id)
    times = [turn.time for session in loaded.sessions for turn in session.turns]
    assert None not in times
    assert times == sorted(set(times), key=str)
    days = {str(time)[:10] for time in times}
    assert len(days) > len(loaded.sessions)
    for checkpoint in loaded.checkpoints:
        trigger = next(s for s in loaded.sessions if s.id == checkpoint.trigger_session)
        after = [s for s in loaded.sessions if s.position == trigger.position + 1]
        for question in checkpoint.questions:
            assert question.date is not None
            asked = datetime.fromisoformat(question.date)
            assert asked > datetime.fromisoformat(str(trigger.turns[-1].time))
            assert all(asked < datetime.fromisoformat(str(s.date)) for s in after)


def test_it_is_what_was_asked_for() -> None:
    samples = raw_samples()
    questions = [question for sample in samples for _, question in sample.questions()]
    assert len(questions) == 40
    kinds = Counter(q["answer_kind"] for q in questions)
    assert kinds == {kind.value: 24 if kind is AnswerKind.TEXT else 4 for kind in AnswerKind}
    assert "24 text, and 4 each" in (FOLDER / "README.md").read_text("utf-8")
    for question in questions:
        assert ("choices" in question) == (question["answer_kind"] == "choice")
    assert all(len(sample.sessions) == 6 for sample in samples)
    assert all(len(sample.checkpoints) >= 2 for sample in samples)
    assert all(14 <= len(turns) <= 24 for s in samples for turns in s.sessions.values())
    named = {sample.id: {t.get("name") for _, t in sample.turns()} - {None} for sample in samples}
    assert sorted(len(names) for names in named.values()) == [0, 0, 0, 2]
    cited = {field for q in questions for e in q["evidence"] for field in e}
    assert cited == {"memory_id", "turn_id", "image_id", "session_id"}


def test_every_session_has_new_facts_and_each_sample_updates_and_interference() -> None:
    for sample in raw_samples():
        for session_id, points in sample.points.items():
            assert sum(kind_of(point) is not PointKind.INTERFERENCE for point in points) >= 2, (
                sample.id,
                session_id,
            )
        kinds = Counter(kind_of(point) for _, point in sample.all_points())
        assert kinds[PointKind.UPDATE] >= 4
        assert kinds[PointKind.INTERFERENCE] >= 4


def test_some_questions_are_asked_before_and_after_the_answer_changed() -> None:
    """The same keys: right at the first checkpoint, forbidden at the second."""
    changed = 0
    for sample in raw_samples():
        first, last = (checkpoint["questions"] for checkpoint in sample.checkpoints)
        before = {json.dumps(q["keys"]["answers"][0], sort_keys=True) for q in first}
        stale = {json.dumps([k], sort_keys=True) for q in last for k in q["keys"]["forbidden"]}
        changed += len(before & stale)
    assert changed >= 2


def test_the_loader_takes_all_of_it_without_a_word() -> None:
    dataset = open_dataset(FOLDER, strict=True)
    balance = dataset.balance
    assert balance.warnings == ()
    assert balance.left_out == ()
    assert dataset.format == "domain_a_v2"
    samples = list(dataset)
    points = [point for sample in samples for point in sample.points]
    questions = [q for s in samples for checkpoint in s.checkpoints for q in checkpoint.questions]
    assert all(point.keys is not None and point.keys.must for point in points)
    assert all(question.keys is not None for question in questions)
    raw = raw_samples()
    assert len(points) == sum(len(sample.all_points()) for sample in raw)
    assert len(questions) == sum(len(sample.questions()) for sample in raw)


def test_the_readme_counts_what_is_there() -> None:
    balance = open_dataset(FOLDER).balance
    kinds = Counter(kind_of(point) for sample in raw_samples() for _, point in sample.all_points())
    counted = {
        "samples": balance.samples,
        "sessions": balance.sessions,
        "turns": balance.turns,
        "attachments": balance.attachments,
        "gold points": balance.gold_points,
        "new facts": kinds[PointKind.NEW],
        "updates": kinds[PointKind.UPDATE],
        "interference": kinds[PointKind.INTERFERENCE],
        "checkpoints": balance.checkpoints,
        "questions": balance.questions,
    }
    readme = (FOLDER / "README.md").read_text("utf-8")
    written = {name: int(n) for name, n in re.findall(r"^\| ([a-z ]+) \| (\d+) \|$", readme, re.M)}
    assert written == counted
    assert counted["turns"] >= 400
    assert counted["attachments"] >= 6
    lengths = [len(turns) for sample in raw_samples() for turns in sample.sessions.values()]
    assert f"of {min(lengths)} to {max(lengths)} turns" in readme
    for sample in raw_samples():
        asked = " + ".join(str(len(c["questions"])) for c in sample.checkpoints)
        assert re.search(rf"^\| `{sample.id}` \|.*\| {re.escape(asked)} \|$", readme, re.M)


def _size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG or JPEG, read from its own structure."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        assert data[12:16] == b"IHDR"
        assert data[-8:-4] == b"IEND"
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    assert data.startswith(b"\xff\xd8")
    assert data.endswith(b"\xff\xd9")
    place = 2
    while data[place] == 0xFF:
        marker, (length,) = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])
        if marker in (0xC0, 0xC1, 0xC2):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        place += 2 + length
    raise AssertionError("a JPEG without a frame")


def test_images_are_real_small_and_all_used() -> None:
    cited = {
        image["file_path"]
        for sample in raw_samples()
        for _, turn in sample.turns()
        for image in turn.get("attachments", [])
    }
    files = {
        p.relative_to(FOLDER).as_posix() for p in (FOLDER / "images").rglob("*") if p.is_file()
    }
    assert files == cited
    for name in files:
        data = (FOLDER / name).read_bytes()
        width, height = _size(data)
        assert width >= 100, name
        assert height >= 100, name
        assert len(data) < MAX_IMAGE_BYTES, name
    for sample in open_dataset(FOLDER):
        for session in sample.sessions:
            for turn in session.turns:
                assert all(image.path and image.media_type for image in turn.images)
