"""Cards: what is known and pinned about a data set or a format.

A card is YAML. The card of a data folder ``DIR`` is ``DIR/card.yaml`` or ``DIR.yaml`` beside it;
its pins are held against what was loaded. A value that nobody has seen is written ``unknown``.
``DIR.yaml`` may be somebody else's file: it is a card only if it has the fields ``card`` and
``kind``, and anything else there, broken or not, is left alone. ``DIR/card.yaml`` is always one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from harness import strict_yaml
from harness.outcomes import DataError, Problem
from harness.samples import Balance, Dataset

UNKNOWN = "unknown"
_IDENTIFYING = frozenset({"card", "kind"})
_FIELD = re.compile(r"^(card|kind)[ \t]*:", re.MULTILINE)
Sha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64}|unknown)$")]


class Counts(BaseModel):
    """The counts of a balance. Those that are absent are not checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: int | None = None
    sessions: int | None = None
    turns: int | None = None
    attachments: int | None = None
    question_attachments: int | None = None
    gold_points: int | None = None
    checkpoints: int | None = None
    questions: int | None = None


class Card(BaseModel):
    """One card. ``kind`` is ``format`` for a card that describes files in general."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    card: Literal[1]
    kind: Literal["dataset", "format"]
    name: str = Field(min_length=1)
    format: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    source: str
    licence: str
    languages: tuple[str, ...] = ()
    sha256: Sha256 = UNKNOWN
    content_sha256: Sha256 = UNKNOWN
    counts: Counts = Counts()
    verified: str = Field(min_length=1)
    notes: tuple[str, ...] = ()


def read_card(path: Path) -> Card:
    """Read a card.

    Raises:
        DataError: it cannot be read, is no YAML, or has unknown, missing or wrong fields.
    """
    value, lines = strict_yaml.load(path)
    try:
        return Card.model_validate(value)
    except ValidationError as error:
        known = {name: "" for name in Card.model_fields}
        raise DataError(strict_yaml.problems_of(error, path, lines, known)) from None


def card_of(folder: Path) -> Card | None:
    """The card that pins a data folder, if it has one.

    A file beside it that is no card, or the card of a format, pins nothing.
    """
    folder = folder.resolve()
    inside, beside = folder / "card.yaml", folder.parent / f"{folder.name}.yaml"
    card = None
    if inside.is_file():
        card = read_card(inside)
    elif folder.is_dir() and beside.is_file() and _is_card(beside):
        card = read_card(beside)
    return card if card is not None and card.kind == "dataset" else None


def check_card(card: Card, dataset: Dataset) -> tuple[str, ...]:
    """Hold a card against what was loaded.

    Returns:
        Warnings: the bytes differ but say the same (line ends, spacing).

    Raises:
        DataError: format, content or a count is not what the card pins.
    """
    problems = []
    if card.format != dataset.format:
        problems.append(f"the format is {dataset.format}, the card says {card.format}")
    for name, pinned in card.counts.model_dump(exclude_none=True).items():
        found = getattr(dataset.balance, name)
        if found != pinned:
            problems.append(f"{name}: {found} were loaded, the card says {pinned}")
    if card.content_sha256 not in (UNKNOWN, dataset.content_sha256):
        problems.append(
            f"the content differs: content_sha256 is {dataset.content_sha256}, "
            f"the card says {card.content_sha256}"
        )
    if problems:
        named = f"data set {dataset.name!r} is not what its card {card.name!r} pins: "
        raise DataError([Problem(named + problem) for problem in problems])
    if card.sha256 not in (UNKNOWN, dataset.sha256):
        return (
            f"the bytes differ from those of card {card.name!r} (sha256 {dataset.sha256}), "
            "the content does not",
        )
    return ()


def counts_of(balance: Balance) -> Counts:
    """The counts to pin for a balance."""
    return Counts(**{name: getattr(balance, name) for name in Counts.model_fields})


def _is_card(path: Path) -> bool:
    """Whether a file has a card's fields; one that is not YAML, whether they stand in it so."""
    try:
        value, _ = strict_yaml.load(path)
    except DataError:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                text = stream.read(strict_yaml.MAX_BYTES)
        except OSError:
            return False
        return {found[1] for found in _FIELD.finditer(text)} == _IDENTIFYING
    return isinstance(value, dict) and value.keys() >= _IDENTIFYING


def shipped_cards() -> dict[Path, Card]:
    """The cards that come with memrig, by their path."""
    folder = Path(__file__).resolve().parents[2] / "datasets"
    return {path: read_card(path) for path in sorted(folder.glob("*.yaml")) if _is_card(path)}


def named(given: Path) -> Path:
    """A path as it is; the name of a data set that ships (``memrig data list``) as its path."""
    try:
        if given.exists() or len(given.parts) != 1:
            return given
    except OSError:  # may not be looked at, or no possible name: opening it says so
        return given
    for path, card in shipped_cards().items():
        folder = path.with_suffix("")
        if card.kind == "dataset" and str(given) in (card.name, folder.name):
            return folder
    return given
