"""From the raw parts of one sample to a :class:`Sample`; shared by the formats of one family."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.loaders.evidence import EvidenceIndex
from harness.loaders.fields import extras
from harness.loaders.findings import At, Findings
from harness.loaders.images import ImageFolder, ImageReader
from harness.loaders.points import PointReader
from harness.loaders.questions import CheckpointReader
from harness.loaders.turns import SessionReader
from harness.outcomes import printable
from harness.samples import Sample


@dataclass(frozen=True)
class RawSample:
    """The parts of one sample as they were parsed, each with its place.

    ``value`` is the sample object with its ``sessions``; ``points`` the list of
    ``{session_id, memory_points}``, ``checkpoints`` the list of checkpoints, wherever they stood.
    ``known`` are the fields of ``value`` that are read; the others and ``labels`` become labels.
    """

    sample_id: str
    value: dict[str, Any]
    at: At
    points: Any
    points_at: At
    checkpoints: Any
    checkpoints_at: At
    known: frozenset[str]
    labels: dict[str, Any] = field(default_factory=dict)


def normalise(raw: RawSample, dataset: str, folder: ImageFolder, findings: Findings) -> Sample:
    """Build the sample, collecting every fault on the way.

    The result is only good if ``findings.problems`` is still empty.
    """
    findings.counts["samples"] += 1
    show_ids = raw.value.get("show_image_ids", True)
    if not isinstance(show_ids, bool):
        findings.refuse(raw.at.child("show_image_ids"), "expected true or false")
    images = ImageReader(findings, folder, raw.sample_id, show_ids=show_ids is True)
    entries = raw.value.get("sessions")
    before = len(findings.problems)
    placed = SessionReader(findings, images).read(raw.at.child("sessions"), entries)
    whole = len(findings.problems) == before
    sessions = tuple(session for session, _ in placed)
    own = {s.id: entries[s.position].get("memory_points") for s in sessions} if entries else {}
    points = PointReader(findings, raw.sample_id, whole).read(
        placed, own, raw.points, raw.points_at
    )
    reader = CheckpointReader(
        findings,
        EvidenceIndex(sessions, points),
        images,
        {session.id: session.position for session in sessions},
        whole,
    )
    uuid = raw.value.get("uuid")
    return Sample(
        id=raw.sample_id,
        dataset=dataset,
        sessions=sessions,
        points=points,
        checkpoints=reader.read(raw.checkpoints_at, raw.checkpoints),
        uuid=uuid if isinstance(uuid, str) and uuid else None,
        labels=extras(raw.value, raw.known) | raw.labels,
    )


def content_line(sample: Sample, root: Path) -> bytes:
    """One sample as canonical JSON, without the name of its data set and of its folder."""
    value = _fields(sample)
    del value["dataset"]

    def plain(path: object) -> Any:
        if dataclasses.is_dataclass(path):  # dataclasses.asdict would copy everything first
            return _fields(path)
        if not isinstance(path, Path):
            raise TypeError(f"{type(path).__name__} in a sample")
        return printable(path.relative_to(root).as_posix())

    text = json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=plain
    )
    return text.encode() + b"\n"


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def canonical_digest(value: Any) -> bytes:
    """Hash of a parsed JSON value, whatever its spacing and order of keys."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
