"""Strict JSON against the module ``json``, and element by element against the whole."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.loaders.slices import Slice, array_slices, line_slices, whole_file
from harness.loaders.strict import line_of, parse
from harness.outcomes import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
INDENTS = st.sampled_from([None, 0, 1, 3])
in_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def piece(raw: bytes) -> Slice:
    return Slice("x.json", 0, 1, raw)


@given(value=VALUES, ascii_only=st.booleans(), indent=INDENTS)
def test_what_json_writes_is_read_as_json_reads_it(
    value: object, ascii_only: bool, indent: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse(piece(text.encode())) == json.loads(text)


@given(
    raw=st.binary(max_size=80)
    | st.text('[]{},:"\\eE0123-+.nulfatrs u\n', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_as_json_does_or_refused(raw: bytes) -> None:
    try:
        value = parse(piece(raw))
    except DataError as error:
        assert all(problem.line for problem in error.problems)
    else:
        assert value == json.loads(raw.decode())


@in_folder
@given(
    values=st.lists(VALUES, max_size=6),
    indent=INDENTS,
    chunk=st.integers(1, 40),
    mark=st.booleans(),
)
def test_an_array_cut_into_elements_is_the_array(
    values: list[object],
    indent: int,
    chunk: int,
    mark: bool,
    tmp_path: Path,
) -> None:
    raw = (b"\xef\xbb\xbf" if mark else b"") + json.dumps(
        values, indent=indent, ensure_ascii=False
    ).encode()
    (tmp_path / "a.json").write_bytes(raw)
    cut = list(array_slices(tmp_path / "a.json", "a.json", chunk))
    assert [parse(one) for one in cut] == json.loads(json.dumps(values))
    for one in cut:
        assert raw[one.offset : one.offset + len(one.raw)] == one.raw
        assert one.line == raw.count(b"\n", 0, one.offset) + 1


@in_folder
@given(values=st.lists(st.dictionaries(TEXT, SCALARS, max_size=3), max_size=6), crlf=st.booleans())
def test_lines_are_split_on_lf_only(values: list[object], crlf: bool, tmp_path: Path) -> None:
    end = b"\r\n" if crlf else b"\n"
    raw = b"".join(json.dumps(v, ensure_ascii=False).encode() + end for v in values)
    (tmp_path / "r.jsonl").write_bytes(raw)
    cut = list(line_slices(tmp_path / "r.jsonl", "r.jsonl"))
    assert [parse(one) for one in cut] == values
    for number, one in enumerate(cut, start=1):
        assert one.line == number
        assert raw[one.offset : one.offset + len(one.raw)] == one.raw


@in_folder
@given(values=st.lists(VALUES, min_size=1, max_size=4), data=st.data())
def test_an_array_that_is_cut_off_is_refused(
    values: list[object], data: st.DataObject, tmp_path: Path
) -> None:
    raw = json.dumps(values, ensure_ascii=False).encode()
    keep = data.draw(st.integers(0, len(raw) - 1))
    (tmp_path / "a.json").write_bytes(raw[:keep])
    with pytest.raises(DataError):
        for one in array_slices(tmp_path / "a.json", "a.json"):
            parse(one)


@given(value=VALUES, data=st.data())
def test_the_line_of_a_place(value: object, data: st.DataObject) -> None:
    marked = {"before": value, "list": [1, {"here": "the place"}], "after": value}
    text = json.dumps(marked, indent=2, ensure_ascii=False)
    line = text[: text.rindex('"the place"')].count("\n") + 1
    assert line_of(piece(text.encode()), ("list", 1, "here")) in range(1, text.count("\n") + 2)
    found = line_of(piece(text.encode()), ("list", 1, "here"))
    assert text.split("\n")[found - 1].strip() == '"here": "the place"'
    assert found <= line


def test_a_place_that_is_not_there_is_told_by_its_parent() -> None:
    raw = b'{\n "a": {\n  "b": 1\n }\n}'
    assert line_of(piece(raw), ("a", "missing", "x")) == 2


@pytest.mark.parametrize(
    ("raw", "line", "says"),
    [
        (b'[1,\n2,\n{"a": 1,\n "a": 2}]', 4, "'a' stands twice"),
        (b'[1,\nNaN]', 2, "NaN"),
        (b'["NaN",\n -Infinity]', 2, "-Infinity"),
        (b'[1,\n\n1e999]', 3, "too large"),
        (b'["1e999",\n-1E+400]', 2, "too large"),
        (b'{"a": "x\ny"}', 1, "control"),
        (b'["\\ud800", "\\ud83d\\ude80",\n"\\udfff"]', 1, "ud800"),
        (b'["a",\n"\xff"]', 2, "0xff"),
        (b'["\xed\xa0\x80"]', 1, "not UTF-8"),
        (b"[1,\n2", 2, "truncated"),
        (b'{"a": "b', 1, "truncated"),
        (b"{} {}", 1, "more than one"),
        (b"", 1, "too early"),
        (b"{'a': 1}", 1, "not JSON"),
        (b"[1,\n" + b"[" * 300 + b"]" * 300 + b"]", 2, "nested deeper"),
        (b"[1,\n" + b"1" * 5000 + b"]", 2, "too many digits"),
    ],
)  # fmt: skip
def test_refused_with_its_line(raw: bytes, line: int, says: str) -> None:
    with pytest.raises(DataError) as refused:
        parse(piece(raw))
    problem = refused.value.problems[0]
    assert problem.line == line
    assert says in problem.message


def test_every_lone_surrogate_is_named() -> None:
    raw = b'["\\ud800", "\\ud83d\\ude80",\n"\\udfff", "\\\\ud800"]'
    with pytest.raises(DataError) as refused:
        parse(piece(raw))
    assert [problem.line for problem in refused.value.problems] == [1, 2]


def test_a_duplicate_key_is_found_below_and_beside_lists() -> None:
    raw = b'{"a": [{"b": 1}, {"b": 2}],\n "c": {"a": 1},\n "d": {"e": 1, "f": [], "e": 2}}'
    with pytest.raises(DataError) as refused:
        parse(piece(raw))
    assert refused.value.problems[0].line == 3


def test_a_whole_file_starts_after_its_mark(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf{}")
    assert whole_file(tmp_path / "s.json", "s.json") == Slice("s.json", 3, 1, b"{}")


def test_lines_of_thousands_of_places_in_one_sample_are_found_at_once() -> None:
    sessions = [{"id": n, "turns": [{"a": 1}, {"b": n}]} for n in range(20_000)]
    raw = json.dumps({"x": [1], "sessions": sessions}, indent=1).encode()
    piece = Slice("f.json", 0, 5, raw)
    lines = raw.decode().split("\n")
    start = time.perf_counter()
    for n in range(0, 20_000, 10):
        line = line_of(piece, ("sessions", n, "turns", 1, "b"))
        assert lines[line - 5].strip() == f'"b": {n}'
        assert line_of(piece, ("sessions", n, "turns", 7)) == line_of(
            piece, ("sessions", n, "turns")
        )
    assert time.perf_counter() - start < 10  # 2,000 scans of the whole took minutes
