"""Faults of samples, sessions, turns and their times."""

from __future__ import annotations

import copy

from fault_tools import (
    Case,
    do,
    left,
    put,
    same,
    the_sample,
    the_session,
    the_turn,
    turn,
)
from loader_bundles import CHECKPOINTS, renamed

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
