"""One fault a bundle, of every group of the manifest and beyond it; built here, no outside data."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loader_bundles import (
    CHECKPOINTS,
    MAIN,
    POINTS,
    Break,
    Bundle,
    base,
    lines,
    png,
    point,
    renamed,
)

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


@dataclass(frozen=True)
class Case:
    """``says``: texts that the refusal or the warnings must hold. ``holds``: what must come out."""

    name: str
    fault: Break
    expect: str
    says: tuple[str, ...] = ()
    holds: Callable[[Sample, Dataset], bool] | None = None


def one(dataset: Dataset) -> Sample:
    return dataset.sample(dataset.sample_ids[0])


def turn(sample: Sample) -> Turn:
    return sample.sessions[1].turns[0]


def gold(sample: Sample, name: str = "g1") -> GoldPoint:
    return next(p for p in sample.points if p.id == name)


def question(sample: Sample) -> Question:
    return sample.checkpoints[0].questions[0]


def left(dataset: Dataset, what: str) -> int:
    return sum(entry.what == what for entry in dataset.balance.left_out)


def put(target: Callable[[Bundle], dict[str, Any]], **fields: Any) -> Break:
    """Set fields of one object; a value of ``...`` removes the field."""

    def fault(bundle: Bundle) -> None:
        for name, value in fields.items():
            if value is ...:
                target(bundle).pop(name, None)
            else:
                target(bundle)[name] = value

    return fault


def raw(name: str, change: Callable[[bytes], bytes | None]) -> Break:
    """Change the bytes of one file."""

    def fault(bundle: Bundle) -> None:
        bundle.raw[name] = change(bundle.files()[name])

    return fault


def do(*steps: Callable[[Bundle], Any]) -> Break:
    def fault(bundle: Bundle) -> None:
        for step in steps:
            step(bundle)

    return fault


def the_turn(bundle: Bundle) -> dict[str, Any]:
    return bundle.turn


def the_session(bundle: Bundle) -> dict[str, Any]:
    return bundle.sessions[1]


def g1(bundle: Bundle) -> dict[str, Any]:
    return bundle.stage4[0]["memory_points"][0]


def g2(bundle: Bundle) -> dict[str, Any]:
    return bundle.stage4[1]["memory_points"][0]


def cp(bundle: Bundle) -> dict[str, Any]:
    return bundle.checkpoint


def qa(bundle: Bundle) -> dict[str, Any]:
    return bundle.question


def the_sample(bundle: Bundle) -> dict[str, Any]:
    return bundle.sample


def spoil(name: str, old: bytes, new: bytes) -> Break:
    def change(content: bytes) -> bytes:
        assert content.count(old) >= 1
        return content.replace(old, new, 1)

    return raw(name, change)


def same(sample: Sample, dataset: Dataset) -> bool:
    """As the unspoilt bundle: the content hash is that of the base."""
    return dataset.balance.gold_points == 5 and turn(sample).text == "My van is green."


ENCODING = [
    Case("bad_utf8", spoil(MAIN, b"My van", b"M\xff van"), "fatal", (MAIN, "not UTF-8", "0xff")),
    Case(
        "latin1_jsonl",
        spoil(POINTS, b"boat", b"b\xe9at"),
        "fatal",
        (f"{POINTS}:1:", "not UTF-8"),
    ),
    Case(
        "utf16_jsonl",
        raw(POINTS, lambda c: c.decode().encode("utf-16")),
        "fatal",
        (POINTS, "UTF-16"),
    ),
    Case(
        "utf16_without_mark",
        raw(MAIN, lambda c: c.decode().encode("utf-16-le")),
        "fatal",
        (MAIN, "UTF-16"),
    ),
    Case("utf32", raw(MAIN, lambda c: c.decode().encode("utf-32")), "fatal", (MAIN, "UTF-32")),
    Case(
        "bom_between_lines",
        raw(POINTS, lambda c: c + b"\xef\xbb\xbf" + c),
        "fatal",
        (f"{POINTS}:2:", "byte order mark"),
    ),
    Case(
        "bom_inside_text",
        put(the_turn, content="My\ufeff van"),
        "accept",
        (),
        lambda s, d: turn(s).text == "My\ufeff van",
    ),
    Case("cr_only_main", raw(MAIN, lambda c: c.replace(b"\n", b"\r")), "accept", (), same),
    Case(
        "cr_only_rows",
        raw(POINTS, lambda c: c.replace(b"\n", b"\r") * 2),
        "fatal",
        (f"{POINTS}:1:", "CR only"),
    ),
    Case(
        "line_separator_in_text",
        put(the_turn, content="a\u2028b\u2029c\x85d"),
        "accept",
        (),
        lambda s, d: turn(s).text == "a\u2028b\u2029c\x85d",
    ),
    Case(
        "line_separator_in_row",
        put(g1, memory_content="a\u2028b"),
        "accept",
        (),
        lambda s, d: gold(s).text == "a\u2028b",
    ),
    Case("blank_lines", raw(POINTS, lambda c: b"\n \t\r\n" + c + b"\n\n"), "accept", (), same),
    Case(
        "surrogate_pair",
        spoil(MAIN, b"My van", b"My \\ud83d\\ude80"),
        "accept",
        (),
        lambda s, d: turn(s).text.startswith("My \U0001f680"),
    ),
    Case(
        "surrogate_in_row",
        spoil(CHECKPOINTS, b"Yellow", b"\\udc00"),
        "fatal",
        (f"{CHECKPOINTS}:1:", "checkpoint 'q1', question 0, answer", "surrogate", "udc00"),
    ),
    Case("surrogate_in_key", spoil(MAIN, b'"timestamp"', b'"\\ud800"'), "fatal", ("surrogate",)),
    Case(
        "escaped_backslash_u",
        spoil(MAIN, b"My van", b"\\\\ud83d"),
        "accept",
        (),
        lambda s, d: turn(s).text.startswith("\\ud83d"),
    ),
    Case("raw_control_in_text", spoil(MAIN, b"My van", b"My\x01van"), "fatal", (MAIN, "control")),
    Case(
        "nul_in_question",
        put(qa, question="What\x00 colour?"),
        "warning",
        ("NUL", "question"),
        lambda s, d: question(s).text == "What\x00 colour?",
    ),
]

JSON = [
    Case(
        "duplicate_key",
        spoil(POINTS, b'"importance": 0.8', b'"memory_id": "x"'),
        "fatal",
        (f"{POINTS}:1:", "'memory_id' stands twice"),
    ),
    Case(
        "duplicate_key_line",
        spoil(MAIN, b'"content": "A green van."', b'"role": "user"'),
        "fatal",
        (MAIN, "'role' stands twice"),
    ),
    Case("infinity", spoil(POINTS, b"0.8", b"-Infinity"), "fatal", (f"{POINTS}:1:", "-Infinity")),
    Case("overflow", spoil(POINTS, b"0.8", b"1e999"), "fatal", (f"{POINTS}:1:", "too large")),
    Case("too_many_digits", spoil(POINTS, b"0.8", b"9" * 5000), "fatal", ("too many digits",)),
    Case(
        "huge_integer",
        spoil(POINTS, b"0.8", b"9" * 400),
        "warning",
        ("importance",),
        lambda s, d: gold(s).importance is None,
    ),
    Case(
        "deep_nesting",
        spoil(POINTS, b"0.8", b"[" * 200 + b"]" * 200),
        "fatal",
        (f"{POINTS}:1:", "nested deeper"),
    ),
    Case(
        "very_deep_nesting",
        spoil(POINTS, b"0.8", b"[" * 50_000 + b"]" * 50_000),
        "fatal",
        (f"{POINTS}:1:", "nested deeper"),
    ),
    Case(
        "very_deep_main",
        spoil(MAIN, b'"w-1"', b"[" * 50_000 + b"]" * 50_000),
        "fatal",
        (f"{MAIN}:3:", "nested deeper"),
    ),
    Case("empty_main", raw(MAIN, lambda c: b""), "fatal", (MAIN, "empty")),
    Case("blank_main", raw(MAIN, lambda c: b" \n\n"), "fatal", (MAIN, "empty")),
    Case("empty_rows", raw(POINTS, lambda c: b""), "fatal", (POINTS, "no rows", "'w1'")),
    Case(
        "trailing_comma_in_array",
        raw(MAIN, lambda c: c.rstrip()[:-1] + b",]"),
        "fatal",
        (MAIN, "trailing comma"),
    ),
    Case("trailing_comma_in_object", spoil(POINTS, b"0.8}", b"0.8,}"), "fatal", (f"{POINTS}:1:",)),
    Case(
        "missing_comma",
        do(
            lambda b: setattr(b, "samples", [b.sample, b.sample]),
            spoil(MAIN, b" },\n {", b" }\n {"),
        ),
        "fatal",
        (MAIN,),
    ),
    Case("after_the_array", raw(MAIN, lambda c: c + b"{}"), "fatal", (MAIN, "goes on after")),
    Case("wrong_bracket", raw(MAIN, lambda c: c.rstrip()[:-1] + b"}"), "fatal", (MAIN,)),
    Case("truncated_main", raw(MAIN, lambda c: c[: len(c) // 2]), "fatal", (MAIN, "truncated")),
    Case("main_is_number", raw(MAIN, lambda c: b"7"), "fatal", ("expected an array of samples",)),
    Case(
        "main_is_jsonl",
        do(lambda b: b.raw.update({MAIN: lines(b.sample)})),
        "fatal",
        ("expected an array of samples",),
    ),
    Case("array_row", raw(POINTS, lambda c: c + b"[]\n"), "fatal", (f"{POINTS}:2:", "array")),
    Case(
        "null_row",
        raw(POINTS, lambda c: c + b"null\n"),
        "fatal",
        (f"{POINTS}:2:", "null, expected one object a line"),
    ),
    Case(
        "two_objects_a_line",
        raw(POINTS, lambda c: c.rstrip() + c),
        "fatal",
        (f"{POINTS}:1:", "more than one JSON value"),
    ),
    Case("comment", raw(POINTS, lambda c: b"// rows\n" + c), "fatal", (f"{POINTS}:1:",)),
    Case(
        "two_bad_lines",
        raw(POINTS, lambda c: b"{\n" + c + b"nope\n"),
        "fatal",
        (f"{POINTS}:1:", f"{POINTS}:3:"),
    ),
]

FILES = [
    Case("one_missing", raw(POINTS, lambda c: None), "fatal", (POINTS, "missing")),
    Case("main_missing", raw(MAIN, lambda c: None), "fatal", (MAIN, "missing")),
    Case(
        "folder_for_file",
        do(raw(POINTS, lambda c: None), lambda b: b.more.update({f"{POINTS}/x": b""})),
        "fatal",
        (POINTS, "not a regular file"),
    ),
]

SAMPLE = [
    Case("no_id", put(the_sample, sample_id=...), "fatal", ("position 0", "missing")),
    Case("null_id", put(the_sample, sample_id=None), "fatal", ("position 0", "missing")),
    Case("blank_id", put(the_sample, sample_id="  "), "fatal", ("position 0", "blank")),
    Case("number_id", put(the_sample, sample_id=7), "fatal", ("position 0", "a number")),
    Case("nul_id", put(the_sample, sample_id="a\x00b"), "fatal", ("control",)),
    Case("backslash_id", put(the_sample, sample_id="..\\x"), "fatal", ("could leave a folder",)),
    Case("dots_id", put(the_sample, sample_id=".."), "fatal", ("could leave a folder",)),
    Case("long_id", put(the_sample, sample_id="x" * 300), "fatal", ("longer than",)),
    Case("long_chinese_id", put(the_sample, sample_id="文" * 100), "fatal", ("longer than",)),
    Case(
        "not_object",
        lambda b: setattr(b, "samples", [b.sample, "x", None]),
        "fatal",
        ("position 1 is text", "position 2 is null"),
    ),
    Case("sessions_null", put(the_sample, sessions=None), "fatal", ("'w1'", "no sessions")),
    Case("sessions_object", put(the_sample, sessions={"S00": 1}), "fatal", ("'w1'", "an object")),
    Case(
        "identical_rows",
        lambda b: setattr(b, "point_rows", [b.points, b.points]),
        "warning",
        ("same row twice", "lines 1 and 2"),
        same,
    ),
    Case(
        "rows_equal_but_for_order",
        lambda b: setattr(b, "point_rows", [b.points, dict(reversed(b.points.items()))]),
        "warning",
        ("same row twice",),
        same,
    ),
    Case(
        "two_qa_rows",
        lambda b: setattr(
            b, "checkpoint_rows", [b.checkpoints, b.checkpoints | {"checkpoints": []}]
        ),
        "fatal",
        (CHECKPOINTS, "lines 1 and 2"),
    ),
    Case(
        "row_of_unknown_sample",
        lambda b: setattr(b, "point_rows", [b.points, renamed(b.points, "w9")]),
        "warning",
        ("'w9'", "its sample is not in"),
        lambda s, d: d.balance.gold_points == 9 and left(d, "gold point") == 4,
    ),
    Case(
        "checkpoints_of_unknown_sample",
        lambda b: setattr(b, "checkpoint_rows", [b.checkpoints, renamed(b.checkpoints, "w9")]),
        "warning",
        ("'w9'",),
        lambda s, d: (
            (d.balance.questions, left(d, "question")) == (2, 1) and left(d, "checkpoint") == 1
        ),
    ),
    Case(
        "ids_differ_in_case",
        do(
            lambda b: setattr(b, "samples", [b.sample, renamed(b.sample, "W1")]),
            lambda b: setattr(b, "point_rows", [b.points, renamed(b.points, "W1")]),
            lambda b: setattr(b, "checkpoint_rows", [b.checkpoints, renamed(b.checkpoints, "W1")]),
        ),
        "warning",
        ("'w1'", "'W1'", "only in case"),
        lambda s, d: d.sample_ids == ("w1", "W1"),
    ),
    Case("no_uuid", put(the_sample, uuid=...), "accept", (), lambda s, d: s.uuid is None),
    Case(
        "unknown_fields",
        put(the_sample, gold="secret"),
        "accept",
        (),
        lambda s, d: s.labels == {"gold": "secret"},
    ),
    Case(
        "no_memory_sessions",
        lambda b: b.points.update(memory_sessions=None),
        "warning",
        ("no gold points",),
        lambda s, d: [p.id for p in s.points] == ["g0"],
    ),
]

SESSION = [
    Case(
        "session_blank_id", put(the_session, _v2_session_id=" "), "fatal", ("session at 1", "blank")
    ),
    Case("session_number_id", put(the_session, _v2_session_id=1), "fatal", ("a number",)),
    Case(
        "session_not_object",
        lambda b: b.sessions.insert(1, "x"),
        "fatal",
        ("session 1", "text, expected an object"),
    ),
    Case(
        "same_session_twice",
        lambda b: b.sessions.append(copy.deepcopy(b.sessions[1])),
        "fatal",
        ("'S01'", "positions 1 and 3"),
    ),
    Case(
        "dialogue_null",
        put(the_session, dialogue=None),
        "warning",
        ("'S01'", "still ends"),
        lambda s, d: s.sessions[1].turns == () and len(s.sessions) == 3,
    ),
    Case("dialogue_missing", put(the_session, dialogue=...), "warning", ("still ends",)),
    Case(
        "dialogue_empty",
        put(the_session, dialogue=[]),
        "accept",
        (),
        lambda s, d: s.sessions[1].turns == () and d.balance.sessions == 3,
    ),
    Case(
        "session_extra_fields",
        put(the_session, secret={"gold": 1}),
        "accept",
        (),
        lambda s, d: s.sessions[1].labels == {"secret": {"gold": 1}},
    ),
    Case(
        "session_own_date",
        do(put(the_session, date="2025-03-02"), put(the_turn, timestamp=...)),
        "accept",
        (),
        lambda s, d: s.sessions[1].date == "2025-03-02",
    ),
]

TURN = [
    Case(
        "content_null",
        put(the_turn, content=None),
        "warning",
        ("turn 0", "empty content"),
        lambda s, d: (
            turn(s).is_empty
            and turn(s).text == ""
            and left(d, "turn") == 1
            and s.sessions[1].turns[1].index == 1
        ),
    ),
    Case("content_missing", put(the_turn, content=...), "warning", ("empty content",)),
    Case(
        "content_bool",
        put(the_turn, content=True),
        "warning",
        ("a boolean",),
        lambda s, d: turn(s).text == "true",
    ),
    Case("content_object", put(the_turn, content={"a": 1}), "fatal", ("turn 0", "an object")),
    Case(
        "content_blocks",
        put(
            the_turn,
            content=[{"type": "text", "text": "My van"}, {"type": "text", "text": "is green."}],
        ),
        "warning",
        ("blocks",),
        lambda s, d: turn(s).text == "My van\nis green.",
    ),
    Case(
        "content_image_block",
        put(
            the_turn,
            content=[
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "x"}},
            ],
        ),
        "warning",
        ("image_url",),
        lambda s, d: (
            turn(s).text == "Look" and (d.balance.attachments, left(d, "attachment")) == (1, 1)
        ),
    ),
    Case(
        "content_unknown_block",
        put(the_turn, content=["Look", {"type": "sound"}, 4]),
        "warning",
        ("'sound'",),
        lambda s, d: left(d, "content block") == 2,
    ),
    Case("role_null", put(the_turn, role=None), "fatal", ("turn 0", "role is missing")),
    Case("role_number", put(the_turn, role=3), "fatal", ("unknown role a number",)),
    Case(
        "role_tool", put(the_turn, role="tool"), "accept", (), lambda s, d: turn(s).role == "tool"
    ),
    Case(
        "name_number", put(the_turn, name=4), "warning", ("name",), lambda s, d: turn(s).name == "4"
    ),
    Case(
        "name_object",
        put(the_turn, name={}),
        "warning",
        ("name",),
        lambda s, d: turn(s).name is None,
    ),
    Case("name_null", put(the_turn, name=None), "accept", (), lambda s, d: turn(s).name is None),
    Case(
        "gold_in_turn",
        put(the_turn, has_answer=True, gold="green"),
        "accept",
        (),
        lambda s, d: "green" not in repr(turn(s)).replace("My van is green.", ""),
    ),
    Case(
        "blank_with_image",
        do(put(the_turn, content=""), lambda b: b.attach([{"caption": "a green van"}])),
        "accept",
        (),
        lambda s, d: not turn(s).is_empty,
    ),
    Case(
        "two_source_ids",
        put(the_turn, turn_id="D1:1", dia_id="7"),
        "accept",
        (),
        lambda s, d: turn(s).source_ids == ("D1:1", "7"),
    ),
]

TIMES = [
    Case(
        "time_bool",
        put(the_turn, timestamp=True),
        "warning",
        ("timestamp",),
        lambda s, d: (turn(s).timestamp, turn(s).time) == ("true", None),
    ),
    Case("time_object", put(the_turn, timestamp={"y": 1}), "warning", ("timestamp",)),
    Case(
        "time_blank",
        put(the_turn, timestamp=" "),
        "accept",
        (),
        lambda s, d: turn(s).timestamp is None,
    ),
    Case("time_number_zero", put(the_turn, timestamp=0), "warning", ("timestamp",)),
    Case(
        "time_epoch_ms",
        put(the_turn, timestamp=1741000000123),
        "accept",
        (),
        lambda s, d: (turn(s).time or "").startswith("2025-03-03T11:06:40.123"),
    ),
    Case(
        "time_epoch_text",
        put(the_turn, timestamp="1741000000"),
        "accept",
        (),
        lambda s, d: turn(s).time == "2025-03-03T11:06:40+00:00",
    ),
    Case(
        "time_wrong_weekday",
        put(the_turn, timestamp="2025/03/02 (Mon) 09:00"),
        "warning",
        ("Mon",),
        lambda s, d: turn(s).time is None,
    ),
    Case(
        "turns_go_back",
        lambda b: b.sessions[1]["dialogue"][1].update(timestamp="2025-03-01T00:00:00"),
        "warning",
        ("go back",),
        lambda s, d: len(d.balance.warnings) == 1,
    ),
]

IMAGES = [
    Case(
        "image_file",
        do(
            lambda b: b.more.update({"images/v.png": png()}),
            lambda b: b.attach([{"caption": "van", "image_id": "i1", "file_path": "images/v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: (
            turn(s).images[0].path is not None
            and turn(s).images[0].media_type == "image/png"
            and turn(s).images[0].shown_id == "i1"
        ),
    ),
    Case(
        "image_old_name",
        do(
            lambda b: b.more.update({"v.png": png()}),
            lambda b: b.attach([{"caption": "van", "image_path": "v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "image_by_layout",
        do(
            lambda b: b.more.update({"images/w1/i1.png": png()}),
            lambda b: b.attach([{"image_id": "i1"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "image_ids_hidden",
        do(
            put(the_sample, show_image_ids=False),
            lambda b: b.attach([{"caption": "van", "image_id": "i1"}]),
        ),
        "accept",
        (),
        lambda s, d: (turn(s).images[0].image_id, turn(s).images[0].shown_id) == ("i1", None),
    ),
    Case(
        "attachment_texts",
        lambda b: b.attach(["a green van", "x/missing.jpg"]),
        "warning",
        ("read as a caption", "read as a path"),
        lambda s, d: (
            turn(s).images[0].caption == "a green van"
            and (d.balance.attachments, left(d, "attachment")) == (2, 1)
        ),
    ),
    Case(
        "attachment_null_entry",
        lambda b: b.attach([None]),
        "warning",
        ("null",),
        lambda s, d: (d.balance.attachments, left(d, "attachment")) == (1, 1),
    ),
    Case("attachment_number", lambda b: b.attach(4), "fatal", ("attachments", "a number")),
    Case(
        "caption_null",
        lambda b: b.attach([{"caption": None, "image_id": "i1"}]),
        "warning",
        ("nothing but an id",),
        lambda s, d: turn(s).images[0].caption is None,
    ),
    Case(
        "caption_missing",
        lambda b: b.attach([{"type": "image_caption"}]),
        "warning",
        ("neither caption",),
        lambda s, d: left(d, "attachment") == 1,
    ),
    Case(
        "caption_number",
        lambda b: b.attach([{"caption": 3}]),
        "warning",
        ("caption",),
        lambda s, d: turn(s).images[0].caption == "3",
    ),
    *(
        Case(
            f"path_{name}",
            do(
                lambda b, content=content: b.more.update(
                    {"v.png": content} if content is not None else {}
                ),
                lambda b, path=path: b.attach([{"caption": "van", "file_path": path}]),
            ),
            "warning",
            (says, "caption only"),
            lambda s, d: turn(s).images[0].path is None and turn(s).images[0].caption == "van",
        )
        for name, path, content, says in (
            ("missing", "images/none.png", None, "no such file"),
            ("up", "../secret.png", None, "leaves the data folder"),
            ("deep_up", "a/b/../../../../etc/passwd", None, "leaves the data folder"),
            ("absolute", "/etc/hostname", None, "an absolute path"),
            ("home", "~/x.png", None, "an absolute path"),
            ("drive", "C:\\x.png", None, "an address or a path with a drive"),
            ("file_url", "file:///etc/hostname", None, "an address"),
            ("data_url", "data:image/png;base64,AA==", None, "an address"),
            ("nul", "v\x00.png", None, "NUL"),
            ("too_long", "x" * 5000 + ".png", None, "no such file"),
            ("folder", ".", None, "not a regular file"),
            ("zero_bytes", "v.png", b"", "the file is empty"),
            ("not_an_image", "v.png", b"<html></html>", "not an image"),
            ("number", 7, None, "a number"),
        )
    ),
    Case(
        "inner_dots",
        do(
            lambda b: b.more.update({"a/v.png": png()}),
            lambda b: b.attach([{"caption": "van", "file_path": "a/../a/v.png"}]),
        ),
        "accept",
        (),
        lambda s, d: turn(s).images[0].path is not None,
    ),
    Case(
        "same_image_again",
        do(
            lambda b: b.attach([{"caption": "v", "image_id": "i"}], 0),
            lambda b: b.attach([{"caption": "v", "image_id": "i"}], 1),
        ),
        "accept",
        (),
        lambda s, d: d.balance.attachments == 2,
    ),
    Case(
        "image_on_question",
        put(qa, attachments=[{"caption": "a van"}]),
        "accept",
        (),
        lambda s, d: (
            question(s).images[0].caption == "a van"
            and (d.balance.attachments, d.balance.question_attachments) == (0, 1)
        ),
    ),
    Case(
        "image_id_number",
        lambda b: b.attach([{"caption": "v", "image_id": 5}]),
        "warning",
        ("image_id",),
        lambda s, d: turn(s).images[0].image_id == "5",
    ),
]

GOLD = [
    *(
        Case(
            f"importance_{name}",
            put(g1, importance=value),
            expect,
            says,
            lambda s, d, out=out: gold(s).importance == out,
        )
        for name, value, expect, says, out in (
            ("word", "high", "warning", ("'high'",), None),
            ("nan_text", "NaN", "warning", ("'NaN'",), None),
            ("over", 1.5, "warning", ("1.5",), None),
            ("negative", -0.1, "warning", ("-0.1",), None),
            ("bool", True, "warning", ("importance",), None),
            ("object", {}, "warning", ("importance",), None),
            ("null", None, "accept", (), None),
            ("missing", ..., "accept", (), None),
            ("text", "0.25", "accept", (), 0.25),
            ("zero", 0, "accept", (), 0.0),
        )
    ),
    *(
        Case(
            f"memory_content_{name}",
            put(g1, memory_content=value),
            "warning",
            (says,),
            lambda s, d: (
                "g1" not in {p.id for p in s.points}
                and (d.balance.gold_points, len(s.points), left(d, "gold point")) == (5, 4, 1)
            ),
        )
        for name, value, says in (
            ("blank", " ", "blank"),
            ("null", None, "missing"),
            ("absent", ..., "missing"),
        )
    ),
    Case(
        "content_is_number",
        put(g1, memory_content=640),
        "warning",
        ("a number",),
        lambda s, d: gold(s).text == "640",
    ),
    Case("content_is_list", put(g1, memory_content=["x"]), "fatal", ("point 'g1'", "a list")),
    Case(
        "points_null",
        lambda b: b.stage4[0].update(memory_points=None),
        "accept",
        (),
        lambda s, d: d.balance.gold_points == 4,
    ),
    Case("point_null", lambda b: b.stage4[0]["memory_points"].append(None), "fatal", ("point 1",)),
    Case(
        "id_number",
        put(g1, memory_id=3),
        "warning",
        ("memory_id is a number",),
        lambda s, d: gold(s, "3").citable,
    ),
    Case(
        "id_null",
        put(g1, memory_id=None),
        "warning",
        ("memory_id is missing",),
        lambda s, d: [p.id for p in s.points if not p.citable] == ["w1/S01/0"],
    ),
    Case("id_list", put(g1, memory_id=["g1"]), "fatal", ("memory_id is a list",)),
    Case(
        "same_point_twice",
        lambda b: b.stage4[0]["memory_points"].append(copy.deepcopy(g1(b))),
        "warning",
        ("identical repeat", "'g1'"),
        lambda s, d: d.balance.gold_points == 6 and len(s.points) == 5,
    ),
    Case(
        "same_ids_in_two_samples",
        do(
            lambda b: setattr(b, "samples", [b.sample, renamed(b.sample, "w2")]),
            lambda b: setattr(b, "point_rows", [b.points, renamed(b.points, "w2")]),
            lambda b: setattr(b, "checkpoint_rows", [b.checkpoints, renamed(b.checkpoints, "w2")]),
        ),
        "accept",
        (),
        lambda s, d: d.balance.gold_points == 10,
    ),
    Case(
        "originals_text",
        put(g2, original_memories="Wanda's van is green"),
        "warning",
        ("list of one",),
        lambda s, d: gold(s, "g2").originals == ("Wanda's van is green",),
    ),
    Case(
        "originals_with_null",
        put(g2, original_memories=[None, "Wanda's van is green", " "]),
        "warning",
        ("null; ignored", "blank; ignored"),
        lambda s, d: gold(s, "g2").originals == ("Wanda's van is green",),
    ),
    Case(
        "originals_null",
        put(g2, original_memories=None),
        "warning",
        ("recall only",),
        lambda s, d: (
            not gold(s, "g2").in_update_handling
            and gold(s, "g2").kind is PointKind.UPDATE
            and left(d, "update handling") == 1
        ),
    ),
    Case(
        "source_null",
        put(g1, memory_source=None),
        "accept",
        (),
        lambda s, d: gold(s).kind is PointKind.NEW,
    ),
    Case("source_missing", put(g1, memory_source=...), "accept"),
    Case(
        "source_spelling",
        put(g1, memory_source="Interference"),
        "accept",
        (),
        lambda s, d: gold(s).kind is PointKind.INTERFERENCE,
    ),
    Case("source_object", put(g1, memory_source={}), "warning", ("an object",)),
    Case("is_update_two", put(g1, is_update=2), "fatal", ("point 'g1'", "2 is neither")),
    Case("is_update_list", put(g1, is_update=[]), "fatal", ("point 'g1'",)),
    Case(
        "session_listed_twice",
        lambda b: b.stage4.append(
            {"session_id": "S01", "memory_points": [point("g9", "Wanda drives")]}
        ),
        "warning",
        ("'S01' stands here twice",),
        lambda s, d: (
            gold(s, "g9").session_id == "S01" and [p.id for p in s.points_of("S01")] == ["g1", "g9"]
        ),
    ),
    Case(
        "gold_session_null",
        lambda b: b.stage4[0].update(session_id=None),
        "fatal",
        ("session_id", "missing"),
    ),
    Case("gold_session_not_object", lambda b: b.stage4.append("S01"), "fatal", ("session 2",)),
    Case(
        "s00_in_both_equal",
        lambda b: b.stage4.insert(
            0, {"session_id": "S00", "memory_points": [point("g0", "Wanda paints")]}
        ),
        "warning",
        ("identical repeat",),
        lambda s, d: (d.balance.gold_points, len(s.points)) == (6, 5),
    ),
    Case(
        "variants_and_sources",
        put(g1, variants=["a", "b"], source_turns=["D1:1"]),
        "accept",
        (),
        lambda s, d: gold(s).source_ids == ("D1:1",) and gold(s).labels["variants"] == ["a", "b"],
    ),
]

CHECKPOINT = [
    *(
        Case(f"covered_{name}", put(cp, covered_sessions=value), expect, says, holds)
        for name, value, expect, says, holds in (
            ("empty", [], "fatal", ("checkpoint 'q1'", "never be asked"), None),
            ("null", None, "fatal", ("checkpoint 'q1'",), None),
            ("missing", ..., "fatal", ("checkpoint 'q1'",), None),
            ("number", 1, "fatal", ("checkpoint 'q1'", "a number"), None),
            ("null_entry", [None], "fatal", ("session null is not",), None),
            ("object_entry", [{}], "fatal", ("session an object is not",), None),
            ("padded", [" S01"], "fatal", ("' S01'",), None),
            (
                "text",
                "S02",
                "warning",
                ("list of one",),
                lambda s, d: s.checkpoints[0].trigger_session == "S02",
            ),
            (
                "gap",
                ["S00", "S02"],
                "accept",
                (),
                lambda s, d: s.checkpoints[0].covered == ("S00", "S02"),
            ),
        )
    ),
    Case("cp_no_id", put(cp, checkpoint_id=...), "fatal", ("checkpoint at 0", "missing")),
    Case("cp_number_id", put(cp, checkpoint_id=1), "fatal", ("a number",)),
    Case(
        "questions_null",
        put(cp, questions=None),
        "warning",
        ("no question to ask",),
        lambda s, d: (
            s.checkpoints == () and (d.balance.checkpoints, left(d, "checkpoint")) == (1, 1)
        ),
    ),
    Case("questions_object", put(cp, questions={}), "fatal", ("questions", "an object")),
    Case(
        "cp_not_object",
        lambda b: b.checkpoints["checkpoints"].append(3),
        "fatal",
        ("checkpoint 1",),
    ),
    Case(
        "no_checkpoints",
        lambda b: b.checkpoints.update(checkpoints=[]),
        "warning",
        ("no checkpoints",),
        lambda s, d: d.balance.questions == 0,
    ),
    Case(
        "checkpoints_object",
        lambda b: b.checkpoints.update(checkpoints={}),
        "fatal",
        ("checkpoints", "an object"),
    ),
    Case(
        "file_order_is_kept",
        lambda b: b.checkpoints["checkpoints"].append(
            {
                "checkpoint_id": "q0",
                "covered_sessions": ["S00"],
                "questions": [{"question": "Who paints?", "answer": "Wanda"}],
            }
        ),
        "accept",
        (),
        lambda s, d: (
            [c.id for c in s.checkpoints] == ["q1", "q0"]
            and [c.id for c in s.checkpoints_after("S00")] == ["q0"]
        ),
    ),
]

QUESTION = [
    *(
        Case(
            f"question_{name}",
            put(qa, question=value),
            "warning",
            ("cannot be asked",),
            lambda s, d: (d.balance.questions, left(d, "question")) == (1, 1),
        )
        for name, value in (("blank", " "), ("null", None), ("missing", ...))
    ),
    Case(
        "question_number",
        put(qa, question=7),
        "warning",
        ("a number",),
        lambda s, d: question(s).text == "7",
    ),
    Case("question_list", put(qa, question=["x"]), "fatal", ("question 0", "a list")),
    Case(
        "question_not_object",
        lambda b: b.checkpoint["questions"].append("why?"),
        "fatal",
        ("question 1",),
    ),
    *(
        Case(f"answer_{name}", put(qa, answer=value), "fatal", ("question 0, answer",))
        for name, value in (
            ("missing", ...),
            ("blank", "  "),
            ("object", {"a": 1}),
            ("empty_list", []),
            ("list_of_null", [None]),
        )
    ),
    Case(
        "answer_list_with_null",
        put(qa, answer=["Yellow", None]),
        "warning",
        ("null; ignored",),
        lambda s, d: (
            question(s).answers == ("Yellow",) and question(s).answer_kind is AnswerKind.VARIANTS
        ),
    ),
    Case(
        "answer_float",
        put(qa, answer=2.5),
        "accept",
        (),
        lambda s, d: question(s).answers == ("2.5",),
    ),
    Case(
        "no_type",
        put(qa, question_type=..., question_type_abbrev=...),
        "accept",
        (),
        lambda s, d: question(s).type_id is None,
    ),
    Case("type_number", put(qa, question_type=4), "warning", ("question_type",)),
    Case(
        "same_question_id",
        do(put(qa, question_id="k"), lambda b: b.checkpoint["questions"].append(dict(b.question))),
        "warning",
        ("'k' is taken",),
        lambda s, d: [q.id for q in s.checkpoints[0].questions] == ["k", "q1:1"],
    ),
    Case("kind_unknown", put(qa, answer_kind="essay"), "fatal", ("'essay'", "rubric")),
    Case(
        "kind_variants",
        put(qa, answer_kind="variants", answer=["Yellow", "Gold"]),
        "accept",
        (),
        lambda s, d: question(s).answers == ("Yellow", "Gold"),
    ),
    Case(
        "kind_refusal",
        put(qa, answer_kind="refusal"),
        "accept",
        (),
        lambda s, d: question(s).answer_kind is AnswerKind.REFUSAL,
    ),
    Case(
        "kind_text_with_list",
        put(qa, answer_kind="text", answer=["a", "b"]),
        "fatal",
        ("answer_kind is text",),
    ),
    Case(
        "choice",
        put(qa, answer_kind="choice", choices=["Yellow", "Green"]),
        "accept",
        (),
        lambda s, d: question(s).choices == ("Yellow", "Green"),
    ),
    Case(
        "choice_without_answer",
        put(qa, choices=["Red", "Green"]),
        "fatal",
        ("'Yellow' is none of the choices",),
    ),
    Case("choice_twice", put(qa, choices=["Yellow", "Yellow"]), "fatal", ("stands twice",)),
    Case(
        "adversarial",
        put(qa, adversarial_answer="Blue"),
        "accept",
        (),
        lambda s, d: (
            question(s).answer_kind is AnswerKind.REFUSAL
            and question(s).labels["adversarial_answer"] == "Blue"
        ),
    ),
    Case(
        "rubric",
        put(qa, evaluation_criteria="says yellow"),
        "accept",
        (),
        lambda s, d: question(s).answer_kind is AnswerKind.RUBRIC,
    ),
    Case(
        "question_date",
        put(qa, question_date="2025/03/04 (Tue) 10:00"),
        "accept",
        (),
        lambda s, d: question(s).date == "2025-03-04T10:00:00",
    ),
    Case("question_date_garbage", put(qa, question_date="later"), "warning", ("'later'",)),
]


def evidence(*entries: Any) -> Break:
    return put(qa, evidence=list(entries))


def states(sample: Sample) -> list[tuple[str, str, str]]:
    return [(e.kind.value, e.id, e.state.value) for e in question(sample).evidence]


EVIDENCE = [
    Case("ev_missing", put(qa, evidence=...), "accept", (), lambda s, d: states(s) == []),
    Case(
        "ev_object",
        put(qa, evidence={"memory_id": "g2"}),
        "warning",
        ("list of one",),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case("ev_number", put(qa, evidence=4), "fatal", ("evidence", "a number")),
    Case(
        "ev_texts",
        evidence("g2", "no such thing"),
        "warning",
        ("bare text 'g2'",),
        lambda s, d: (
            states(s) == [("point", "g2", "resolved"), ("text", "no such thing", "unresolved")]
        ),
    ),
    Case("ev_number_entry", evidence(3), "warning", ("unresolved",)),
    Case(
        "ev_null_entry",
        evidence(None, {"memory_id": "g2"}),
        "warning",
        ("null",),
        lambda s, d: left(d, "evidence") == 1 and len(question(s).evidence) == 1,
    ),
    Case(
        "ev_unknown_field",
        evidence({"fact": "g2"}),
        "warning",
        ("unresolved",),
        lambda s, d: question(s).evidence[0].state is EvidenceState.UNRESOLVED,
    ),
    Case(
        "ev_whole_ids",
        evidence({"memory_id": "g"}),
        "warning",
        ("unresolved",),
        lambda s, d: states(s) == [("point", "g", "unresolved")],
    ),
    Case(
        "ev_image",
        do(lambda b: b.attach([{"caption": "v", "image_id": "i1"}]), evidence({"image_id": "i1"})),
        "accept",
        (),
        lambda s, d: states(s) == [("image", "i1", "resolved")],
    ),
    Case("ev_image_unknown", evidence({"image_id": "i1"}), "warning", ("no image 'i1'",)),
    Case(
        "ev_turn",
        do(put(the_turn, turn_id="t7"), evidence({"turn_id": "t7"})),
        "accept",
        (),
        lambda s, d: states(s) == [("turn", "t7", "resolved")],
    ),
    Case("ev_turn_unknown", evidence({"turn_id": "t7"}), "warning", ("no turn 't7'",)),
    Case(
        "ev_session",
        evidence({"session_id": "S01"}),
        "accept",
        (),
        lambda s, d: states(s) == [("session", "S01", "resolved")],
    ),
    Case(
        "ev_future_session",
        do(put(cp, covered_sessions=["S00"]), evidence({"session_id": "S01"}, {"memory_id": "g0"})),
        "warning",
        ("future",),
        lambda s, d: states(s) == [("session", "S01", "future"), ("point", "g0", "resolved")],
    ),
    Case(
        "ev_pair",
        evidence({"memory_id": "g2", "memory_content": "Wanda's van is yellow"}),
        "accept",
        (),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_pair_differs",
        evidence({"memory_id": "g2", "memory_content": "Wanda's boat"}),
        "warning",
        ("differs", "'g2'"),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_memory_and_image",
        do(
            lambda b: b.attach([{"caption": "v", "image_id": "i1"}]),
            evidence({"memory_id": "g2", "image_id": "i1"}),
        ),
        "warning",
        ("both count",),
        lambda s, d: (
            [e.kind for e in question(s).evidence] == [EvidenceKind.POINT, EvidenceKind.IMAGE]
        ),
    ),
    Case(
        "ev_text_unknown",
        evidence({"memory_content": "Wanda flies"}),
        "warning",
        ("unresolved",),
        lambda s, d: states(s) == [("text", "Wanda flies", "unresolved")],
    ),
    Case(
        "ev_text_and_id_once",
        evidence({"memory_id": "g2"}, {"memory_content": "Wanda's van is yellow"}),
        "warning",
        ("counts once",),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_left_out_point",
        do(put(g1, memory_content=""), evidence({"memory_id": "g1"})),
        "warning",
        ("unresolved",),
    ),
    Case(
        "ev_made_up_id",
        do(put(g1, memory_id=None), evidence({"memory_id": "w1/S01/0"})),
        "warning",
        ("unresolved",),
    ),
]

KEYS = [
    Case("point_keys", put(g1, keys={"must": ["green", {"any": ["van", "bus"],
         "not_before": ["no"]}]}), "accept", (),
         lambda s, d: gold(s).keys is not None and gold(s).keys.must[1].not_before == ("no",)),
    Case("question_keys", put(qa, keys={"answers": [["yellow"], ["gold"]], "forbidden": ["green"]}),
         "accept", (), lambda s, d: len(question(s).keys.alternatives) == 2),
    *(
        Case(f"keys_{name}", put(target, keys=value), "fatal", says)
        for name, target, value, says in (
            ("unknown_field", g1, {"must": ["a"], "may": []}, ("unknown field 'may'",)),
            ("no_must", g1, {"gone": []}, ("'must' is missing",)),
            ("empty_must", g1, {"must": []}, ("at least one",)),
            ("gone_on_new", g1, {"must": ["a"], "gone": ["b"]}, ("nothing to be gone",)),
            ("text", g1, "green", ("text, expected an object",)),
            ("blank_key", g1, {"must": [" "]}, ("not blank",)),
            ("null_key", g1, {"must": [None]}, ("null, expected a key",)),
            ("number_key", g1, {"must": [4]}, ("a number, expected an object",)),
            ("key_without_any", g1, {"must": [{"not_after": ["x"]}]}, ("'any' is missing",)),
            ("answers_flat", qa, {"answers": ["yellow"]}, ("expected a list of keys",)),
            ("answers_empty", qa, {"answers": []}, ("a list of alternatives",)),
            ("forbidden_text", qa, {"answers": [["a"]], "forbidden": "b"}, ("list of keys",)),
        )
    ),
]  # fmt: skip

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
