"""Stage 2: judges, the instruments that grade records.

>>> preset = preset_for(dataset)                                           # doctest: +SKIP
>>> judge_session(sample, record, snapshot, preset, scope)["recall"]       # doctest: +SKIP
{'total': 3, 'covered': 2}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging.base import JSONObject, Judge, Preset, Scope, gold_counts
from harness.judging.preset import load_preset, preset_for, preset_names
from harness.judging.sources import SourceMap, judge_retrieval
from harness.records import QARecord, SessionRecord
from harness.samples import Question, Sample

__all__ = [
    "Judge",
    "Preset",
    "Scope",
    "judge_question",
    "judge_session",
    "load_preset",
    "preset_for",
    "preset_names",
]

_DEFAULT = Scope()


def judge_session(
    sample: Sample,
    record: SessionRecord,
    snapshot: Sequence[Mapping[str, Any]] | None,
    preset: Preset,
    scope: Scope = _DEFAULT,
) -> JSONObject:
    """Grade a session record; call it for failed records too (``judging.base`` says why).

    Args:
        sample: the record's sample.
        record: one session.
        snapshot: the whole store after the session as wire records, None where the system has none.
        preset: the judge.
        scope: how the run is to be read.
    """
    result = preset.judge.session(sample, record, snapshot, scope)
    return {"judge": preset.id, "gold": gold_counts(sample, record.session_id), **result}


def judge_question(
    sample: Sample,
    question: Question,
    record: QARecord,
    preset: Preset,
    scope: Scope = _DEFAULT,
    places: SourceMap | None = None,
) -> JSONObject:
    """Grade a question record; call it for failed records too.

    ``places`` is ``SourceMap(sample)`` where the caller keeps one for all of a sample's questions.
    """
    result = preset.judge.question(sample, question, record, scope)
    where = places or SourceMap(sample)
    retrieval = judge_retrieval(where, question, record, scope)
    return {"judge": preset.id, **result, "retrieval": retrieval}
