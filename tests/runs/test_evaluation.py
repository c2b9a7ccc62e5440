"""run_eval as a whole: what is run, what is reused, what is refused, and what verify sees."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty import FaultyLauncher, never
from typer.testing import CliRunner

from cli.main import app
from harness import run_eval
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from harness.evaluation import RunResult
from harness.judging import load_preset
from harness.outcomes import ManifestMismatch, RunError, UnknownName, UsageError
from harness.pipeline import events
from harness.runs import Run, diff, merge
from harness.runs.directory import (
    AGGREGATE,
    JUDGED_QUESTIONS,
    JUDGED_SESSIONS,
    PIPELINE_QUESTIONS,
    PIPELINE_SESSIONS,
)
from harness.stages import aggregate_run, judge_run
from harness.verification import verify

DATA = DrawnDataset(Shape(conversations=4, sessions=2, facts=4, updates=2, hearsay=1), seed=5)
ROOT = Path(__file__).parents[2]

Evaluate = Callable[..., RunResult]


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    def run(
        name: str = "run", *, launcher: Any = None, judge: Any = None, **more: Any
    ) -> RunResult:
        on_event = more.pop("on_event", None)
        return run_eval(
            EvalConfig(tmp_path, "Plain", tmp_path / name, **more),
            load_domain_bundle=lambda _: DATA,
            launcher=launcher or FaultyLauncher(never),
            judge=judge,
            on_event=on_event,
        )

    return run


def test_a_run_and_its_files(evaluate: Evaluate, tmp_path: Path) -> None:
    told: list[events.Event] = []
    result = evaluate(on_event=told.append, jobs=2)
    assert result.aggregate == json.loads((tmp_path / "run" / AGGREGATE).read_text())
    assert result.manifest is not None
    made = result.manifest.pipeline
    assert made["dataset"]["content_sha256"] == DATA.content_sha256
    assert made["answerer"]["id"].startswith("extractive-bm25/1")
    assert made["box"]["kind"] == "process" and made["seed"] == 0
    assert result.manifest.judge["id"].startswith("keyed-")
    kinds = Counter(type(event).__name__ for event in told)
    assert kinds["SampleStarted"] == kinds["SampleDone"] == kinds["BoxReady"] == 4
    assert kinds["SessionDone"] == 8 and kinds["RunDone"] == 1
    assert kinds["QuestionDone"] == DATA.balance.questions
    last = [event for event in told if isinstance(event, events.JudgeProgress)][-1]
    assert last.done == last.total == 8 + DATA.balance.questions


def test_what_is_finished_is_not_done_again(evaluate: Evaluate) -> None:
    first = evaluate()
    launcher = FaultyLauncher(never)
    assert evaluate(launcher=launcher).aggregate == first.aggregate
    assert not launcher.calls


def test_nothing_is_written_by_a_dry_run(evaluate: Evaluate, tmp_path: Path) -> None:
    result = evaluate(dry_run=True)
    assert result.aggregate is None and result.plan.sessions == 8
    assert result.samples == DATA.sample_ids
    assert not (tmp_path / "run").exists()


def test_smoke_samples_and_shards(evaluate: Evaluate) -> None:
    ids = DATA.sample_ids
    assert evaluate("a", smoke=True).samples == ids[:1]
    assert evaluate("b", samples=(ids[2], ids[1])).samples == ids[1:3]
    assert evaluate("c", shard=(2, 3)).samples == (ids[1],)
    with pytest.raises(UnknownName, match="Available"):
        evaluate("d", samples=("nobody",))
    with pytest.raises(UsageError, match="shard 4/3"):
        evaluate("e", shard=(4, 3))
    for wrong in ({"jobs": 0}, {"top_k": 0}, {"max_sessions": 0}, {"max_eval_workers": 0}):
        with pytest.raises(UsageError, match="not at least 1"):
            evaluate("f", **wrong)


def test_a_box_is_seeded_alike_however_the_samples_are_cut(evaluate: Evaluate) -> None:
    whole, part = FaultyLauncher(never), FaultyLauncher(never)
    evaluate("a", launcher=whole)
    evaluate("b", launcher=part, samples=DATA.sample_ids[3:])
    assert set(part.lives) == {"s0004"} and "s0004" in whole.lives


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"top_k": 4}, "pipeline.top_k"),
        ({"seed": 1}, "pipeline.seed"),
        ({"max_sessions": 1}, "pipeline.selection.max_sessions"),
        ({"images": "both"}, "pipeline.images"),
        ({"options": {"x": 1}}, "pipeline.baseline.options"),
    ],
)
def test_another_configuration_is_not_resumed_into(
    evaluate: Evaluate, change: dict[str, Any], field: str
) -> None:
    evaluate()
    with pytest.raises(ManifestMismatch, match=field):
        evaluate(**change)
    evaluate(jobs=3, max_eval_workers=1)


def test_eval_only_judges_anew_and_starts_no_box(evaluate: Evaluate, tmp_path: Path) -> None:
    first = evaluate()
    assert first.aggregate is not None
    launcher = FaultyLauncher(never)
    other = load_preset("gold_found")
    with pytest.raises(ManifestMismatch, match=r"judge(.|\n)*--eval-only"):
        evaluate(judge=other)
    second = evaluate(judge=other, eval_only=True, launcher=launcher)
    assert not launcher.calls and second.aggregate is not None
    assert second.aggregate["judge"] == other.id != first.aggregate["judge"]
    assert evaluate(eval_only=True).aggregate == first.aggregate
    assert verify(tmp_path / "run", DATA).passed
    with pytest.raises(RunError, match="no run directory"):
        evaluate("nowhere", eval_only=True)
    assert not (tmp_path / "nowhere").exists()


def test_judging_goes_on_after_the_last_whole_line(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate()
    path = tmp_path / "run"
    whole = {name: (path / name).read_bytes() for name in (JUDGED_SESSIONS, JUDGED_QUESTIONS)}
    preset = load_preset("keyed")
    counted = _Counting(preset.judge)
    counting = dataclasses.replace(preset, judge=counted)
    for name, data in whole.items():
        total = data.count(b"\n")
        for size in (0, 1, len(data) // 2, len(data) - 1):
            (path / name).write_bytes(data[:size])
            counted.calls = 0
            with Run.resume(path, Run.open(path).manifest) as run:
                graded = judge_run(run, DATA, counting, workers=2)
            assert graded == counted.calls == total - data[:size].count(b"\n")
            assert {n: (path / n).read_bytes() for n in whole} == whole
    (path / JUDGED_QUESTIONS).write_bytes(whole[JUDGED_QUESTIONS] + b'{"more": 1}\n')
    with Run.resume(path, Run.open(path).manifest) as run:
        assert judge_run(run, DATA, preset) == 0
    assert (path / JUDGED_QUESTIONS).read_bytes() == whole[JUDGED_QUESTIONS]


class _Counting:
    def __init__(self, judge: Any) -> None:
        self._judge, self.calls = judge, 0

    def session(self, *args: Any) -> Any:
        self.calls += 1
        return self._judge.session(*args)

    def question(self, *args: Any) -> Any:
        self.calls += 1
        return self._judge.question(*args)


def test_shards_merged_are_the_whole(evaluate: Evaluate, tmp_path: Path) -> None:
    whole = evaluate("whole")
    paths = [evaluate(f"part{n}", shard=(n, 3)).path for n in (1, 2, 3)]
    with pytest.raises(RunError, match="need each shard"):
        merge(paths[:2], tmp_path / "m0")
    with pytest.raises(RunError, match="need each shard"):
        merge([paths[0], *paths], tmp_path / "m1")
    with pytest.raises(RunError, match="is no shard"):
        merge([tmp_path / "whole"], tmp_path / "m2")
    other = evaluate("other", shard=(3, 3), top_k=3).path
    with pytest.raises(RunError, match=r"pipeline\.top_k"):
        merge([*paths[:2], other], tmp_path / "m3")
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith("m")]
    preset = load_preset("keyed")
    with merge(list(reversed(paths)), tmp_path / "merged") as run:
        judge_run(run, DATA, preset)
        merged = aggregate_run(run, preset)
    found = diff(Run.open(tmp_path / "merged"), Run.open(tmp_path / "whole"))
    assert found.equal, found
    assert whole.aggregate is not None
    assert merged["dimensions"] == whole.aggregate["dimensions"]
    assert verify(tmp_path / "merged", DATA).passed


def test_diff_says_what_would_have_to_be_done_again(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate("one")
    evaluate("two", jobs=3)
    evaluate("judged", judge=load_preset("gold_found"))
    evaluate("deeper", max_k=12)
    one = Run.open(tmp_path / "one")
    same = diff(one, Run.open(tmp_path / "two"))
    assert (same.verdict, same.field, same.records) == ("reuse", None, 8 + DATA.balance.questions)
    judged = diff(one, Run.open(tmp_path / "judged"))
    assert (judged.verdict, judged.field) == ("re-judge", "judge.name")
    assert judged.records_equal
    first = Run.open(tmp_path / "two").finished[0].sample_id
    deeper = diff(one, Run.open(tmp_path / "deeper"))
    assert (deeper.verdict, deeper.field) == ("re-run", "pipeline.max_k")
    _rewrite(tmp_path / "two", PIPELINE_QUESTIONS, lambda t: t.replace('"top_k":5', '"top_k":6', 1))
    changed = diff(one, Run.open(tmp_path / "two"))
    assert changed.verdict == "re-run" and not changed.records_equal
    assert changed.field == f"sample {first} question 0 top_k"
    assert (changed.left, changed.right) == (5, 6)
    _rewrite(tmp_path / "two", PIPELINE_QUESTIONS, lambda t: t[1:])
    with pytest.raises(RunError, match="is damaged"):
        diff(one, Run.open(tmp_path / "two"))


def _rewrite(path: Path, name: str, change: Callable[[str], str]) -> None:
    file = path / name
    before = file.read_text("utf-8")
    after = change(before)
    assert before != after
    file.write_text(after, "utf-8")


def reseal(path: Path) -> None:
    """A cunning forger writes the hashes anew too."""
    from harness.stages import seal

    seal(path)


FORGERIES: dict[str, tuple[str, Callable[[str], str], set[str]]] = {
    "an answer": (
        PIPELINE_QUESTIONS,
        lambda t: t.replace('"answer":"', '"answer":"x', 1),
        {"blocks", "answers", "judgements"},
    ),
    "a verdict": (
        JUDGED_QUESTIONS,
        lambda t: (
            t.replace('"verdict":"Omission"', '"verdict":"Correct"', 1)
            if '"verdict":"Omission"' in t
            else t.replace('"verdict":"Correct"', '"verdict":"Omission"', 1)
        ),
        {"judgements", "numbers"},
    ),
    "a number": (AGGREGATE, lambda t: t.replace('"value": ', '"value": 0.', 1), {"numbers"}),
    "a memory": (
        PIPELINE_SESSIONS,
        lambda t: t.replace(
            '"changed":[{"memory_id":"m0","text":"', '"changed":[{"memory_id":"m0","text":"x', 1
        ),
        {"blocks", "snapshots", "judgements"},
    ),
    "a record less": (
        PIPELINE_QUESTIONS,
        lambda t: "".join(t.splitlines(True)[:-1]),
        {"planned units", "judgements", "numbers", "blocks"},
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("cunning", [False, True])
def test_verify_sees_a_forgery(
    evaluate: Evaluate, tmp_path: Path, name: str, cunning: bool
) -> None:
    evaluate()
    assert verify(tmp_path / "run", DATA).passed
    file, change, seen_by = FORGERIES[name]
    _rewrite(tmp_path / "run", file, change)
    if cunning:
        reseal(tmp_path / "run")
    found = {check.name for check in verify(tmp_path / "run", DATA).checks if not check.passed}
    assert ("files" in found) == (not cunning)
    assert found & seen_by, found


def _removed(name: str) -> Callable[[Path], object]:
    return lambda run: shutil.rmtree(run / name)


def _written(name: str, text: str) -> Callable[[Path], object]:
    return lambda run: (run / name).write_text(text)


def _replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda run: _rewrite(run, name, lambda text: text.replace(old, new, 1))


def _flipped_attempt(run: Path) -> None:
    file = next((run / "attempts").rglob("sessions.jsonl"))
    file.write_bytes(file.read_bytes()[:-2] + b" \n")


@pytest.mark.parametrize(
    ("harm", "seen_by"),
    [
        (_replaced("box.json", '"python"', '"pythn"'), "files"),
        (_replaced("manifest.json", '"created"', '"creatd"'), "files"),
        (_removed("attempts"), "attempts"),
        (_flipped_attempt, "attempts"),
        *(
            (_written("hashes.json", text), "files")
            for text in ("{}", "null", "[]", "5", '"x"', "[" * 200_000)
        ),
        *(
            (_written(AGGREGATE, text), "numbers")
            for text in ("[]", '"x"', "{}", '{"a":' * 200_000)
        ),
        (_written("box.json", "[]"), "judgements"),
    ],
)
def test_verify_names_what_was_changed_or_damaged_and_checks_the_rest(
    evaluate: Evaluate, tmp_path: Path, harm: Callable[[Path], object], seen_by: str
) -> None:
    run = evaluate().path
    harm(run)
    checks = verify(run, DATA).checks
    assert seen_by in {check.name for check in checks if not check.passed}
    assert {"blocks", "data", "planned units", "snapshots"} <= {c.name for c in checks if c.passed}


def test_a_run_without_logs_is_verified_with_a_note(evaluate: Evaluate) -> None:
    run = evaluate().path
    shutil.rmtree(run / "logs")
    found = verify(run, DATA)
    assert found.passed and any("logs are gone" in check.detail for check in found.checks)


def test_shards_merged_keep_what_their_boxes_can_do(evaluate: Evaluate, tmp_path: Path) -> None:
    parts = [evaluate(f"part{n}", shard=(n, 2)).path for n in (1, 2)]
    whole = evaluate("whole")
    preset = load_preset("keyed")
    with merge(parts, tmp_path / "merged") as run:
        judge_run(run, DATA, preset)
        merged = aggregate_run(run, preset)
    assert whole.aggregate is not None
    times = {"measurements": None}
    assert {**merged, **times} == {**whole.aggregate, **times}
    assert (tmp_path / "merged" / "box.json").read_bytes() == (whole.path / "box.json").read_bytes()
    _rewrite(parts[1], "box.json", lambda text: text.replace('"python"', '"pythn"', 1))
    with pytest.raises(RunError, match=r"part2 had other boxes(.|\n)*python differs"):
        merge(parts, tmp_path / "unequal")
    assert not (tmp_path / "unequal").exists()
    (whole.path / "box.json").unlink()
    with pytest.raises(RunError, match=r"box\.json is gone"):
        evaluate("whole", eval_only=True)


def test_verify_needs_the_very_data(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate()
    other = DrawnDataset(DATA.shape, seed=6)
    failed = {check.name for check in verify(tmp_path / "run", other).checks if not check.passed}
    assert "data" in failed
    gone = verify(tmp_path / "run")
    assert not gone.passed
    assert any("DIR" in check.detail or "no known" in check.detail for check in gone.checks)


def test_samples_that_a_caller_made(tmp_path: Path) -> None:
    samples = [DATA.sample(sample_id) for sample_id in DATA.sample_ids[:2]]
    result = run_eval(
        EvalConfig(tmp_path / "mine", "Oracle", tmp_path / "run"),
        load_domain_bundle=lambda path: samples,
    )
    assert result.manifest is not None
    assert result.manifest.pipeline["dataset"]["name"] == "mine"
    with pytest.raises(UsageError, match="two samples"):
        run_eval(
            EvalConfig(tmp_path, "Oracle", tmp_path / "x"),
            load_domain_bundle=lambda path: samples * 2,
        )


# The command line over it

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "oracle"
    run_eval(EvalConfig(ROOT / "datasets" / "sample", "Oracle", path))
    return path


def invoke(*words: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, list(words))
    return result.exit_code, result.stdout


def test_show_verify_and_diff_from_the_command_line(sample_run: Path, tmp_path: Path) -> None:
    code, out = invoke("show", str(sample_run))
    assert code == 0 and "Oracle over" in out and "4 of 4 samples recorded" in out
    sample_id = Run.open(sample_run).finished[0].sample_id
    code, story = invoke("show", str(sample_run), "s0001")
    assert code == 0 and invoke("show", str(sample_run), sample_id)[1] == story
    record = next(r for r in Run.open(sample_run).questions() if r.answer_from is not None)
    assert record.question[:40] in story and "<- the answer" in story and "Correct (ok)" in story
    assert "UNSUPPORTED: host-side reference row" in story
    code, out = invoke("show", str(sample_run), "s0001", "--json")
    assert code == 0 and json.loads(out)["sample_id"] == sample_id
    assert invoke("show", str(sample_run), "nobody")[0] == 2

    code, out = invoke("verify", str(sample_run))
    assert code == 0 and "verified" in out
    code, out = invoke("verify", str(sample_run), "--json")
    assert code == 0 and json.loads(out)[0]["passed"] is True
    assert invoke("verify", str(tmp_path))[0] == 1

    code, out = invoke("diff", str(sample_run), str(sample_run))
    assert code == 0 and out.startswith("reuse: ")
    floor = tmp_path / "floor"
    run_eval(EvalConfig(ROOT / "datasets" / "sample", "ConstantFloor", floor))
    code, out = invoke("diff", str(sample_run), str(floor), "--json")
    assert code == 1
    assert json.loads(out)["field"] == "pipeline.row" and json.loads(out)["equal"] is False


def test_merge_from_the_command_line(sample_run: Path, tmp_path: Path) -> None:
    parts = [str(tmp_path / f"part{n}") for n in (1, 2)]
    for n, path in enumerate(parts, 1):
        config = EvalConfig(ROOT / "datasets" / "sample", "Oracle", Path(path), shard=(n, 2))
        run_eval(config)
    merged = tmp_path / "merged"
    code, out = invoke("merge", *parts, "--output-dir", str(merged))
    assert code == 0 and str(merged) in out
    assert invoke("diff", str(merged), str(sample_run))[0] == 0
    assert invoke("verify", str(merged))[0] == 0
    code, _ = invoke("merge", parts[0], "--output-dir", str(tmp_path / "other"))
    assert code == 1
