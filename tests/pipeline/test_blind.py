"""Must show 8: data that differ only in gold and in every id make byte-identical traffic."""

from __future__ import annotations

import base64
import dataclasses
import functools
import shutil
import tempfile
from pathlib import Path

import pytest
from faulty import RecordingLauncher, image, small_sample
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import run_eval
from harness.config import EvalConfig
from harness.pipeline import blind
from harness.pipeline.blind import Blinder
from harness.samples import (
    AnswerKind,
    Checkpoint,
    Evidence,
    EvidenceKind,
    EvidenceState,
    GoldPoint,
    Image,
    Key,
    PointKeys,
    PointKind,
    Question,
    QuestionKeys,
    Sample,
    Session,
    Turn,
)

#: Stands in every id and gold field of the data under test, and may never reach a box.
MARK = "LEAK"


@functools.cache
def _file(name: str) -> Path:
    """An image file; caption runs never open it, and its name stays on the host."""
    path = Path(tempfile.mkdtemp(prefix=MARK)) / name
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    return path


texts = st.text(st.characters(codec="utf-8"), max_size=30)
spoken = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=40)
marked = st.text("abcXYZ019:-/ 中", max_size=8).map(lambda tail: MARK + tail)
maybe_time = st.none() | st.datetimes().map(lambda moment: moment.isoformat())


@st.composite
def visible_turns(draw: st.DrawFn) -> list[dict[str, object]]:
    """What a reader of one session sees."""
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant", "system", "tool"]),
                    "text": texts,
                    "name": st.none() | spoken,
                    "timestamp": st.none() | spoken,
                    "time": maybe_time,
                    "captions": st.lists(spoken, max_size=2),
                    "shown": st.booleans(),
                }
            ),
            max_size=4,
        )
    )


visible_samples = st.lists(
    st.tuples(visible_turns(), maybe_time, st.lists(spoken, max_size=2)), min_size=1, max_size=3
)


@st.composite
def disguised(draw: st.DrawFn, visible: list, place: int) -> Sample:
    """A sample with the given visible content and ids and gold of its own."""

    def mark(*more: object) -> str:
        return draw(marked) + "/".join(str(part) for part in (place, *more))

    def key() -> Key:
        return Key((mark(),), draw(st.lists(marked, max_size=1).map(tuple)))

    sessions, points, checkpoints = [], [], []
    for n, (turns, date, asked) in enumerate(visible):
        session_id = mark("session", n)
        sessions.append(
            Session(
                session_id,
                n,
                tuple(
                    Turn(
                        index,
                        str(seen["role"]),
                        str(seen["text"]),
                        name=seen["name"],
                        timestamp=seen["timestamp"],
                        time=seen["time"],
                        images=tuple(
                            Image(
                                caption,
                                image_id=mark("image", index, k),
                                shown_id=f"shown-{k}" if seen["shown"] else None,
                                path=_file(f"{MARK}{draw(st.integers(0, 9))}.png"),
                                type="image",
                            )
                            for k, caption in enumerate(seen["captions"])
                        ),
                        source_ids=tuple(
                            mark("turn", n, index) for _ in range(draw(st.integers(0, 2)))
                        ),
                    )
                    for index, seen in enumerate(turns)
                ),
                date,
                {"label": mark()},
            )
        )
        points += [
            GoldPoint(
                mark("point", n, k),
                session_id,
                mark(),
                draw(st.sampled_from(PointKind)),
                originals=draw(st.lists(marked, max_size=2).map(tuple)),
                importance=draw(st.none() | st.floats(0, 1)),
                keys=PointKeys((key(),), (key(),)) if draw(st.booleans()) else None,
                source_ids=(mark(),),
                citable=draw(st.booleans()),
                labels={mark(): mark()},
            )
            for k in range(draw(st.integers(0, 2)))
        ]
        questions = tuple(
            Question(
                mark("question", n, k),
                k,
                text,
                draw(st.sampled_from(AnswerKind)),
                draw(st.lists(marked, max_size=2).map(tuple)),
                choices=draw(st.lists(marked, max_size=3).map(tuple)),
                evidence=tuple(
                    Evidence(
                        draw(st.sampled_from(EvidenceKind)),
                        mark(),
                        draw(st.sampled_from(EvidenceState)),
                    )
                    for _ in range(draw(st.integers(0, 2)))
                ),
                keys=QuestionKeys(((key(),),)) if draw(st.booleans()) else None,
                type_id=mark(),
                type_name=mark(),
                labels={"difficulty": mark()},
            )
            for k, text in enumerate(asked)
        )
        if questions:
            checkpoints.append(Checkpoint(mark("cp", n), session_id, questions, (mark(),)))
    return Sample(
        mark("sample"),
        mark("dataset"),
        tuple(sessions),
        tuple(points),
        tuple(checkpoints),
        uuid=mark(),
        labels={"source": mark()},
    )


@st.composite
def twins(draw: st.DrawFn) -> tuple[list[Sample], list[Sample]]:
    visible = draw(st.lists(visible_samples, min_size=1, max_size=2))
    return tuple(
        [draw(disguised(content, place)) for place, content in enumerate(visible)] for _ in range(2)
    )


