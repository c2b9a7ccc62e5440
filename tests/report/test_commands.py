"""table, compare, explain, judge and aggregate over a real run of Lossy on drawn data."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from harness import run_eval
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from harness.drawn_bundle import write_bundle
from harness.judging import load_preset
from harness.judging.calibration import calibrate
from harness.judging.items import shipped_items
from harness.loaders import open_dataset
from harness.report.explain import explain as explained
from harness.report.explain import question_story
from harness.report.names import HEADS, counted, find, names_of
from harness.sandbox.process import LocalLauncher
from harness.stages import seal

LOSSY = Path(__file__).resolve().parents[2] / "baselines" / "Lossy" / "adapter.py"
SHAPE = Shape(conversations=6, sessions=4, facts=6, updates=3, hearsay=4, refusals=1)


def lossy(setup: Any) -> Any:
    spec = importlib.util.spec_from_file_location("lossy_of_commands", LOSSY)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LossyAdapter(setup)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, ``good`` and ``bad``, over one bundle."""
    folder = tmp_path_factory.mktemp("commands")
    write_bundle(DrawnDataset(SHAPE, seed=5), folder / "data")
    bad = {"drop": 0.5, "corrupt": 0.3, "stale": 0.5, "hearsay": 0.9}
    for name, options in (("good", {}), ("bad", bad)):
        config = EvalConfig(folder / "data", "Lossy", folder / "runs" / name, options=options)
        run_eval(config, launcher=LocalLauncher(lossy))
    return folder / "runs"


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_the_bundle_says_what_the_generator_says(tmp_path: Path) -> None:
    drawn = DrawnDataset(SHAPE, seed=5)
    write_bundle(drawn, tmp_path / "drawn")
    loaded = open_dataset(tmp_path / "drawn")
    assert loaded.balance == drawn.balance
    for ours, theirs in zip(drawn, loaded, strict=True):
        assert ours.sessions == theirs.sessions
        assert ours.points == theirs.points
        assert [cp.trigger_session for cp in ours.checkpoints] == [
            cp.trigger_session for cp in theirs.checkpoints
        ]
        for mine, other in zip(ours.checkpoints, theirs.checkpoints, strict=True):
            for a, b in zip(mine.questions, other.questions, strict=True):
                assert (a.text, a.answers, a.keys, a.evidence) == (
                    b.text,
                    b.answers,
                    b.keys,
                    b.evidence,
                )
                assert (a.answer_kind, a.id) == (b.answer_kind, b.id)
    with pytest.raises(FileExistsError):
        write_bundle(drawn, tmp_path / "drawn")


def test_table(runs: Path) -> None:
    text = call("table", runs)
    assert text.count("Lossy") >= 2 and "keyed judge" in text and "6 conversations" in text
    rows = json.loads(call("table", runs / "good", "--json"))["rows"]
    assert rows[0]["dimensions"]["memory_recall"]["avg_recall"]["value"] == 1.0
    assert call("table", runs / "good", "-f", "csv").startswith("row,dataset,judge")


