"""Drawn data as files: a bundle of the three-file ``domain_a_v2`` format, keys included."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.samples import (
    AnswerKind,
    Dataset,
    EvidenceKind,
    GoldPoint,
    Key,
    PointKind,
    Question,
    Sample,
    Session,
)

JSONObject = dict[str, Any]


def write_bundle(dataset: Dataset, folder: Path) -> None:
    """Write a drawn data set, one sample in memory at a time; ``folder`` may not hold one yet.

    Only what drawn data have is written: no images, point evidence.

    Raises:
        FileExistsError: the folder holds a bundle already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "domain_a_v2.json").open("x", encoding="utf-8", newline="\n") as samples,
        (folder / "stage4_memory_points.jsonl").open("x", encoding="utf-8", newline="\n") as points,
        (folder / "stage4b_qa_checkpoints.jsonl").open(
            "x", encoding="utf-8", newline="\n"
        ) as asked,
    ):
        samples.write("[")
        for place, sample in enumerate(dataset):
            samples.write(",\n" if place else "\n")
            samples.write(_json(_sample(sample)))
            points.write(_json(_points(sample)) + "\n")
            asked.write(_json(_checkpoints(sample)) + "\n")
        samples.write("\n]\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sample(sample: Sample) -> JSONObject:
    return {
        "uuid": sample.id,
        "sample_id": sample.id,
        "synthetic": True,
        "sessions": [_session(session) for session in sample.sessions],
    }


def _session(session: Session) -> JSONObject:
    turns = [
        {"role": turn.role, "content": turn.text, "timestamp": turn.timestamp}
        for turn in session.turns
    ]
    return {"_v2_session_id": session.id, "dialogue": turns}


def _points(sample: Sample) -> JSONObject:
    sessions = [
        {
            "session_id": session.id,
            "memory_points": [_point(point) for point in sample.points_of(session.id)],
        }
        for session in sample.sessions
    ]
    return {"uuid": sample.id, "sample_id": sample.id, "memory_sessions": sessions}


def _point(point: GoldPoint) -> JSONObject:
    rumour = point.kind is PointKind.INTERFERENCE
    made: JSONObject = {
        "memory_id": point.id,
        "memory_content": point.text,
        "memory_source": "interference" if rumour else "normal",
        "is_update": point.kind is PointKind.UPDATE,
        "original_memories": list(point.originals),
    }
    if point.keys is not None:
        made["keys"] = {"must": _keys(point.keys.must)}
        if point.keys.gone:
            made["keys"]["gone"] = _keys(point.keys.gone)
    return made


def _keys(keys: Iterable[Key]) -> list[JSONObject]:
    return [
        {
            "any": list(key.variants),
            "not_before": list(key.not_before),
            "not_after": list(key.not_after),
        }
        for key in keys
    ]


def _checkpoints(sample: Sample) -> JSONObject:
    made = [
        {
            "checkpoint_id": checkpoint.id,
            "covered_sessions": list(checkpoint.covered),
            "questions": [_question(question) for question in checkpoint.questions],
        }
        for checkpoint in sample.checkpoints
    ]
    return {"uuid": sample.id, "sample_id": sample.id, "checkpoints": made}


def _question(question: Question) -> JSONObject:
    made: JSONObject = {
        "question_id": question.id,
        "question": question.text,
        "answer": question.answers[0],
        "question_type": question.type_name,
        "evidence": [
            {"memory_id": evidence.id}
            for evidence in question.evidence
            if evidence.kind is EvidenceKind.POINT
        ],
    }
    if question.answer_kind is AnswerKind.REFUSAL:
        made["answer_kind"] = "refusal"
    if question.keys is not None:
        made["keys"] = {
            "answers": [_keys(alternative) for alternative in question.keys.alternatives],
            "forbidden": _keys(question.keys.forbidden),
        }
    return made
