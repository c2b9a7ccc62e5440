"""Presets: a judge is one YAML file, read here, and its id is the hash of all that decides.

A new kind of instrument is one entry in :data:`KINDS`; a new judge of a known kind is one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness import strict_yaml
from harness.adapter import text as tokenizer
from harness.judging import gold_found, keyed, match
from harness.judging.base import Judge, Preset
from harness.judging.refusal import Refusals
from harness.outcomes import DataError, Problem, UnknownName
from harness.samples import AnswerKind, Dataset, Key, PointKind, Sample


class PresetFile(BaseModel):
    """The fields of a preset file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: str
    title: str
    summary: str = ""
    settings: dict[str, Any] = {}
    metrics: dict[str, str] = {}


@dataclass(frozen=True)
class Kind:
    """A kind of instrument: how to make it from its settings, and what else decides its verdicts.

    ``decides`` returns what is hashed beside the settings: code versions here; prompt texts,
    decoding and model for a judge that is a model.
    """

    make: Callable[[Mapping[str, Any]], Judge]
    decides: Callable[[Mapping[str, Any]], dict[str, Any]]


def _refusals(settings: Mapping[str, Any]) -> Refusals:
    texts = settings.get("refusals", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError([Problem("settings.refusals must be a list of texts")])
    return Refusals(texts)


#: Tokens decide refusals and containment; they are fixed by this name.
_TOKENIZER = f"{tokenizer.tokens.__module__}.tokens/1"

KINDS: dict[str, Kind] = {
    "keyed": Kind(
        make=lambda settings: keyed.KeyedJudge(_refusals(settings)),
        decides=lambda _: {"match": match.VERSION, "keyed": keyed.VERSION, "tokens": _TOKENIZER},
    ),
    "gold_found": Kind(
        make=lambda settings: gold_found.GoldFoundJudge(_refusals(settings)),
        decides=lambda _: {
            "match": match.VERSION,
            "gold_found": gold_found.VERSION,
            "tokens": _TOKENIZER,
        },
    ),
}


def preset_names() -> list[str]:
    """The presets that ship, by name."""
    folder = resources.files("harness.judging") / "presets"
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )


def load_preset(name: str) -> Preset:
    """Load a preset by name, or from a path that ends in ``.yaml``.

    Raises:
        UnknownName: no preset and no file of that name.
        DataError: a file that is no preset.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise DataError([Problem("no such judge preset", file=name)])
        return preset_from(path.read_text(encoding="utf-8"), file=name)
    if name not in preset_names():
        raise UnknownName("judge", name, preset_names())
    file = resources.files("harness.judging") / "presets" / f"{name}.yaml"
    return preset_from(file.read_text(encoding="utf-8"), file=f"{name}.yaml")


def preset_from(text: str, *, file: str) -> Preset:
    """Read a preset from the text of its file.

    Raises:
        DataError: with the field that is wrong.
    """
    try:
        spec = PresetFile.model_validate(strict_yaml.parse(text, file)[0])
    except ValidationError as error:
        raise DataError([Problem(f"not a judge preset: {error}", file=file)]) from None
    kind = KINDS.get(spec.kind)
    if kind is None:
        known = ", ".join(sorted(KINDS))
        problem = Problem(f"unknown kind of judge {spec.kind!r}; known: {known}", file=file)
        raise DataError([problem])
    decided = {"kind": spec.kind, "settings": spec.settings, **kind.decides(spec.settings)}
    canonical = json.dumps(decided, sort_keys=True, ensure_ascii=False).encode()
    return Preset(
        name=spec.name,
        kind=spec.kind,
        id=f"{spec.name}-{hashlib.sha256(canonical).hexdigest()[:8]}",
        title=spec.title,
        summary=spec.summary,
        judge=kind.make(spec.settings),
        metrics=spec.metrics,
    )


def preset_for(dataset: Dataset) -> Preset:
    """``keyed`` if every gold point and question of the data carries keys, else ``gold_found``.

    A question whose right answer is a refusal needs none. An update that names its original needs
    keys for the old value too. Data without any gold have no keys.

    Raises:
        DataError: a key with nothing to look for in it, and where it stands.
    """
    seen = False
    for sample in dataset:
        _check_keys(sample)
        keyed_here, something = _is_keyed(sample)
        if not keyed_here:
            return load_preset("gold_found")
        seen = seen or something
    return load_preset("keyed" if seen else "gold_found")


def _check_keys(sample: Sample) -> None:
    """Compile every key now: a bad one must not surface in the middle of judging."""
    places: list[tuple[str, Iterable[Key]]] = []
    for point in sample.points:
        if point.keys is not None:
            places.append((f"gold point {point.id!r}", (*point.keys.must, *point.keys.gone)))
    for checkpoint in sample.checkpoints:
        for question in checkpoint.questions:
            if question.keys is not None:
                every = chain(*question.keys.alternatives, question.keys.forbidden)
                places.append((f"question {question.id!r}", every))
    problems = []
    for place, keys in places:
        try:
            match.compile_keys(keys)
        except DataError as error:
            problems += [
                Problem(f"sample {sample.id!r}, {place}: {problem.message}")
                for problem in error.problems
            ]
    if problems:
        raise DataError(problems)


def _is_keyed(sample: Sample) -> tuple[bool, bool]:
    """Whether everything in a sample that could carry keys does, and whether anything does."""
    for point in sample.points:
        if point.keys is None or not point.keys.must:
            return False, True
        needs_old = point.kind is PointKind.UPDATE and point.in_update_handling
        if needs_old and not point.keys.gone:
            return False, True
    questions = [question for cp in sample.checkpoints for question in cp.questions]
    if any(q.keys is None and q.answer_kind is not AnswerKind.REFUSAL for q in questions):
        return False, True
    return True, bool(sample.points) or any(q.keys is not None for q in questions)