def test_table_to_a_file(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.md"
    call("table", runs, "-f", "markdown", "-o", out)
    assert out.read_text(encoding="utf-8").startswith("**data**")


def test_the_judges_error_is_measured_and_printed(runs: Path, tmp_path: Path) -> None:
    found = calibrate(load_preset("keyed"), shipped_items()).overall
    wrong, right = found.false_correct, found.missed_correct
    said = (
        f"keyed judge on {found.n} calibration items: accepts {wrong.hits} of {wrong.n} wrong "
        f"answers, misses {right.hits} of {right.n} right ones; deterministic, not exact"
    )
    for fmt in ("text", "markdown"):
        assert " ".join(call("table", runs, "-f", fmt).split()).count(said) == 1
    call("report", runs, "-o", tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_verify_measures_the_judge_again_on_the_same_items_only(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "good", run)
    assert "computed again from the records" in call("verify", run)
    aggregate = json.loads((run / "aggregate_metrics.json").read_text(encoding="utf-8"))
    error = aggregate["calibration"]

    def stated(calibration: Any, code: int) -> str:
        (run / "aggregate_metrics.json").write_text(
            json.dumps({**aggregate, "calibration": calibration}), encoding="utf-8"
        )
        seal(run)
        return " ".join(call("verify", run, code=code).split())

    better = {**error, "false_correct": {**error["false_correct"], "hits": 0}}
    assert "calibration is not what the records add up to" in stated(better, 1)
    assert "of other items" in stated({**better, "items": "calibration-00000000"}, 0)
    assert "of other items" in stated(None, 0)


def test_compare(runs: Path) -> None:
    text = call("compare", runs / "good", runs / "bad")
    assert "cannot be shown with 6 conversations among" in text
    assert "(smallest p = 0.0312). Compare one with --metric" in text
    assert "interval (cluster-robust t) and p (sign-flip" in text and "different tests" in text
    table = text.split("\n\n")[1]
    assert max(len(line) for line in table.splitlines()) <= 80 and "too few" in table
    assert "A is better" in call("compare", runs / "good", runs / "bad", "--metric", "recall")
    assert "A is better" in call("compare", runs / "good", runs / "bad", "--metric", "QA correct")
    assert "only B right 0 of 78; exact McNemar p < 0.0001 (unclustered" in text
    found = json.loads(call("compare", runs / "good", runs / "bad", "--json"))
    recall = next(n for n in found["numbers"] if n["key"] == "memory_recall.avg_recall")
    assert recall["paired"]["conversations"] == 6 and recall["a"] == 1.0
    assert recall["verdict"].startswith("cannot be shown with 6 conversations")
    assert "unknown number" in call("compare", runs / "good", runs / "bad", "--metric", "x", code=2)


def test_a_run_compared_with_itself_is_equal(runs: Path) -> None:
    text = call("compare", runs / "good", runs / "good")
    assert "are equal in every number compared" in text
    assert "distinguishable" not in text and "different tests" not in text


@pytest.fixture
def unkeyed(runs: Path, tmp_path: Path) -> Path:
    """The runs ``good`` and ``bad`` over the same data without any key."""
    shutil.copytree(runs.parent / "data", tmp_path / "data")
    for file in (tmp_path / "data").rglob("*.json*"):
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r'"keys":', '"unread":', text), encoding="utf-8")
    for name in ("good", "bad"):
        config = EvalConfig(tmp_path / "data", "Lossy", tmp_path / name)
        run_eval(config, launcher=LocalLauncher(lossy))
    return tmp_path


def test_the_keyed_judge_on_data_without_keys(unkeyed: Path) -> None:
    text = call("judge", unkeyed / "good", "--judge", "keyed")
    assert "this replaces the run's judgement by gold_found-" in text
    row = json.loads(call("table", unkeyed / "good", "--json"))["rows"][0]
    cells = [cell for numbers in row["dimensions"].values() for cell in numbers.values()]
    assert [cell["value"] for cell in cells] == [None] * len(cells)
    assert row["dimensions"]["memory_correctness"]["avg_correctness"]["na"] == (
        "the data carry no keys"
    )
    assert "this replaces the run's judgement by the same judge" in call(
        "judge", unkeyed / "good", "--judge", "keyed"
    )
    call("judge", unkeyed / "bad", "--judge", "keyed")
    text = call("compare", unkeyed / "good", unkeyed / "bad")
    assert "nothing to compare" in text and "the data carry no keys" in text
    assert "distinguishable" not in text
    assert "no difference can reach" not in call("table", unkeyed / "good", unkeyed / "bad")


def test_every_number_is_the_sum_of_the_records_that_explain_shows(runs: Path) -> None:
    row = json.loads(call("table", runs / "bad", "--json"))["rows"][0]
    seen = 0
    for dimension, numbers in row["dimensions"].items():
        for name, cell in numbers.items():
            found = json.loads(call("explain", runs / "bad", f"{dimension}.{name}", "--json"))
            if cell["value"] is None:
                assert found["denominator"] == 0 and found["cell"]["na"]
                continue
            parts = sum(record["numerator"] for record in found["records"])
            total = sum(record["denominator"] for record in found["records"])
            assert total == cell["N"]
            assert parts / total == pytest.approx(cell["value"])
            seen += 1
    assert seen >= 10


def test_explain_in_words(runs: Path) -> None:
    assert "memory_recall.avg_recall" in call("explain", runs / "bad")
    recall = call("explain", runs / "bad", "recall", "--limit", "2")
    assert "mean over the sessions" in recall and "missed (in no memory)" in recall
    assert "Wilson, unclustered" in call("explain", runs / "bad", "qa")
    assert "rejected" in call("explain", runs / "bad", "interference", "--limit", "99")
    assert "updated (new value in memory" in call(
        "explain", runs / "bad", "update", "--limit", "99"
    )
    story = call("explain", runs / "good", "drawn_00000/cp1:0")
    assert "answered from here" in story and "verdict Correct" in story


PRINTED = [*(" ".join(heads) for heads in HEADS.values()), "degr./failed"]
MADE_OF = [
    "keyed_correct",
    "keyed_evidence@5",
    "halluc.",
    "latency",
    "context",
    "state",
    "memories",
]


@pytest.mark.parametrize("name", [*PRINTED, *MADE_OF, "in the box", "retrieve ms", "ingest ms"])
def test_everything_that_a_table_prints_can_be_explained(runs: Path, name: str) -> None:
    text = call("explain", runs / "bad", name, "--limit", "1")
    assert len(text.splitlines()) > 2
    json.loads(call("explain", runs / "bad", name, "--json"))


