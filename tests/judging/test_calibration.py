"""The calibration items are what they say, and a judge's numbers on them can be counted by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.main import app
from harness.judging import load_preset
from harness.judging.base import Preset, Scope, not_available
from harness.judging.calibration import FAILED, Rate, calibrate, error_of, grade, kappa, scores
from harness.judging.items import CORRECT, KINDS, SHIPPED, Item, load_items, shipped_items
from harness.outcomes import DataError
from harness.records import QARecord
from harness.samples import EvidenceKind, Question, Sample

ITEMS = shipped_items().items
KEYED = load_preset("keyed")
README = SHIPPED.parent / "README.md"


def item(name: str) -> Item:
    return next(entry for entry in ITEMS if entry.id == name)


# -- the items ------------------------------------------------------------------------------


def test_there_are_sixty_a_language_and_every_kind_in_both() -> None:
    assert Counter(entry.language for entry in ITEMS) == {"en": 60, "zh": 60}
    by_kind = Counter((entry.kind, entry.language) for entry in ITEMS)
    assert {kind for kind, _ in by_kind} == set(KINDS)
    for kind in KINDS:
        assert by_kind[kind, "en"] == by_kind[kind, "zh"]
        assert 12 <= by_kind[kind, "en"] + by_kind[kind, "zh"] <= 14


def test_the_readme_counts_what_is_there() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \((\d+) \+ (\d+)\) \| ([^|]+) \|", README.read_text(), re.M
    )
    told = {kind: (int(a), int(b), int(c), labels) for kind, a, b, c, labels in rows}
    assert set(told) == set(KINDS)
    for kind, (total, english, chinese, labels) in told.items():
        mine = [entry for entry in ITEMS if entry.kind == kind]
        languages = Counter(entry.language for entry in mine)
        assert (total, english, chinese) == (len(mine), languages["en"], languages["zh"])
        counted = Counter(entry.label for entry in mine)
        numbered = re.findall(r"(\d+) (\w+)", labels)
        assert (
            {label: int(n) for n, label in numbered} == counted
            if numbered
            else {labels} == set(counted)
        )
    right = sum(entry.label == CORRECT for entry in ITEMS)
    assert f"In all {right} are right and {len(ITEMS) - right} wrong" in README.read_text()


def test_questions_are_distinct_and_chinese_ones_are_chinese() -> None:
    assert len({entry.question for entry in ITEMS}) == len(ITEMS)
    for entry in ITEMS:
        chinese = re.search("[\u4e00-\u9fff]", entry.question) is not None
        assert chinese == (entry.language == "zh") and entry.id.startswith(entry.language)


@pytest.mark.parametrize("entry", ITEMS, ids=lambda entry: entry.id)
def test_the_gold_passes_its_own_keys(entry: Item) -> None:
    assert grade(KEYED, replace(entry, answer=entry.gold)).verdict == CORRECT


def test_labels_fit_kinds_and_updates_forbid_the_old_value() -> None:
    for entry in ITEMS:
        assert entry.label in KINDS[entry.kind]
        if entry.kind in ("stale", "swapped"):
            assert entry.keys is not None and entry.keys.forbidden and entry.points
        if entry.kind == "partial_list":
            assert entry.keys is not None and all(len(a) > 1 for a in entry.keys.alternatives)


def test_every_forbidden_key_comes_from_a_point() -> None:
    """An author can forbid only what the conversation holds: the points must say where it is."""
    for entry in ITEMS:
        if entry.keys is not None and entry.keys.forbidden:
            assert entry.points, entry.id


# -- the reader -----------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "id": "a",
    "language": "en",
    "kind": "stale",
    "question": "What car?",
    "answer_kind": "text",
    "gold": "An Enyaq.",
    "keys": {"answers": [["Enyaq"]], "forbidden": [{"any": ["Golf"], "not_before": ["no"]}]},
    "answer": "A Golf.",
    "label": "Hallucination",
}


def written(tmp_path: Path, *lines: str | dict[str, Any]) -> Path:
    path = tmp_path / "items.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    found = load_items(written(tmp_path, GOOD, "", {**GOOD, "id": "b"}))
    assert [entry.id for entry in found.items] == ["a", "b"]
    keys = found.items[0].keys
    assert keys is not None and keys.forbidden[0].not_before == ("no",)


def test_the_id_is_of_the_content_and_not_of_the_order(tmp_path: Path) -> None:
    other = {**GOOD, "id": "b"}
    first = load_items(written(tmp_path, GOOD, other)).id
    assert load_items(written(tmp_path, other, GOOD)).id == first
    assert load_items(written(tmp_path, other, {**GOOD, "answer": "Golf."})).id != first


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"more": 1}, "more: Extra inputs"),
        ({"kind": "guess"}, "unknown kind 'guess'"),
        ({"label": "Correct"}, "a stale answer is never labelled Correct"),
        ({"label": "Wrong"}, "label: Input should be"),
        ({"language": "de"}, "language: Input should be"),
        ({"gold": " "}, "gold: String should match"),
        ({"answer": 7}, "answer: Input should be a valid string"),
        ({"keys": None}, "an item has keys"),
        ({"answer_kind": "refusal"}, "an item has keys"),
        ({"keys": {"answers": [[]]}}, "at least one alternative"),
        ({"keys": {"answers": [["x"]], "must": []}}, "keys.must: Extra inputs"),
    ],
)
def test_what_is_no_item_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    path = written(tmp_path, GOOD, {**GOOD, "id": "b", **change})
    with pytest.raises(DataError) as caught:
        load_items(path)
    (problem, *_) = caught.value.problems
    assert says in problem.message and problem.line == 2 and problem.file == str(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting"),
        ('{"id": "a", "id": "b"}', "the key 'id' stands twice"),
        ("", "holds no items"),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), "the id 'a' stands twice"),
    ],
)
def test_what_is_no_file_of_items(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=re.escape(says)):
        load_items(written(tmp_path, text))
    with pytest.raises(DataError, match="cannot be read"):
        load_items(tmp_path / "none.jsonl")


# -- the numbers ----------------------------------------------------------------------------


class Says:
    """A judge that says one thing of every answer, and keeps what it was shown."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result
        self.seen: list[tuple[Sample, Question, QARecord]] = []

    def session(self, *_: Any) -> dict[str, Any]:
        raise AssertionError("no session is asked about")

    def question(
        self, sample: Sample, question: Question, record: QARecord, scope: Scope
    ) -> dict[str, Any]:
        self.seen.append((sample, question, record))
        return self.result


