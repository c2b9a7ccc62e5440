"""What a data set can give is known before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from cli.bench import SAMPLE_DATA
from harness.aggregate.dimensions import DIMENSIONS
from harness.forecast import forecast
from harness.loaders import open_dataset
from harness.samples import PointKind, Sample

Change = Callable[[Sample], Sample]


class Changed:
    """The sample data, each sample changed."""

    def __init__(self, change: Change) -> None:
        self._inner = open_dataset(SAMPLE_DATA)
        self._change = change

    def __iter__(self) -> Iterator[Sample]:
        return (self._change(sample) for sample in self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def without(kind: PointKind) -> Change:
    return lambda s: replace(s, points=tuple(p for p in s.points if p.kind is not kind))


def no_keys(sample: Sample) -> Sample:
    return replace(sample, points=tuple(replace(p, keys=None) for p in sample.points))


def test_our_own_data_have_gold_for_everything() -> None:
    found = forecast(Changed(lambda sample: sample))
    assert (found.preset.name, dict(found.na), found.by_source) == ("keyed", {}, True)
    assert found.line.startswith("judge: keyed, because 131 of 131 gold points")


@pytest.mark.parametrize(
    ("kind", "dimension"),
    [
        (PointKind.UPDATE, "update_handling"),
        (PointKind.INTERFERENCE, "interference_rejection"),
    ],
)
def test_a_kind_of_gold_that_is_missing_is_named(kind: PointKind, dimension: str) -> None:
    found = forecast(Changed(without(kind)))
    assert found.preset.name == "keyed"
    assert list(found.na) == [dimension]
    assert found.line.endswith(f"; will be N/A: {dimension.replace('_', ' ')}")


def test_without_keys_nothing_is_promised() -> None:
    found = forecast(Changed(no_keys))
    assert found.preset.name == "gold_found"
    assert set(found.na) == set(DIMENSIONS)
    assert "because 0 of 131 gold points" in found.line
    assert "recall@k by source ids" in found.line
