"""``run_eval``: one baseline over one data set, through all three stages. The top of the library.

The command line is one caller of it; a program is another::

    from harness import run_eval
    from harness.config import EvalConfig

    result = run_eval(EvalConfig(Path("datasets/sample"), "BM25", Path("runs/mine")))
    print(result.aggregate["dimensions"]["question_answering"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.adapter.records import to_wire
from harness.catalog import Baseline, Catalog
from harness.config import EvalConfig
from harness.judging import Preset, Scope, preset_for
from harness.loaders import open_dataset
from harness.outcomes import ManifestMismatch, RunError, Status, UsageError
from harness.pipeline import events
from harness.pipeline.answer import AnswerFn, ExtractiveAnswerer
from harness.pipeline.given import GivenDataset
from harness.pipeline.life import Terms
from harness.pipeline.plan import Plan, count, selected
from harness.pipeline.reference import CAPABILITIES, ConstantFloor, Oracle, best_constant
from harness.pipeline.runner import BoxRunner, BoxTerms, OpenBoxes
from harness.pipeline.stage import SampleRunner, Stage, one_at_a_time
from harness.provenance import manifest_of
from harness.records import JSONObject, QARecord
from harness.runs import Manifest, Run
from harness.samples import Dataset, Question, Sample
from harness.sandbox.base import Launcher
from harness.settings import Settings
from harness.stages import aggregate_run, check_dataset, judge_facts, judge_run

#: Makes a data set from the path of the configuration: a ``Dataset``, or just its samples.
LoadBundle = Callable[[Path], Dataset | Iterable[Sample]]


@dataclass(frozen=True)
class RunResult:
    """Where the records are and what they add up to.

    After a dry run ``aggregate`` and ``manifest`` are absent, and ``plan`` says what would be done.
    """

    path: Path
    aggregate: JSONObject | None
    plan: Plan
    samples: tuple[str, ...]
    manifest: Manifest | None = None


@dataclass(frozen=True)
class Job:
    """One evaluation with everything looked up: what the three stages need."""

    config: EvalConfig
    baseline: Baseline
    dataset: Dataset
    samples: tuple[tuple[int, str], ...]
    plan: Plan
    preset: Preset
    answer: AnswerFn
    launcher: Launcher | None
    tell: events.Listener

    def chosen(self) -> Iterable[Sample]:
        """The samples, one in memory at a time."""
        return (self.dataset.sample(sample_id) for _, sample_id in self.samples)


def run_eval(
    config: EvalConfig,
    *,
    answer_fn: AnswerFn | None = None,
    load_domain_bundle: LoadBundle | None = None,
    launcher: Launcher | None = None,
    judge: Preset | None = None,
    on_event: events.Listener | None = None,
    settings: Settings | None = None,
) -> RunResult:
    """Run a baseline over a data set, judge its records and add them up.

    An ``output_dir`` that holds the same run is resumed; finished samples are not done again.

    Args:
        config: what to do.
        answer_fn: answers the questions; default the extractive answerer. Its ``id`` attribute,
            else its qualified name, stands in titles.
        load_domain_bundle: loads the data set; default by the format of ``config.dataset``.
        launcher: starts the boxes; default a container, else a virtual environment.
        judge: the judge; default ``keyed`` for data with keys throughout, else ``gold_found``.
        on_event: told of everything that happens, one call at a time.
        settings: how boxes are built; default from environment and ``memrig.toml``.

    Raises:
        UsageError: a name or a flag that cannot be, data that are refused.
        ManifestMismatch: ``output_dir`` holds a run of another configuration.
        RunError: the directory is in use or damaged, the disk is full.
        BuildError, EngineError: the boxes cannot be made.
        KeyboardInterrupt: stopped; boxes are closed, finished samples are recorded.
    """
    job = prepare(
        config,
        answer_fn=answer_fn,
        load_domain_bundle=load_domain_bundle,
        launcher=launcher,
        judge=judge,
        on_event=on_event,
        settings=settings,
    )
    ids = tuple(sample_id for _, sample_id in job.samples)
    if config.dry_run:
        return RunResult(config.output_dir, None, job.plan, ids)
    with _recorded(job) if config.eval_only else run_pipeline(job) as run:
        judge_run(
            run,
            job.dataset,
            job.preset,
            workers=config.max_eval_workers,
            fresh=config.eval_only,
            tell=job.tell,
        )
        result = aggregate_run(run, job.preset)
        job.tell(events.RunDone(job.baseline.row, run.path))
        return RunResult(run.path, result, job.plan, ids, run.manifest)


def prepare(
    config: EvalConfig,
    *,
    answer_fn: AnswerFn | None = None,
    load_domain_bundle: LoadBundle | None = None,
    launcher: Launcher | None = None,
    judge: Preset | None = None,
    on_event: events.Listener | None = None,
    settings: Settings | None = None,
) -> Job:
    """Look everything up and check it, before anything is built. See :func:`run_eval`."""
    _check_numbers(config)
    baseline = _baseline(config, launcher)
    dataset = _dataset(config, load_domain_bundle)
    samples = selected(dataset.sample_ids, config)
    if not samples and config.shard is None:
        raise UsageError(f"{dataset.name} has no samples")
    tell = one_at_a_time(on_event or events.ignore)
    if launcher is None and not (baseline.host_side or config.dry_run or config.eval_only):
        launcher = _default_launcher(baseline, config, settings, tell)
    plan = count((dataset.sample(sample_id) for _, sample_id in samples), config.max_sessions)
    return Job(
        config=config,
        baseline=baseline,
        dataset=dataset,
        samples=samples,
        plan=plan,
        preset=judge or preset_for(dataset),
        answer=answer_fn or ExtractiveAnswerer(),
        launcher=launcher,
        tell=tell,
    )


def run_pipeline(job: Job) -> Run:
    """Stage 1: build what is missing and do all samples that are not recorded yet.

    Returns the run, complete and open for writing; the caller closes it.
    """
    constant = _constant(job) if job.baseline.name == "ConstantFloor" else None
    box = job.launcher.prepare() if job.launcher is not None else {"network": "none"}
    kind = job.launcher.kind if job.launcher is not None else "host"
    manifest = manifest_of(
        config=job.config,
        baseline=job.baseline,
        dataset=job.dataset,
        samples=[sample_id for _, sample_id in job.samples],
        plan=job.plan,
        answer=job.answer,
        judge=judge_facts(job.preset),
        box={"kind": kind, **box},
        constant=constant,
    )
    run = Run.start(job.config.output_dir, manifest)
    try:
        _do_samples(job, run, constant)
    except BaseException:
        run.close()
        raise
    return run


def _do_samples(job: Job, run: Run, constant: JSONObject | None) -> None:
    row, open_boxes = job.baseline.row, OpenBoxes()
    left = [(place, name) for place, name in job.samples if not run.is_finished(name)]
    for sample_id in run.cut_back:
        job.tell(events.Note(row, f"{sample_id} was damaged and starts anew"))
    job.tell(
        events.RunStarted(
            row=row,
            samples=len(job.samples),
            done=len(job.samples) - len(left),
            sessions=job.plan.sessions,
            questions=job.plan.questions,
            jobs=job.config.jobs,
            sandbox=run.manifest.pipeline["box"]["kind"],
            path=run.path,
        )
    )
    if left:
        runner = _runner(job, run, open_boxes, constant)
        Stage(run, job.dataset, runner, open_boxes, job.tell, row).do(left, job.config.jobs)


def _runner(job: Job, run: Run, open_boxes: OpenBoxes, constant: JSONObject | None) -> SampleRunner:
    config = job.config
    terms = Terms(
        row=job.baseline.row,
        answer=job.answer,
        top_k=config.top_k,
        max_k=max(config.max_k, config.top_k),
        tell=job.tell,
    )
    if job.launcher is None:
        run.greet({"capabilities": to_wire(CAPABILITIES)})
        if constant is not None:
            return ConstantFloor(terms, config.max_sessions, constant["text"])
        return Oracle(terms, config.max_sessions)
    boxes = BoxTerms(
        launcher=job.launcher,
        seed=config.seed,
        options=job.baseline.options,
        images=config.images,
        log_dir=run.path / "logs",
        greet=run.greet,
    )
    return BoxRunner(terms, boxes, config.max_sessions, open_boxes)


def _recorded(job: Job) -> Run:
    """The run that ``--eval-only`` judges anew: only data and plan must be the same.

    Raises:
        ManifestMismatch: another row, other data or other samples.
    """
    path = job.config.output_dir
    stored = Manifest.read(path)
    if stored.pipeline["baseline"]["name"] != job.baseline.name:
        raise ManifestMismatch(
            f"{path} is a run of {stored.pipeline['baseline']['name']}, not of {job.baseline.name}"
        )
    run = Run.rejudge(path, stored.with_judge(judge_facts(job.preset)))
    try:
        check_dataset(run, job.dataset)
        missing = [s for s in stored.pipeline["selection"]["samples"] if not run.is_finished(s)]
        if missing:
            raise RunError(
                f"{path} is not complete: sample {missing[0]!r} is not recorded. Run the same "
                "command without --eval-only to finish it"
            )
    except BaseException:
        run.close()
        raise
    return run


def _constant(job: Job) -> JSONObject:
    """The floor's answer, chosen by the run's own judge."""
    scope = Scope(top_k=job.config.top_k)

    def grade(sample: Sample, question: Question, answer: str) -> bool:
        record = QARecord(
            sample_id=sample.id,
            checkpoint_id="",
            session_id="",
            question_id=question.id,
            position=0,
            status=Status.OK,
            retrieved=(),
            answer=answer,
        )
        graded = job.preset.judge.question(sample, question, record, scope)
        right = graded["answer"].get("verdict") == "Correct"
        return right or bool(graded["gold_found"].get("found"))

    return best_constant(lambda: iter(job.chosen()), job.config.max_sessions, grade).as_json()


def _check_numbers(config: EvalConfig) -> None:
    for name, least in (("top_k", 1), ("max_k", 1), ("jobs", 1), ("max_eval_workers", 1)):
        if getattr(config, name) < least:
            raise UsageError(f"{name} is {getattr(config, name)}, not at least {least}")
    if config.max_sessions is not None and config.max_sessions < 1:
        raise UsageError(f"max_sessions is {config.max_sessions}, not at least 1")


def _baseline(config: EvalConfig, launcher: Launcher | None) -> Baseline:
    """The row. A caller who brings a launcher may name a row that no folder holds."""
    catalog = Catalog(config.baselines_dirs)
    if launcher is not None and config.baseline not in (*catalog.names(), *catalog.aliases()):
        made = Baseline(config.baseline, config.baseline, config.baseline, "", folder=None)
        return replace(made, options=dict(config.options))
    return catalog.get(config.baseline).with_options(config.options)


def _dataset(config: EvalConfig, load: LoadBundle | None) -> Dataset:
    if load is None:
        return open_dataset(config.dataset, config.strict_data)
    loaded: Any = load(config.dataset)
    if hasattr(loaded, "sample_ids"):
        dataset: Dataset = loaded
        return dataset
    return GivenDataset(loaded, name=config.dataset.name or "given")


def _default_launcher(
    baseline: Baseline, config: EvalConfig, settings: Settings | None, tell: events.Listener
) -> Launcher:
    from harness.sandbox import ownership
    from harness.sandbox.factory import make_launcher

    made = make_launcher(
        baseline,
        config,
        settings or Settings.load(),
        labels={ownership.RUN: str(config.output_dir)},
        say=lambda text: tell(events.Note(baseline.row, text)),
    )
    if made.note:
        tell(events.Note(baseline.row, made.note))
    return made