def judge(result: dict[str, Any]) -> Preset:
    return Preset("says", "model", "says-1", "Says", "", Says(result))


def verdict(word: str) -> dict[str, Any]:
    return {"answer": {"total": 1, "verdict": word}, "gold_found": not_available("no")}


def test_a_judge_that_says_correct_to_everything() -> None:
    found = calibrate(judge(verdict(CORRECT)), shipped_items(), workers=4)
    for part in (found.overall, *found.languages.values()):
        right = sum(rate.n for kind, rate in part.acceptance.items() if CORRECT in KINDS[kind])
        assert all(rate.value == 1.0 for rate in part.acceptance.values())
        assert part.false_correct == Rate(part.n - right, part.n - right)
        assert part.missed_correct == Rate(0, right)
        assert part.accuracy == Rate(right, part.n) and part.kappa == 0.0
    assert set(found.languages) == {"en", "zh"} and found.overall.n == 120
    assert [entry.item.id for entry in found.graded] == [entry.id for entry in ITEMS]


def test_a_judge_that_says_no_to_everything() -> None:
    part = calibrate(judge(verdict("Omission")), shipped_items()).overall
    assert part.false_correct.hits == 0 and part.missed_correct.value == 1.0 and part.kappa == 0.0


def test_a_judge_without_verdicts_has_no_accuracy() -> None:
    result = {"answer": not_available("no"), "gold_found": {"total": 1, "found": 1}}
    part = calibrate(judge(result), shipped_items()).overall
    assert part.false_correct.value == 1.0 and part.accuracy is None and part.kappa is None
    found = calibrate(load_preset("gold_found"), shipped_items()).overall
    assert found.accuracy is None and found.acceptance["verbatim"].hits > 0


@pytest.mark.parametrize(
    "result",
    [
        {**verdict(CORRECT), "status": "failed_judge"},
        {"answer": not_available("no"), "gold_found": not_available("no")},
    ],
)
def test_a_judge_that_fails_accepts_nothing_and_is_counted(result: dict[str, Any]) -> None:
    part = calibrate(judge(result), shipped_items()).overall
    assert part.failed == part.n == 120 and part.false_correct.hits == 0
    assert part.missed_correct.value == 1.0 and part.accuracy == Rate(0, 120)
    assert grade(judge(result), ITEMS[0]).verdict == FAILED


def test_a_judge_is_shown_gold_and_points_and_neither_label_nor_kind() -> None:
    says = Says(verdict(CORRECT))
    grade(Preset("says", "model", "says-1", "Says", "", says), item("en-55"))
    ((sample, question, record),) = says.seen
    assert record.answer == "You drive a Golf." and question.answers == ("A Skoda Enyaq.",)
    assert [point.text for point in sample.points] == list(item("en-55").points)
    assert [e.id for e in question.evidence] == [point.id for point in sample.points]
    assert {e.kind for e in question.evidence} == {EvidenceKind.POINT}
    assert "stale" not in repr(says.seen) and "Hallucination" not in repr(says.seen)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("en-26", "Correct"),  # "42 kilometres.", word for word
        ("en-03", "Hallucination"),  # the stepfather is forbidden
        ("en-17", "Omission"),  # "Maple syrup.": no key says that it is wrong
        ("en-13", "Omission"),  # a paraphrase that shares no key
        ("en-28", "Hallucination"),  # right, and mentions the forbidden language in passing
        ("en-40", "Omission"),  # a refusal in words that are not the answerer's
        ("en-41", "Correct"),  # the answerer's own refusal
        ("en-45", "Omission"),  # two of three
        ("en-49", "Hallucination"),  # to Leeds
        ("en-53", "Correct"),  # swapped, and the key is one cat's name
        ("zh-04", "Correct"),  # 九月十九号 is 9月19号
        ("zh-60", "Hallucination"),  # 两千七 is 2700
    ],
)
def test_the_keyed_judge_on_a_handful(name: str, says: str) -> None:
    assert grade(KEYED, item(name)).verdict == says