def traffic(samples: list[Sample], name: str) -> dict[str, list[bytes]]:
    launcher = RecordingLauncher()
    folder = Path(tempfile.mkdtemp())
    try:
        run_eval(
            EvalConfig(folder / name, "Recorded", folder / "run"),
            load_domain_bundle=lambda _: samples,
            launcher=launcher,
        )
    finally:
        shutil.rmtree(folder)
    return launcher.frames


@settings(max_examples=30, deadline=None)
@given(pair=twins())
def test_traffic_does_not_depend_on_gold_or_ids(pair: tuple[list[Sample], list[Sample]]) -> None:
    one, other = traffic(pair[0], f"{MARK}-a"), traffic(pair[1], f"{MARK}-other-name")
    assert one == other
    every = b"".join(frame for frames in one.values() for frame in frames)
    assert MARK.encode() not in every
    assert b"\\u0000" not in every
    assert len(one) == len(pair[0]) and all(len(frames) > 1 for frames in one.values())


def test_what_is_shown_does_change_the_traffic() -> None:
    """The comparison above can fail: a word of a turn, a name, an image's shown id."""
    sample = small_sample()
    before = traffic([sample], "x")
    session = sample.sessions[0]
    for change in (
        {"text": "other"},
        {"name": "Eve"},
        {"timestamp": "later"},
        {"images": (Image("caption", "hidden", "shown"),)},
    ):
        turn = dataclasses.replace(session.turns[0], **change)
        changed = dataclasses.replace(session, turns=(turn, *session.turns[1:]))
        other = dataclasses.replace(sample, sessions=(changed, *sample.sessions[1:]))
        assert traffic([other], "x") != before


def test_ordinals_indices_and_empty_turns() -> None:
    sample = small_sample()
    blinder = Blinder(sample, 6, "caption")
    turns = list(blinder.turns(sample.sessions[1]))
    assert [turn.sample_id for turn in turns] == ["s0007"] * 2
    assert [turn.turn_id for turn in turns] == ["S01:0", "S01:2"]
    assert turns[0].timestamp == "2024-01-02 10:00" and turns[0].time == "2024-01-02T10:00:00"


def test_the_way_back() -> None:
    blinder = Blinder(small_sample(), 0, "caption")
    assert blinder.reveal("S01") == "B"
    assert blinder.reveal("S01:2") == "B:2"
    assert blinder.reveal("S01:7") == "?S01:7"
    assert blinder.reveal("B") == "?B"
    shown = blinder.reveal_record({"text": "S01:2", "sources": ["S00:0"], "session_id": "S02"})
    assert shown == {"text": "S01:2", "sources": ["A:0"], "session_id": "C"}


def test_a_question_is_asked_at_its_own_time_else_at_its_sessions_last() -> None:
    sample = small_sample()
    question = sample.checkpoints[0].questions[0]
    blinder = Blinder(sample, 0, "caption")
    assert blinder.query(question, sample.sessions[0]).time == "2024-01-01T10:00:00"
    dated = dataclasses.replace(question, date="2025-05-05")
    assert blinder.query(dated, sample.sessions[0]).time == "2025-05-05"


@pytest.mark.parametrize(
    ("mode", "caption", "has_data"),
    [("caption", "a caption", False), ("file", None, True), ("both", "a caption", True)],
)
def test_images_as_the_run_gives_them(
    tmp_path: Path, mode: blind.ImageMode, caption: str | None, has_data: bool
) -> None:
    shown = dataclasses.replace(image("a.png", tmp_path), shown_id="I7")
    hidden = image("b.png", tmp_path)
    sample = _with_images(shown, hidden)
    (turn,) = Blinder(sample, 0, mode).turns(sample.sessions[0])
    assert [a.image_id for a in turn.attachments] == ["I7", None]
    assert [a.caption for a in turn.attachments] == [caption] * 2
    for attachment in turn.attachments:
        if has_data:
            assert base64.b64decode(attachment.data or "") == hidden.path.read_bytes()
            assert attachment.media_type == "image/png"
        else:
            assert attachment.data is None and attachment.media_type is None


def test_an_image_that_cannot_be_given_is_named() -> None:
    bare = Image(None, "x")
    sample = _with_images(bare)
    for mode, reason in (
        ("caption", "image_without_caption"),
        ("file", "image_without_file"),
        ("both", "image_without_file_and_caption"),
    ):
        blinder = Blinder(sample, 0, mode)
        assert blinder.lacking((bare, bare)) == (reason,)
    assert Blinder(sample, 0, "both").lacking((Image("words"),)) == ()


def test_large_sessions_travel_in_several_frames(tmp_path: Path) -> None:
    big = image("big.png", tmp_path, b"x" * (9 * 1024 * 1024))
    sample = _with_images(*([big] * 3))
    session = dataclasses.replace(
        sample.sessions[0],
        turns=tuple(dataclasses.replace(sample.sessions[0].turns[0], index=i) for i in range(3)),
    )
    sample = dataclasses.replace(sample, sessions=(session,))
    batches = list(Blinder(sample, 0, "file").batches(session))
    assert [len(batch) for batch in batches] == [1, 1, 1]
    assert [turn.turn_index for batch in batches for turn in batch] == [0, 1, 2]
    assert len(list(Blinder(sample, 0, "caption").batches(session))) == 1


def _with_images(*images: Image) -> Sample:
    turn = Turn(0, "user", "look", images=images)
    return Sample("x", "d", (Session("A", 0, (turn,)),))
