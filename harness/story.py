"""A run told for a person: which samples it has, and what happened to one of them, in order.

Makes styled lines; who prints them decides what a style looks like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.outcomes import UnknownName
from harness.records import Failure, JSONObject, QARecord, SessionRecord
from harness.runs import Run
from harness.runs.attempts import folder_name
from harness.runs.directory import JUDGED_QUESTIONS, JUDGED_SESSIONS, Finished
from harness.runs.files import read_json
from harness.samples import Sample

Style = Literal["head", "plain", "dim", "good", "bad", "odd"]

#: Longest text of a turn, a memory or an answer that is shown whole.
WIDTH = 160

#: So many ways of failing are shown of a sample in the overview.
FAILURES = 3

#: This many last lines of a box's stderr are shown.
TAIL = 12


@dataclass(frozen=True)
class Line:
    """One line: its text, how deep it stands, how it looks."""

    text: str = ""
    indent: int = 0
    style: Style = "plain"


def overview(run: Run) -> Iterator[Line]:
    """What a run is and how far it came: a line for each sample."""
    made = run.manifest.pipeline
    planned = made["selection"]["samples"]
    yield Line(f"{made['row']} over {made['dataset']['name']}", style="head")
    yield Line(f"{len(run.finished)} of {len(planned)} samples recorded", 1)
    yield Line(f"box: {made['box']['kind']}, network {made['box'].get('network', 'none')}", 1)
    yield Line(f"answers: {made['answerer']['id']}; judge: {run.manifest.judge['id']}", 1)
    if made["constant"]:
        yield Line(f"constant answer: {made['constant']['text']!r}", 1)
    yield Line(f"made {run.manifest.about.get('created', '?')}, {_commit(run)}", 1, "dim")
    yield Line()
    entries = {entry.sample_id: entry for entry in run.finished}
    width = max((len(sample_id) for sample_id in planned), default=0)
    for sample_id in planned:
        entry = entries.get(sample_id)
        if entry is None:
            yield Line(f"{sample_id:<{width}}  not recorded", 1, "odd")
            continue
        units: list[SessionRecord | QARecord] = [*run.sessions_of(entry), *run.questions_of(entry)]
        counts = Counter(unit.status.value for unit in units)
        told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        again = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
        bad = [unit.failure for unit in units if unit.status.is_failure and unit.failure]
        yield Line(f"{sample_id:<{width}}  {told}{again}", 1, "bad" if bad else "plain")
        yield from _failures(run, bad)


def _failures(run: Run, failures: list[Failure]) -> Iterator[Line]:
    """Each way in which units of a sample failed, once, the most frequent first."""
    said = Counter((f.kind, f.call, _short(f.message), f.log) for f in failures)
    for (kind, call, message, log), count in said.most_common(FAILURES):
        times = f" ({count} times)" if count > 1 else ""
        during = f" during {call}" if call else ""
        yield Line(f"{kind}{during}: {message}{times}", 3, "bad")
        if log:
            yield Line(f"log: {run.path / log}", 4, "dim")
    if len(said) > FAILURES:
        yield Line(f"... {len(said) - FAILURES} more ways; `memrig show RUN SAMPLE` has all", 3)


def find(run: Run, wanted: str) -> Finished:
    """A recorded sample by its id or by its ordinal.

    Raises:
        UnknownName: none of that name.
    """
    for entry in run.finished:
        if wanted in (entry.sample_id, entry.ordinal):
            return entry
    raise UnknownName("sample of this run", wanted, [entry.sample_id for entry in run.finished])


def sample_story(
    run: Run, entry: Finished, sample: Sample | None, *, items: int = 5
) -> Iterator[Line]:
    """One sample from its first turn to its last answer.

    Args:
        run: the run.
        entry: which of its samples.
        sample: the data, where they are at hand; without them turns are only counted.
        items: so many changes and retrieved memories are shown of each.
    """
    yield Line(f"{run.manifest.pipeline['row']}: sample {entry.sample_id}", style="head")
    yield from _attempts(run, entry)
    verdicts = _graded(run, JUDGED_QUESTIONS, entry.sample_id)
    grades = _graded(run, JUDGED_SESSIONS, entry.sample_id)
    questions = list(run.questions_of(entry))
    for record in run.sessions_of(entry):
        yield Line()
        yield from _session(run, record, sample, grades.get(record.position), items)
        for question in questions:
            if question.session_id == record.session_id:
                yield from _question(run, question, verdicts.get(question.position), items)
    yield from _stderr(run, entry)


def _attempts(run: Run, entry: Finished) -> Iterator[Line]:
    folder = run.path / "attempts" / folder_name(entry.ordinal, entry.sample_id)
    for number in range(1, entry.attempt + 1):
        about = folder / str(number) / "attempt.json"
        ended = read_json(about)["ended"] if about.exists() else "killed with its host"
        style: Style = "dim" if ended == "finished" else "odd"
        yield Line(f"attempt {number} ({entry.ordinal}): {_short(ended)}", 1, style)


def _session(
    run: Run, record: SessionRecord, sample: Sample | None, graded: JSONObject | None, items: int
) -> Iterator[Line]:
    date = _date_of(sample, record.session_id)
    yield Line(f"session {record.session_id}{date}: {_status(record)}", 1, _style(record))
    yield from _failure(run, record.failure)
    yield from _turns(record, sample)
    if record.delta is not None:
        counts = Counter(change["op"] for change in record.delta)
        told = ", ".join(f"{n} {op}" for op, n in counts.items()) or "nothing"
        yield Line(f"changed: {told}{_ms(record)}", 2, "dim")
        yield from _some([f"{c['op']:<6} {_short(c['text'])}" for c in record.delta], items)
    if record.snapshot is not None:
        yield Line(f"holds {record.snapshot.count} memories", 2, "dim")
    if graded is not None:
        found = [f"{name} {_block(graded[name])}" for name in graded if _is_block(graded[name])]
        yield Line("judged: " + ", ".join(found), 2, "dim")


def _turns(record: SessionRecord, sample: Sample | None) -> Iterator[Line]:
    session = next(
        (s for s in (sample.sessions if sample else ()) if s.id == record.session_id), None
    )
    empty = f", {record.turns_empty} empty" if record.turns_empty else ""
    yield Line(f"{record.turns_sent} turns sent{empty}", 2, "dim")
    for turn in session.turns if session else ():
        images = "".join(f" [image: {image.caption or '-'}]" for image in turn.images)
        if not turn.is_empty:
            yield Line(f"{turn.index:>3} {turn.name or turn.role}: {_short(turn.text + images)}", 2)


def _question(run: Run, record: QARecord, graded: JSONObject | None, items: int) -> Iterator[Line]:
    verdict, style = _verdict(graded, record)
    yield Line(f"? {_short(record.question)}", 2, "head")
    found = [
        f"{rank + 1}. {_short(item['text'])}{_score(item)}{_from(item)}"
        + (" <- the answer" if rank == record.answer_from else "")
        for rank, item in enumerate(record.retrieved or ())
    ]
    shown = max(items, (record.answer_from if record.answer_from is not None else -1) + 1)
    yield from _some(found, min(shown, 3 * items))
    yield from _failure(run, record.failure)
    if record.answer is not None:
        yield Line(f"= {_short(record.answer)}", 2)
    after = ", after a failed session" if record.after_failure else ""
    yield Line(f"{verdict} ({record.status.value}{after})", 2, style)


def _verdict(graded: JSONObject | None, record: QARecord) -> tuple[str, Style]:
    if record.status.is_failure:
        return "failed", "bad"
    if graded is None:
        return "not judged", "dim"
    if "verdict" in graded["answer"]:
        verdict = str(graded["answer"]["verdict"])
        return verdict, "good" if verdict == "Correct" else "bad"
    found = graded["gold_found"].get("found")
    if found is None:
        return str(graded["answer"].get("na", "no verdict")), "dim"
    return ("gold found", "good") if found else ("gold not found", "odd")


def _failure(run: Run, failure: Failure | None) -> Iterator[Line]:
    if failure is not None:
        during = f" during {failure.call}" if failure.call else ""
        yield Line(f"{failure.kind}{during}: {_short(failure.message)}", 2, "bad")
        if failure.log:
            yield Line(f"log: {run.path / failure.log}", 2, "dim")


def _stderr(run: Run, entry: Finished) -> Iterator[Line]:
    logs = sorted(
        (run.path / "logs").glob(f"{entry.ordinal}.*"), key=lambda path: path.stat().st_mtime
    )
    if not logs:
        return
    last = logs[-1].read_text("utf-8", "replace").splitlines()
    yield Line()
    where = Path("logs") / logs[-1].name
    yield Line(f"stderr of its box ({where}): {len(last)} lines", 1, "dim")
    for text in last[-TAIL:]:
        yield Line(_short(text), 2, "dim")


def _some(texts: list[str], most: int) -> Iterator[Line]:
    for text in texts[:most]:
        yield Line(text, 3)
    if len(texts) > most:
        yield Line(f"... {len(texts) - most} more", 3, "dim")


def _graded(run: Run, name: str, sample_id: str) -> dict[int, JSONObject]:
    lines = (line for line in run.judged(name) if line["sample_id"] == sample_id)
    return {int(line["position"]): line["eval"] for line in lines}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and ("total" in value or "na" in value)


def _block(value: JSONObject) -> str:
    if "na" in value:
        return "N/A"
    counts = {
        name: n
        for name, n in value.items()
        if name != "total" and isinstance(n, int) and not isinstance(n, bool)
    }
    some = {name: n for name, n in counts.items() if n} or dict(list(counts.items())[:1])
    return f"{' '.join(f'{n} {name}' for name, n in some.items())} of {value['total']}"


def _status(record: SessionRecord) -> str:
    why = f" ({', '.join(record.degraded)})" if record.degraded else ""
    after = ", after a failed session" if record.after_failure else ""
    return f"{record.status.value}{why}{after}"


def _style(record: SessionRecord) -> Style:
    return "bad" if record.status.is_failure else "head"


def _ms(record: SessionRecord) -> str:
    told = [f"{name} {ms:.0f} ms" for name, ms in record.timings_ms.items()]
    return f"  ({', '.join(told)})" if told else ""


def _date_of(sample: Sample | None, session_id: str) -> str:
    for session in sample.sessions if sample else ():
        if session.id == session_id and session.date:
            return f", {session.date}"
    return ""


def _score(item: JSONObject) -> str:
    score = item.get("score")
    return f"  [{score:.3f}]" if isinstance(score, float) else ""


def _from(item: JSONObject) -> str:
    sources = item.get("sources") or ()
    return f"  from {', '.join(sources[:3])}" if sources else ""


def _commit(run: Run) -> str:
    git = run.manifest.about.get("git") or {}
    dirty = " with changes" if git.get("dirty") else ""
    return f"memrig {run.manifest.pipeline['memrig']['version']} at {git.get('commit')}{dirty}"


def _short(text: str) -> str:
    """A text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 3] + "..."
