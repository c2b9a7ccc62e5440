"""Names: a folder never changes owner, an alias never its target, a broken folder harms nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.baseline_file import BaselineFile
from harness.catalog import PLANNED, Catalog, rows_of
from harness.outcomes import DataError, UnknownName, UsageError

FAMILY = """
name: Mem
summary: Several in one.
options:
  k: {default: 3, help: how many}
  ratio: {default: 0.5, help: how much}
  mode: {default: fast, help: how, choices: [fast, slow]}
  flag: {default: true, help: whether}
  cap: {default: null, help: at most}
variants:
  Mem-Long: {options: {k: 9}, summary: The long one.}
  Mem-Short: {}
aliases: {Long: Mem-Long}
limits: {memory_mb: 512}
build: {torch: cpu}
"""


def folder(parent: Path, name: str, text: str) -> Path:
    path = parent / name
    path.mkdir(parents=True)
    (path / "baseline.yaml").write_text(text)
    return path


def plain(name: str, more: str = "") -> str:
    return f"name: {name}\nsummary: One.\n{more}"


def catalog(parent: Path, *more: Path) -> Catalog:
    return Catalog(more, shipped=parent)


def test_what_ships_loads() -> None:
    shipped = Catalog()
    assert not shipped.broken(), shipped.broken()
    assert {"NoMemory", "FullContext", "BM25", "MemEngine-LTMemory"} <= set(shipped.names())


def test_variants_are_rows_with_options_merged(tmp_path: Path) -> None:
    folder(tmp_path, "Mem", FAMILY)
    mine = catalog(tmp_path)
    long = mine.get("Mem-Long")
    assert long.options == {"k": 9, "ratio": 0.5, "mode": "fast", "flag": True, "cap": None}
    assert (long.family, long.row, long.summary) == ("Mem", "Mem-Long", "The long one.")
    assert (long.limits.memory_mb, long.limits.pids) == (512, 256)
    assert long.build.torch == "cpu"
    assert mine.get("Mem-Short").summary == "Several in one."


def test_a_family_is_not_a_row_but_can_be_built(tmp_path: Path) -> None:
    folder(tmp_path, "Mem", FAMILY)
    mine = catalog(tmp_path)
    with pytest.raises(UsageError, match="Mem-Long, Mem-Short"):
        mine.get("Mem")
    assert [row.name for row in mine.expand("Mem")] == ["Mem-Long", "Mem-Short"]
    assert [row.name for row in mine.expand("Long")] == ["Mem-Long"]


def test_an_alias_says_what_was_typed(tmp_path: Path) -> None:
    folder(tmp_path, "Mem", FAMILY)
    mine = catalog(tmp_path)
    assert mine.get("Long").alias_of == "Long"
    assert mine.get("Long").name == "Mem-Long"
    assert mine.get("Mem-Long").alias_of is None
    assert mine.aliases() == {"Long": "Mem-Long"}


def test_an_unknown_name_is_told_the_nearest(tmp_path: Path) -> None:
    folder(tmp_path, "Mem", FAMILY)
    with pytest.raises(UnknownName, match="Did you mean Mem-Long") as caught:
        catalog(tmp_path).get("Mem-Logn")
    assert caught.value.exit_code == 2


def test_host_side_rows_have_no_folder(tmp_path: Path) -> None:
    for name in ("Oracle", "ConstantFloor"):
        row = catalog(tmp_path).get(name)
        assert row.host_side
        with pytest.raises(UsageError, match="made on the host"):
            _ = row.home


def test_a_broken_folder_harms_nobody_else(tmp_path: Path) -> None:
    folder(tmp_path, "Good", plain("Good"))
    folder(tmp_path, "Bad", plain("Bad", "colour: red\nreset: never\n"))
    mine = catalog(tmp_path)
    assert mine.get("Good").name == "Good"
    assert [entry.name for entry in mine.broken()] == ["Bad"]
    with pytest.raises(DataError) as caught:
        mine.get("Bad")
    found = {(problem.line, problem.message.split(";")[0]) for problem in caught.value.problems}
    assert (3, "unknown field 'colour'") in found
    assert any(line == 4 and "reset" in message for line, message in found)
    assert all(p.file == str(tmp_path / "Bad" / "baseline.yaml") for p in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: X\nname: X\nsummary: a\n", "stands twice"),
        ("name: [", "is not YAML"),
        ("- a\n", "mapping"),
        ("", "mapping"),
        ("name: Y\nsummary: a\n", "folder is 'X'"),
        (plain("X", "adapter: adapter.py\n"), "module:Class"),
        (plain("X", "limits: {memory_mb: lots}\n"), "limits.memory_mb"),
        (plain("X", "limits: {memory: 5}\n"), "unknown field 'limits.memory'"),
        (plain("X", "variants: {Other: {}}\n"), "must be called X-"),
        (plain("X", "variants: {X-a: {options: {k: 1}}}\n"), "not among the options"),
        (plain("X", "aliases: {Z: Q}\n"), "no row here"),
        (plain("X", "options: {k: {default: 1, help: h, choices: [2]}}\n"), "choices"),
        (plain("X", "build: {apt: ['curl; rm -rf /']}\n"), "Debian package"),
        (plain("X", "sources: [{repository: r, commit: main, paths: [a]}]\n"), "40 lower-case"),
        (plain("X", "sources: [{repository: r, commit: unknown, paths: [../a]}]\n"), "inside"),
        (plain("X", "sources: [{repository: -r, commit: unknown, paths: [a]}]\n"), "begin with"),
    ],
)
def test_refused(tmp_path: Path, text: str, says: str) -> None:
    folder(tmp_path, "X", text)
    with pytest.raises(DataError, match=says):
        catalog(tmp_path).get("X")


def test_an_adapter_without_its_yaml_is_broken_not_invisible(tmp_path: Path) -> None:
    (tmp_path / "Half").mkdir()
    (tmp_path / "Half" / "adapter.py").write_text("")
    with pytest.raises(DataError, match=r"Half.baseline\.yaml"):
        catalog(tmp_path).get("Half")


def test_a_name_never_changes_owner(tmp_path: Path) -> None:
    first = tmp_path / "first"
    folder(first, "Mem", FAMILY)
    folder(tmp_path / "second", "Mem", plain("Mem"))
    mine = catalog(first, tmp_path / "second")
    with pytest.raises(DataError, match="belongs to"):
        mine.get("Mem")
    assert mine.get("Mem-Long").folder == (first / "Mem").resolve()


@pytest.mark.parametrize("alias", ["Long", "Mem-Long", "Mem", "Oracle"])
def test_an_alias_cannot_take_a_name(tmp_path: Path, alias: str) -> None:
    first = tmp_path / "first"
    folder(first, "Mem", FAMILY)
    folder(tmp_path / "second", "Thief", plain("Thief", f"aliases: {{{alias}: Thief}}\n"))
    mine = catalog(first, tmp_path / "second")
    with pytest.raises(DataError, match=f"'{alias}' belongs to"):
        mine.get("Thief")
    assert mine.get("Long").name == "Mem-Long"


def test_an_extra_folder_may_be_a_baseline_itself(tmp_path: Path) -> None:
    mine = Catalog([folder(tmp_path, "Solo", plain("Solo"))], shipped=None)
    assert mine.get("Solo").folder == tmp_path / "Solo"


def test_an_extra_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        Catalog([tmp_path / "nowhere"])


def test_options_are_read_as_their_default(tmp_path: Path) -> None:
    folder(tmp_path, "Mem", FAMILY)
    row = catalog(tmp_path).get("Mem-Long")
    turned = row.with_options({"k": "4", "ratio": "1", "mode": "slow", "flag": "false", "cap": "7"})
    assert turned.options == {"k": 4, "ratio": 1.0, "mode": "slow", "flag": False, "cap": 7}
    assert type(turned.options["ratio"]) is float
    assert row.options["k"] == 9
    for wrong in ({"k": "many"}, {"k": "1.5"}, {"flag": "2"}, {"mode": "quick"}, {"k": True}):
        with pytest.raises(UsageError):
            row.with_options(wrong)
    with pytest.raises(UnknownName, match="Did you mean mode"):
        row.with_options({"mod": "fast"})


names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,6}", fullmatch=True)


@given(
    variants=st.lists(names, max_size=4, unique=True),
    aliases=st.dictionaries(names, st.integers(0, 9), max_size=4),
)
def test_every_alias_leads_to_its_own_target(variants: list[str], aliases: dict[str, int]) -> None:
    rows = [f"Fam-{variant}" for variant in variants] or ["Fam"]
    wanted = {a: rows[i % len(rows)] for a, i in aliases.items() if a not in rows and a != "Fam"}
    file = BaselineFile.model_validate(
        {
            "name": "Fam",
            "summary": "s",
            "variants": {f"Fam-{v}": {} for v in variants},
            "aliases": wanted,
        }
    )
    made = rows_of(file, Path("/nowhere/Fam"))
    assert [row.name for row in made] == rows
    assert {alias: row.name for row in made for alias in row.aliases} == wanted


plain_values = st.one_of(
    st.integers(-(10**9), 10**9), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)


@given(default=plain_values, given_value=plain_values)
def test_an_option_keeps_its_type_or_is_refused(default: Any, given_value: Any) -> None:
    text = yaml.dump(
        {"name": "F", "summary": "s", "options": {"o": {"default": default, "help": ""}}}
    )
    file = BaselineFile.model_validate(yaml.safe_load(text))
    row = rows_of(file, Path("/nowhere/F"))[0]
    kind = type(row.options["o"])
    written = str(given_value).lower() if isinstance(given_value, bool) else repr(given_value)
    fits = type(given_value) is kind or (kind is float and type(given_value) is int)
    if fits:
        value = row.with_options({"o": written}).options["o"]
        assert type(value) is kind
        assert value == given_value
    else:
        with pytest.raises(UsageError):
            row.with_options({"o": written})


def test_letters_case_is_forgiven_where_one_name_is_meant(tmp_path: Path) -> None:
    folder(tmp_path, "Tool", plain("Tool"))
    folder(tmp_path, "tool", plain("tool"))
    folder(tmp_path, "Other", plain("Other"))
    mine = Catalog([tmp_path], shipped=None)
    assert mine.get("OTHER").name == "Other"
    assert mine.get("OTHER").alias_of is None
    assert mine.get("tool").name == "tool"
    assert mine.spelled("TOOL") == "TOOL"
    with pytest.raises(UnknownName, match="Did you mean"):
        mine.get("TOOL")
    with pytest.raises(UnknownName, match="Did you mean Other"):
        mine.get("ohter")


def test_what_is_not_here_yet_is_named_unless_somebody_brings_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Mem0: needs a language model"):
        Catalog(shipped=None).get("mem0")
    folder(tmp_path, "Mem0", plain("Mem0"))
    assert Catalog([tmp_path], shipped=None).get("mem0").name == "Mem0"
    assert not set(PLANNED) & {*Catalog().names(), *Catalog().aliases()}
