"""The items that judges are measured on, and the strict reader of their file.

One JSON object a line: a question, its gold and keys as a data set has them, an answer of a known
kind, and its label. ``datasets/calibration`` holds those that ship.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from harness.outcomes import DataError, Problem
from harness.samples import AnswerKind, Key, QuestionKeys

#: The items that ship with memrig (it is used from a checkout).
SHIPPED = Path(__file__).resolve().parents[2] / "datasets" / "calibration" / "items.jsonl"

CORRECT = "Correct"

#: Every kind of answer, and the labels that it may have: right kinds first.
KINDS: dict[str, frozenset[str]] = {
    "paraphrase": frozenset({CORRECT}),
    "verbatim": frozenset({CORRECT}),
    "wrong_specific": frozenset({"Hallucination"}),
    "wrong_vague": frozenset({"Hallucination", "Omission"}),
    "refusal": frozenset({"Omission"}),
    "partial_list": frozenset({"Omission"}),
    "swapped": frozenset({"Hallucination"}),
    "stale": frozenset({"Hallucination"}),
    "injection": frozenset({"Hallucination", "Omission"}),
}

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KeyFields(_Strict):
    """A key that is more than one text; the format of the data sets."""

    any: list[Text]
    not_before: list[Text] = []
    not_after: list[Text] = []


class KeysFields(_Strict):
    """The keys of a question: alternatives, of which one must be found whole, and what may not."""

    answers: list[list[Text | KeyFields]]
    forbidden: list[Text | KeyFields] = []


class ItemFields(_Strict):
    """One line of ``items.jsonl``."""

    id: Text
    language: Literal["en", "zh"]
    kind: Text
    question: Text
    answer_kind: Literal["text", "refusal"]
    gold: Text
    keys: KeysFields | None = None
    points: list[Text] = []
    answer: Text
    label: Literal["Correct", "Hallucination", "Omission"]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; known: {', '.join(KINDS)}")
        if self.label not in KINDS[self.kind]:
            raise ValueError(f"a {self.kind} answer is never labelled {self.label}")
        if (self.keys is None) != (self.answer_kind == "refusal"):
            raise ValueError("an item has keys, unless its right answer is a refusal")
        if self.keys is not None and not (self.keys.answers and all(self.keys.answers)):
            raise ValueError("keys.answers needs at least one alternative, each with a key")
        return self


@dataclass(frozen=True)
class Item:
    """One answer with its label. ``points`` are the gold facts that a judge may be shown."""

    id: str
    language: str
    kind: str
    question: str
    answer_kind: AnswerKind
    gold: str
    keys: QuestionKeys | None
    points: tuple[str, ...]
    answer: str
    label: str


@dataclass(frozen=True)
class ItemSet:
    """Items in file order; ``id`` is a hash of all that they say, whatever their order."""

    id: str
    items: tuple[Item, ...]


def load_items(path: Path) -> ItemSet:
    """Read a file of items, one JSON object a line.

    Raises:
        DataError: unreadable, or every line that is no item, with what is wrong in it.
    """
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise DataError([Problem(f"cannot be read: {error.strerror}", str(path))]) from None
    except UnicodeDecodeError as error:
        raise DataError([Problem(f"is not UTF-8: {error.reason}", str(path))]) from None
    found: dict[str, ItemFields] = {}
    problems: list[Problem] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = ItemFields.model_validate(json.loads(line, object_pairs_hook=_once))
            if fields.id in found:
                raise ValueError(f"the id {fields.id!r} stands twice")
            found[fields.id] = fields
        except ValidationError as error:
            problems += [_problem(entry, path, number) for entry in error.errors()]
        except ValueError as error:
            problems.append(Problem(str(error), str(path), number))
    if not found and not problems:
        problems.append(Problem("holds no items", str(path)))
    if problems:
        raise DataError(problems)
    return ItemSet(_id_of(found.values()), tuple(_item(fields) for fields in found.values()))


@lru_cache(maxsize=1)
def shipped_items() -> ItemSet:
    """The items that ship, read once a process."""
    return load_items(SHIPPED)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(name for name, count in Counter(k for k, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return made


def _problem(entry: Any, path: Path, line: int) -> Problem:
    place = ".".join(str(part) for part in entry["loc"])
    return Problem(f"{place}: {entry['msg']}" if place else entry["msg"], str(path), line)


def _id_of(items: Iterable[ItemFields]) -> str:
    content = sorted((item.model_dump() for item in items), key=lambda item: str(item["id"]))
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False).encode()
    return f"calibration-{hashlib.sha256(canonical).hexdigest()[:8]}"


def _item(fields: ItemFields) -> Item:
    return Item(
        id=fields.id,
        language=fields.language,
        kind=fields.kind,
        question=fields.question,
        answer_kind=AnswerKind(fields.answer_kind),
        gold=fields.gold,
        keys=_keys(fields.keys) if fields.keys else None,
        points=tuple(fields.points),
        answer=fields.answer,
        label=fields.label,
    )


def _keys(fields: KeysFields) -> QuestionKeys:
    return QuestionKeys(
        tuple(tuple(_key(key) for key in alternative) for alternative in fields.answers),
        tuple(_key(key) for key in fields.forbidden),
    )


def _key(fields: str | KeyFields) -> Key:
    if isinstance(fields, str):
        return Key((fields,))
    return Key(tuple(fields.any), tuple(fields.not_before), tuple(fields.not_after))
