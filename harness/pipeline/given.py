"""Samples that a caller made, as a data set: what ``load_domain_bundle`` may return."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.outcomes import DataError, Problem, UnknownName
from harness.samples import Balance, Sample


class GivenDataset:
    """A :class:`harness.samples.Dataset` over samples in memory.

    Raises:
        DataError: two samples share an id.
    """

    format = "given"

    def __init__(self, samples: Iterable[Sample], name: str = "given") -> None:
        self.name = name
        self._samples: dict[str, Sample] = {}
        for sample in samples:
            if sample.id in self._samples:
                raise DataError([Problem(f"two samples have the id {sample.id!r}")])
            self._samples[sample.id] = sample

    @cached_property
    def balance(self) -> Balance:
        """What is there; a caller's samples are taken as they are, so nothing is left out."""
        samples = list(self)
        turns = [t for sample in samples for session in sample.sessions for t in session.turns]
        return Balance(
            samples=len(samples),
            sessions=sum(len(sample.sessions) for sample in samples),
            turns=len(turns),
            attachments=sum(len(turn.images) for turn in turns),
            gold_points=sum(len(sample.points) for sample in samples),
            checkpoints=sum(len(sample.checkpoints) for sample in samples),
            questions=sum(len(cp.questions) for s in samples for cp in s.checkpoints),
        )

    @cached_property
    def content_sha256(self) -> str:
        """Hash of all samples, each as canonical JSON; an image counts by its bytes."""
        digest = hashlib.sha256()
        for sample in self:
            value = dataclasses.asdict(sample)
            del value["dataset"]
            text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=_image_digest)
            digest.update(text.encode("utf-8") + b"\n")
        return digest.hexdigest()

    @property
    def sha256(self) -> str:
        """There are no files; the content stands for them."""
        return self.content_sha256

    @property
    def sample_ids(self) -> tuple[str, ...]:
        """The ids in the order given."""
        return tuple(self._samples)

    def sample(self, sample_id: str) -> Sample:
        """One sample."""
        if sample_id not in self._samples:
            raise UnknownName("sample", sample_id, self._samples)
        return self._samples[sample_id]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples.values())


def _image_digest(value: Any) -> str:
    if not isinstance(value, Path):
        raise TypeError(f"{type(value).__name__} in a sample")
    return hashlib.sha256(value.read_bytes()).hexdigest()
