"""Tables: what a reader must be told, in every format, and marks that do not overstate."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

from harness.aggregate.compare import compare
from harness.aggregate.stats import cluster_t
from harness.outcomes import RunError, UnknownName
from harness.report.layout import BEST, HEADS, TIED, bounds, number, tables_of
from harness.report.tables import CSV_COLUMNS, render, renderable

GOLD_FOUND = "question_answering.gold_found"
FAILED = "question_answering.failed_ratio"
KEYS = [key for key in HEADS if key not in (GOLD_FOUND, FAILED)]


def cell(y: list[float], x: list[float], key: str, **more: Any) -> dict[str, Any]:
    total = sum(x)
    value = sum(y) / total
    interval = cluster_t(y, x)
    made = {
        "metric_id": f"m_{key.partition('.')[2]}/judge-1",
        "unit": "units",
        "value": value,
        "valid": value,
        "n": int(total),
        "N": int(total),
        "interval": list(interval.bounds) if interval.bounds else None,
        "clusters": interval.clusters,
        "no_interval": interval.reason,
        "na": None,
    }
    return {**made, **more}


def row(name: str, rights: list[float], of: float = 10, **more: Any) -> dict[str, Any]:
    """An aggregate whose every number has ``rights`` right of ``of`` a conversation."""
    dimensions: dict[str, Any] = {}
    x = [of] * len(rights)
    for key in KEYS:
        dimension, _, short = key.partition(".")
        dimensions.setdefault(dimension, {})[short] = cell(rights, x, key)
    made = {
        "row": name,
        "dataset": "chats",
        "judge": "keyed-1",
        "judge_title": "keyed judge",
        "answerer": "extractive/1",
        "top_k": 5,
        "sandbox": "venv",
        "title": "chats",
        "statuses": {"sessions": {"ok": len(rights)}, "questions": {"ok": 1, "failed_answer": 2}},
        "degraded": {"sessions": 1, "questions": 0, "reasons": {}},
        "dimensions": dimensions,
        "retrieval": {},
        "measurements": {"latency_ms": {}, "memory_size": [], "context_tokens": {"p50": None}},
        "conversations": {
            "ids": [f"c{i}" for i in range(len(rights))],
            "numbers": {key: {"y": list(rights), "x": list(x)} for key in KEYS},
        },
    }
    return {**made, **more}


GOOD = [9.0, 8.0, 9.0, 10.0, 9.0, 8.0, 9.0, 9.0]
SAME = [8.0, 9.0, 9.0, 9.0, 10.0, 8.0, 9.0, 9.0]
POOR = [2.0, 3.0, 1.0, 2.0, 2.0, 3.0, 2.0, 1.0]
RECALL = "memory_recall.avg_recall"
HALLUCINATION = "question_answering.hallucination_ratio"


def marks(*rows: dict[str, Any], key: str = RECALL) -> list[str]:
    (table,) = tables_of(rows)
    place = table.keys.index(key)
    return [made.cells[place].mark for made in table.rows]


def test_the_title_names_data_judge_answerer_depth_and_sandbox() -> None:
    text = render([row("Mine", GOOD, data_note="memrig's own sample data")])
    for told in ("chats", "keyed judge [keyed-1]", "extractive/1", "top 5", "venv", "8 conv"):
        assert told in text
    assert "memrig's own sample data" in text


def test_text_fits_a_terminal_and_every_row_is_named() -> None:
    rows = [row("MemEngine-LTMemory", GOOD), row("A-quite-long-name-of-a-system", POOR)]
    text = render(rows)
    assert max(len(line) for line in text.splitlines()) <= 112
    assert "MemEngine-LTMemory" in text and "A-quite-long-name-of-a-system" in text
    assert renderable(rows) is not None
    assert "QA omitted (N 80)" in render(rows, "markdown").splitlines()[6]


def test_value_interval_and_counts_of_failures() -> None:
    mine = row("Mine", GOOD)
    mine["dimensions"]["memory_recall"]["avg_recall"].update(n=75, valid=0.9467)
    text = render([mine])
    found = mine["dimensions"]["memory_recall"]["avg_recall"]
    for told in (number(found["value"]), bounds(found["interval"]), "75/80", "v .947", "1/2"):
        assert told in text
    markdown = render([mine], "markdown")
    assert "(75/80, valid .947)" in markdown


def test_not_available_has_its_reason_and_never_a_zero() -> None:
    mine = row("Mine", GOOD)
    mine["dimensions"]["update_handling"]["score"].update(value=None, na="it cannot list its store")
    for fmt in ("text", "markdown", "latex"):
        text = render([mine], fmt)
        assert "it cannot list its store" in text
    assert "—¹ N/A: it cannot list its store" in render([mine])


def test_all_six_dimensions_stand_there_even_if_empty() -> None:
    mine = row("Mine", GOOD)
    for numbers in mine["dimensions"].values():
        for entry in numbers.values():
            entry.update(value=None, na="needs a judge model")
    (table,) = tables_of([mine])
    assert {key.partition(".")[0] for key in table.keys} == set(mine["dimensions"])
    assert any("not shown" in note and "QA hallucination" in note for note in table.footnotes)


def test_one_clear_winner_is_marked() -> None:
    assert marks(row("A", GOOD), row("B", POOR)) == [BEST, ""]


def test_what_cannot_be_told_apart_is_tied_rather_than_best() -> None:
    assert marks(row("A", GOOD), row("B", SAME), row("C", POOR)) == [TIED, TIED, ""]


def test_less_is_better_for_hallucination() -> None:
    assert marks(row("A", GOOD), row("B", POOR), key=HALLUCINATION) == ["", BEST]


def test_four_conversations_cannot_show_a_difference_and_the_table_says_so() -> None:
    rows = [row("A", GOOD[:4]), row("B", POOR[:4])]
    assert marks(*rows) == ["", ""]
    assert "with 4 conversations no difference can reach p < 0.05" in " ".join(render(rows).split())


def test_reference_rows_are_not_ranked() -> None:
    rows = [row("Oracle", [10.0] * 8, reference=True), row("A", GOOD), row("B", POOR)]
    assert marks(*rows) == ["", BEST, ""]
    assert "reference row" in render(rows)
    assert marks(rows[0], rows[1]) == ["", ""]  # one ranked row has nobody to be better than


def test_rows_of_another_judge_or_data_get_their_own_table() -> None:
    rows = [row("A", GOOD), row("B", GOOD, judge="gold_found-2"), row("C", GOOD, dataset="other")]
    assert [len(table.rows) for table in tables_of(rows)] == [1, 1, 1]
    assert marks(rows[0]) == [""]
    with pytest.raises(RunError, match="differ in judge: 'keyed-1' and 'gold_found-2'"):
        compare(rows[0], rows[1])


def test_csv_is_long_and_whole() -> None:
    mine = row("Mine", GOOD)
    mine["retrieval"] = {"recall@5": cell([1.0, 2.0], [2.0, 2.0], "retrieval.recall@5")}
    lines = list(csv.DictReader(io.StringIO(render([mine], "csv"))))
    assert list(lines[0]) == list(CSV_COLUMNS)
    assert len(lines) == len(KEYS) + 1
    first = next(line for line in lines if line["number"] == "avg_recall")
    found = mine["dimensions"]["memory_recall"]["avg_recall"]
    assert float(first["value"]) == found["value"] and float(first["low"]) == found["interval"][0]
    assert first["row"] == "Mine" and first["N"] == "80"


def test_json_has_the_cells_and_not_the_sums() -> None:
    found = json.loads(render([row("Mine", GOOD)], "json"))
    assert found["rows"][0]["row"] == "Mine" and "conversations" not in found["rows"][0]


ERROR = {
    "judge": "keyed",
    "items": "calibration-1",
    "n": 120,
    "false_correct": {"hits": 3, "n": 92, "value": 3 / 92},
    "missed_correct": {"hits": 9, "n": 28, "value": 9 / 28},
    "deterministic": True,
}
SAID = (
    "keyed judge on 120 calibration items: accepts 3 of 92 wrong answers, misses 9 of 28 right "
    "ones; deterministic, not exact"
)


@pytest.mark.parametrize("fmt", ["text", "markdown", "latex"])
def test_the_judges_error_stands_once_under_every_table(fmt: str) -> None:
    rows = [row("A", GOOD, calibration=ERROR), row("B", POOR, calibration=dict(ERROR))]
    text = " ".join(render(rows, fmt).split())
    assert text.count(SAID) == 1
    other = row("C", POOR, calibration={**ERROR, "n": 60})  # made by a memrig with other items
    assert " ".join(render([*rows, other], fmt).split()).count("calibration items") == 2
    model = row("D", GOOD, calibration={**ERROR, "deterministic": False})
    assert "not exact" not in render([model], fmt)


@pytest.mark.parametrize("more", [{}, {"calibration": None}])
def test_a_judge_that_was_not_measured_claims_nothing(more: dict[str, Any]) -> None:
    assert "calibration" not in render([row("A", GOOD, **more)])


@pytest.mark.parametrize("width", [60, 80, 90, 100, 112, 160])
@pytest.mark.parametrize(
    "name", ["BM25", "MemEngine-LTMemory", "A-quite-long-name-of-a-system", "记忆系统"]
)
def test_no_width_costs_a_name_or_a_number(width: int, name: str) -> None:
    rows = [row(name, GOOD), row("B", POOR)]
    rows[0]["measurements"]["latency_ms"] = {"host.retrieve": {"p50": 1.0, "p95": 2.0}}
    text = render(rows, width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    lines = text.splitlines()
    named = [line for line in lines if line.startswith(name)]
    assert len(named) >= 2  # the dimensions and what is beside them
    value = number(rows[0]["dimensions"]["memory_recall"]["avg_recall"]["value"])
    assert sum(line.count(value) for line in named) == len(KEYS)
    assert sum(line.count(".200") for line in lines if line.startswith("B ")) == len(KEYS)


def test_a_narrow_table_is_parted_between_sessions_and_questions() -> None:
    lines = render([row("MemEngine", GOOD), row("B", POOR)], width=80).splitlines()
    heads = [line.split() for line in lines if "Memory" in line.split() or "QA" in line.split()]
    assert heads[0] == ["Memory", "Update", "Memory", "Memory", "Update", "Interf."]
    assert heads[1][:2] == ["QA", "QA"]


def test_a_name_too_long_for_any_terminal_is_folded_and_not_cut() -> None:
    name = "x" * 30 + "y" * 30
    text = render([row(name, GOOD)], width=60)
    folded = [line.split()[0] for line in text.splitlines() if line.startswith(("xx", "yy"))]
    assert "".join(folded).startswith(name)


def with_failures(name: str, wrong: list[float], failed: list[float]) -> dict[str, Any]:
    """Of 10 questions a conversation some break off; none of the others but ``wrong`` is wrong."""
    mine = row(name, GOOD)
    x = [10.0] * len(wrong)
    valid = sum(wrong) / (sum(x) - sum(failed))
    n = int(sum(x) - sum(failed))
    qa = mine["dimensions"]["question_answering"]
    qa["hallucination_ratio"] = cell(wrong, x, HALLUCINATION, n=n, valid=valid)
    qa["failed_ratio"] = cell(failed, x, FAILED, n=n, valid=0.0)
    mine["conversations"]["numbers"] |= {
        HALLUCINATION: {"y": wrong, "x": x},
        FAILED: {"y": failed, "x": x},
    }
    return mine


def test_failed_questions_have_a_column_and_are_said_to_be_in_none_of_the_others() -> None:
    text = " ".join(render([with_failures("Crashy", [1.0] * 8, [8.0] * 8)]).split())
    (table,) = tables_of([with_failures("Crashy", [1.0] * 8, [8.0] * 8)])
    assert FAILED in table.keys and ("QA", "failed") in table.heads
    assert "add up to 1: a failed question is neither a hallucination nor an omission" in text
    assert FAILED not in tables_of([row("Fine", GOOD)])[0].keys


def test_a_row_is_not_best_for_breaking_off_before_it_could_be_wrong() -> None:
    crashes, answers = [1.0] * 8, [3.0] * 8
    rows = [with_failures("Crashy", crashes, [9.0] * 8), with_failures("Fine", answers, [0.0] * 8)]
    assert marks(*rows, key=HALLUCINATION) == ["", ""]
    assert "not marked: QA halluc." in render(rows)
    fewer = [with_failures("Good", crashes, [0.0] * 8), rows[1]]
    assert marks(*fewer, key=HALLUCINATION) == [BEST, ""]


def test_why_no_row_is_marked() -> None:
    few = "no difference can reach"
    alike = [row("A", GOOD[:4]), row("B", GOOD[:4])]
    assert few not in render(alike) and "equal in every column" in render(alike)
    nothing = [row("A", GOOD[:4]), row("B", POOR[:4])]
    for made in nothing:
        for numbers in made["dimensions"].values():
            for entry in numbers.values():
                entry.update(value=None, na="the data carry no keys")
        made["conversations"]["numbers"] = {}
    assert few not in render(nothing) and "no row is marked" not in render(nothing)
    three = [row(name, GOOD[:7]) for name in "ABCDE"]
    three[0] = row("A", POOR[:7])  # 4 comparisons of p >= 1/64 cannot pass Holm
    text = " ".join(render(three).split())
    assert "with 7 conversations no difference among 5 rows can reach p < 0.05" in text


def test_n_stands_in_the_heads_and_a_missing_interval_has_its_reason() -> None:
    rows = [row("A", GOOD), row("B", [5.0] * 8)]
    rows[1]["dimensions"]["memory_correctness"]["avg_correctness"]["N"] = 72
    text = render(rows, width=160)
    assert " N 80 " in text and "N 72–80" in text and "N counts sessions (" in text
    assert "° no interval: no variation between conversations" in text
    assert " .500 ° |" in render(rows, "markdown") and "[°]" not in render(rows, "markdown")
    made = tables_of(rows)[0]
    assert {c.interval for c in made.rows[1].cells} == {"°"}
    alone = render([row("A", [5.0])])
    assert "no value has an interval: fewer than 2 conversations" in alone and "°" not in alone
    assert "1 conversation " in render([row("A", [5.0])], "markdown")


def test_dashes_beside_the_dimensions_have_reasons() -> None:
    mine, oracle = row("Mine", GOOD), row("Oracle", GOOD, reference=True)
    mine["retrieval"] = {
        "recall@5": {"value": 0.5, "na": None},
        "ndcg@5": {"value": None, "na": "the system does not say"},
    }
    oracle["retrieval"] = {"ndcg@5": {"value": 0.7, "na": None}}
    table = tables_of([mine, oracle])[0]
    assert table.beside is not None
    assert table.beside.rows == (("0.500", "—¹"), ("—²", "0.700"))
    assert "—¹ N/A: the system does not say" in table.footnotes
    assert "—² N/A: unsupported: host-side reference row" in table.footnotes
    for fmt in ("text", "markdown"):
        assert "—² N/A" in render([mine, oracle], fmt)


def without_verdicts(name: str, found: float | None, **more: Any) -> dict[str, Any]:
    mine = row(name, GOOD, **more)
    for numbers in mine["dimensions"].values():
        for entry in numbers.values():
            entry.update(value=None, na="needs a judge model")
    entry = cell([1.0], [1.0], GOLD_FOUND, value=found)
    entry["na"] = None if found is not None else "a rubric has no answer to look for"
    mine["dimensions"]["question_answering"]["gold_found"] = entry
    mine["conversations"]["numbers"] = {}
    return mine


def test_gold_found_without_a_number_says_why() -> None:
    text = render([without_verdicts("Mine", None)])
    assert "QA gold" in text and "N/A: a rubric has no answer to look for" in text


def test_a_constant_answer_that_is_as_good_is_pointed_at() -> None:
    floor = row("ConstantFloor", SAME, reference=True)
    reached = number(sum(SAME) / 80)
    said = f"the constant answer reaches {reached} in QA correct: this number says little"
    assert said in " ".join(render([row("A", POOR), floor]).split())
    assert "constant answer" not in render([row("A", [*GOOD, 10.0]), floor])
    assert "in QA halluc." not in render([row("A", POOR), floor])
    ceiling = row("Oracle", POOR, reference=True)
    assert said in " ".join(render([row("A", [10.0] * 8), floor, ceiling]).split())


def test_rows_of_one_name_are_told_apart_and_so_are_sandboxes() -> None:
    rows = [row("A", GOOD, run="monday"), row("A", POOR, run="tuesday", sandbox="container")]
    for fmt in ("text", "markdown", "latex"):
        text = render(rows, fmt)
        assert "monday" in text and "tuesday" in text
        assert "in venv" in text and "in container" in text
    assert "in venv" not in render([rows[0], row("B", GOOD)])
    assert "monday" not in render([rows[0], row("B", GOOD)])


def test_a_row_that_returns_all_it_has() -> None:
    assert "Whole returns all it has; k does not apply" in render(
        [row("Whole", GOOD, full_context=True)]
    )


def test_latex_escapes_and_balances() -> None:
    text = render([row("A_b & 50%", GOOD), row("B", SAME)], "latex")
    assert r"A\_b \& 50\%" in text and r"$\approx$" in text
    assert text.count("{") == text.count("}")
    assert len(re.findall(r"\\begin", text)) == len(re.findall(r"\\end", text)) == 2


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="markdown"):
        render([row("Mine", GOOD)], "markdwn")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, ".000"), (1.0, "1.000"), (0.1234, ".123"), (0.9996, "1.000")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_bounds() -> None:
    assert bounds([0.0, 1.0]) == "0–1"
    assert bounds([0.566, 0.7149]) == ".57–.71"


def test_compare_says_which_and_why() -> None:
    results = {entry.key: entry for entry in compare(row("A", GOOD * 2), row("B", POOR * 2))}
    assert results[RECALL].winner == "a" and results[HALLUCINATION].winner == "b"
    missing = results["question_answering.gold_found"]
    assert missing.winner is None and missing.reason is not None
    adjusted = [entry.p_holm for entry in results.values() if entry.p_holm is not None]
    assert len(adjusted) == len(KEYS) and all(p <= 1 for p in adjusted)
    equal = {entry.key: entry for entry in compare(row("A", GOOD), row("B", SAME))}
    assert not any(entry.different for entry in equal.values())


def test_compare_uses_the_shared_conversations_only() -> None:
    other = row("B", POOR)
    other["conversations"]["ids"] = [f"c{i}" for i in range(4, 12)]
    entry = compare(row("A", GOOD), other, [RECALL])[0]
    assert entry.paired is not None and entry.paired.conversations == 4
    other["conversations"]["ids"] = [f"d{i}" for i in range(8)]
    with pytest.raises(RunError, match="share no conversation"):
        compare(row("A", GOOD), other)
