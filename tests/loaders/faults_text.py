"""Faults of bytes, of JSON and of whole files."""

from __future__ import annotations

from fault_tools import (
    Case,
    do,
    g1,
    gold,
    put,
    qa,
    question,
    raw,
    same,
    spoil,
    the_turn,
    turn,
)
from loader_bundles import CHECKPOINTS, MAIN, POINTS, lines

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
