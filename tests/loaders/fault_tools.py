"""The shape of a fault and the helpers that make one and look at what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loader_bundles import Break, Bundle

from harness.samples import Dataset, GoldPoint, Question, Sample, Turn


@dataclass(frozen=True)
class Case:
    """``says``: texts that the refusal or the warnings must hold. ``holds``: what must come out."""

    name: str
    fault: Break
    expect: str
    says: tuple[str, ...] = ()
    holds: Callable[[Sample, Dataset], bool] | None = None


def one(dataset: Dataset) -> Sample:
    return dataset.sample(dataset.sample_ids[0])


def turn(sample: Sample) -> Turn:
    return sample.sessions[1].turns[0]


def gold(sample: Sample, name: str = "g1") -> GoldPoint:
    return next(p for p in sample.points if p.id == name)


def question(sample: Sample) -> Question:
    return sample.checkpoints[0].questions[0]


def left(dataset: Dataset, what: str) -> int:
    return sum(entry.what == what for entry in dataset.balance.left_out)


def put(target: Callable[[Bundle], dict[str, Any]], **fields: Any) -> Break:
    """Set fields of one object; a value of ``...`` removes the field."""

    def fault(bundle: Bundle) -> None:
        for name, value in fields.items():
            if value is ...:
                target(bundle).pop(name, None)
            else:
                target(bundle)[name] = value

    return fault


def raw(name: str, change: Callable[[bytes], bytes | None]) -> Break:
    """Change the bytes of one file."""

    def fault(bundle: Bundle) -> None:
        bundle.raw[name] = change(bundle.files()[name])

    return fault


def do(*steps: Callable[[Bundle], Any]) -> Break:
    def fault(bundle: Bundle) -> None:
        for step in steps:
            step(bundle)

    return fault


def the_turn(bundle: Bundle) -> dict[str, Any]:
    return bundle.turn


def the_session(bundle: Bundle) -> dict[str, Any]:
    return bundle.sessions[1]


def g1(bundle: Bundle) -> dict[str, Any]:
    return bundle.stage4[0]["memory_points"][0]


def g2(bundle: Bundle) -> dict[str, Any]:
    return bundle.stage4[1]["memory_points"][0]


def cp(bundle: Bundle) -> dict[str, Any]:
    return bundle.checkpoint


def qa(bundle: Bundle) -> dict[str, Any]:
    return bundle.question


def the_sample(bundle: Bundle) -> dict[str, Any]:
    return bundle.sample


def spoil(name: str, old: bytes, new: bytes) -> Break:
    def change(content: bytes) -> bytes:
        assert content.count(old) >= 1
        return content.replace(old, new, 1)

    return raw(name, change)


def same(sample: Sample, dataset: Dataset) -> bool:
    """As the unspoilt bundle: the content hash is that of the base."""
    return dataset.balance.gold_points == 5 and turn(sample).text == "My van is green."


def evidence(*entries: Any) -> Break:
    return put(qa, evidence=list(entries))


def states(sample: Sample) -> list[tuple[str, str, str]]:
    return [(e.kind.value, e.id, e.state.value) for e in question(sample).evidence]