def test_numbers_of_a_handful_by_hand() -> None:
    """The twelve above: 4 Correct, 4 Hallucination and 4 Omission said.

    Labels: Correct en-26, en-13, en-28, en-40, en-41, zh-04 (6); Omission en-45 (1); Hallucination
    en-03, en-17, en-49, en-53, zh-60 (5). Right: en-26, en-03, en-41, en-45, en-49, zh-04, zh-60.
    """
    names = [
        "en-26",
        "en-03",
        "en-17",
        "en-13",
        "en-28",
        "en-40",
        "en-41",
        "en-45",
        "en-49",
        "en-53",
        "zh-04",
        "zh-60",
    ]
    part = scores([grade(KEYED, item(name)) for name in names])
    assert part.accuracy == Rate(7, 12)
    assert part.false_correct == Rate(1, 6) and part.missed_correct == Rate(3, 6)
    assert part.acceptance["paraphrase"] == Rate(1, 3) and part.acceptance["swapped"] == Rate(1, 2)
    expected = (6 * 4 + 1 * 4 + 5 * 4) / 144
    assert part.kappa == pytest.approx((7 / 12 - expected) / (1 - expected))


def test_kappa_of_a_table_known_from_textbooks() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed .7, expected .5, kappa .4."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert kappa(pairs) == pytest.approx(0.4)
    assert kappa([]) is None and kappa([("y", "y")] * 3) is None


CLASSES = st.sampled_from(["Correct", "Hallucination", "Omission"])


@given(st.lists(st.tuples(CLASSES, CLASSES), min_size=1, max_size=40))
def test_kappa_is_one_only_for_agreement_and_is_symmetric(pairs: Sequence[tuple[str, str]]) -> None:
    found = kappa(pairs)
    if found is not None:
        assert -1 <= found <= 1 and (found == 1) == all(a == b for a, b in pairs)
        assert kappa([(b, a) for a, b in pairs]) == pytest.approx(found)


# -- where it is told -----------------------------------------------------------------------


def test_the_error_that_tables_print_is_the_one_measured() -> None:
    part = calibrate(KEYED, shipped_items()).overall
    error = error_of(KEYED)
    assert error == {
        "judge": "keyed",
        "items": shipped_items().id,
        "n": 120,
        "false_correct": part.false_correct.to_json(),
        "missed_correct": part.missed_correct.to_json(),
        "deterministic": True,
    }
    assert json.loads(json.dumps(error)) == error
    assert error_of(judge(verdict(CORRECT))) is None  # a model is asked only when told to


def memrig(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_prints_the_numbers() -> None:
    part = calibrate(KEYED, shipped_items()).overall
    text = memrig("judge", "calibrate", "keyed")
    assert shipped_items().id in text and KEYED.id in text
    swapped = part.acceptance["swapped"]
    assert re.search(rf"swapped +{swapped.value:.2f} +{swapped.hits}/{swapped.n}", text)
    assert re.search(rf"Cohen's kappa +{part.kappa:.2f}", text)
    assert "no accuracy in three classes" in memrig("judge", "calibrate", "gold_found")


def test_the_command_as_json_and_on_other_items(tmp_path: Path) -> None:
    found = json.loads(memrig("judge", "calibrate", "keyed", "--json"))
    assert found["overall"]["n"] == len(found["verdicts"]) == 120
    assert found["items"] == shipped_items().id and set(found["languages"]) == {"en", "zh"}
    other = written(tmp_path, GOOD)
    found = json.loads(memrig("judge", "calibrate", "keyed", "--items", other, "--json"))
    assert found["overall"]["acceptance"] == {"stale": {"hits": 0, "n": 1, "value": 0.0}}
    assert found["verdicts"][0]["verdict"] == "Hallucination" and set(found["languages"]) == {"en"}


def test_the_command_on_nothing_known(tmp_path: Path) -> None:
    assert "keyed" in memrig("judge", "calibrate", "keyd", code=2)
    assert "cannot be read" in memrig(
        "judge", "calibrate", "keyed", "--items", tmp_path / "no", code=2
    )


def test_a_run_may_be_named_without_the_word_run(tmp_path: Path) -> None:
    for words in (["judge", tmp_path], ["judge", "--judge", "keyed", tmp_path]):
        assert "is no run directory" in memrig(*words, code=1)
    assert "is no run directory" in memrig("judge", "run", tmp_path, code=1)