@pytest.mark.parametrize("name", ["recall@5", "ndcg@5", "nDCG@5 by source"])
def test_retrieval_is_the_mean_of_the_records_that_explain_shows(runs: Path, name: str) -> None:
    row = json.loads(call("table", runs / "bad", "--json"))["rows"][0]
    found = json.loads(call("explain", runs / "bad", name, "--json"))
    cell = row["retrieval"]["recall@5" if name.startswith("recall") else "ndcg@5"]
    if cell["value"] is None:
        assert not found["records"] and found["cell"]["na"] == cell["na"]
        return
    parts = [record["numerator"] for record in found["records"]]
    assert sum(parts) / len(parts) == pytest.approx(cell["value"])
    assert len(parts) == cell["N"]


def test_explain_of_nothing_known(runs: Path) -> None:
    text = call("explain", runs / "bad", "what is the meaning", code=2)
    assert "no number of the table and in no question" in text
    assert "QA correct" in text and "recall@5" in text and "retrieve ms" in text


def line(question: str, status: str, verdict: str | None, **more: Any) -> dict[str, Any]:
    graded = {
        "judge": "keyed-1",
        "answer": {"total": 1, "verdict": verdict},
        "retrieval": {"total": 2, "first": [None, 2]},
    }
    failed = {"kind": "TIMEOUT", "message": "retrieve took too long\nfor it"}
    base = {
        "sample_id": "s",
        "session_id": "S1",
        "question_id": question,
        "question": "why?",
        "status": status,
        "answer": None if verdict is None else "because",
        "failure": failed if verdict is None else None,
        "retrieved": None,
    }
    return {**base, "eval": graded, **more}


@pytest.mark.parametrize("name", ["QA correct", "QA halluc.", "recall@5"])
def test_failed_records_stand_first_with_their_failure(name: str) -> None:
    lines = [line("a", "ok", "Hallucination"), line("b", "failed_retrieve", None)]
    cell = {"metric_id": "x", "value": 0.0}
    numbers = {"correct_ratio": cell, "hallucination_ratio": cell}
    aggregate = {
        "dimensions": {"question_answering": numbers},
        "retrieval": {"recall@5": cell},
    }
    found_name = find(names_of(aggregate), name)
    assert found_name is not None
    first = explained(found_name, aggregate, [], lines).units[0]
    assert first.where == "b"
    assert first.shown[0] == "failed: TIMEOUT: retrieve took too long"
    assert "None" not in " ".join(first.shown)


def test_a_story_of_a_failed_question_and_of_one_that_is_read_whole() -> None:
    told = " ".join(question_story(line("b", "failed_retrieve", None)))
    assert "no answer (failed_retrieve)" in told and "answered: None" not in told
    assert "cited source 1: not retrieved; cited source 2: first at rank 2" in told
    items = [{"memory_id": str(i), "text": f"memory {i}"} for i in range(20)]
    whole = line("c", "ok", "Correct", retrieved=items, top_k=5, answer_from=15)
    told = "\n".join(question_story(whole, whole=True))
    assert "20 memories, all of them are read and scored" in told and "first 5" not in told
    assert "16. [15] memory 15 <- answered from here" in told and "and 9 more" in told
    assert "the first 5 are scored" in "\n".join(question_story(whole))


@pytest.mark.parametrize(
    ("count", "what", "text"),
    [(1, "conversations", "1 conversation"), (1, "memories", "1 memory"), (2, "runs", "2 runs")],
)
def test_counted(count: int, what: str, text: str) -> None:
    assert counted(count, what) == text


def test_judge_again_with_another_and_back(runs: Path) -> None:
    before = (runs / "bad" / "aggregate_metrics.json").read_bytes()
    call("judge", runs / "bad", "--judge", "gold_found")
    text = call("table", runs / "bad")
    assert "gold_found lower bound" in text and "N/A: needs a judge model" in text
    assert "replaces the run's judgement by gold_found-" in call("judge", runs / "bad")
    assert (runs / "bad" / "aggregate_metrics.json").read_bytes() == before


def test_aggregate_again_changes_nothing(runs: Path) -> None:
    file = runs / "good" / "aggregate_metrics.json"
    before = file.read_bytes()
    assert json.loads(call("aggregate", runs / "good", "--dry-run")) == json.loads(before)
    call("aggregate", runs / "good")
    assert file.read_bytes() == before


def test_what_is_no_run(tmp_path: Path) -> None:
    call("table", tmp_path, code=2)
    call("explain", tmp_path, code=1)
    call("aggregate", tmp_path, code=1)
