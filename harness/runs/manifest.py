"""What a run was made with, in sections by what they decide.

``pipeline`` decides stage 1's records: a run of another is made anew. ``judge`` decides stage 2: a
run of another is judged anew. ``plan`` counts the planned units and follows from the data.
``about`` tells where and when, and is never compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.outcomes import RunError
from harness.records import JSONObject
from harness.runs.files import read_json, sha256_of, write_json

SCHEMA_VERSION = 1
FILE = "manifest.json"

#: Sections that two equal runs share, in the order in which a difference is looked for.
COMPARED = ("pipeline", "judge", "plan")

_ABSENT = "(absent)"


@dataclass(frozen=True)
class FieldDifference:
    """The first field that two manifests do not share, as ``pipeline.dataset.sha256``."""

    field: str
    left: Any
    right: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.left!r} is not {self.right!r}"


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``. All sections are plain JSON objects."""

    pipeline: JSONObject
    judge: JSONObject
    plan: JSONObject
    about: JSONObject = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def sha256(self) -> str:
        """Hash of what is compared."""
        return sha256_of({name: getattr(self, name) for name in COMPARED})

    def with_judge(self, judge: JSONObject) -> Manifest:
        """The same run, judged by another instrument."""
        return replace(self, judge=judge)

    def difference(
        self, other: Manifest, sections: tuple[str, ...] = COMPARED
    ) -> FieldDifference | None:
        """The first field in which this one differs from ``other``, in this one's order."""
        for section in sections:
            mine = dict(_leaves(getattr(self, section), section))
            theirs = dict(_leaves(getattr(other, section), section))
            for name in [*mine, *(name for name in theirs if name not in mine)]:
                left, right = mine.get(name, _ABSENT), theirs.get(name, _ABSENT)
                if left != right:
                    return FieldDifference(name, left, right)
        return None

    def write(self, folder: Path) -> None:
        """Write ``manifest.json``, atomically."""
        write_json(
            folder / FILE,
            {
                "schema_version": self.schema_version,
                "sha256": self.sha256,
                "pipeline": self.pipeline,
                "judge": self.judge,
                "plan": self.plan,
                "about": self.about,
            },
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a run directory.

        Raises:
            RunError: none there, damaged, changed by hand, or of a newer memrig.
        """
        path = folder / FILE
        if not path.exists():
            raise RunError(f"{folder} is no run directory: it has no {FILE}")
        value = read_json(path)
        version = value.get("schema_version") if isinstance(value, dict) else None
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise RunError(
                f"{path}: schema version {version!r}; this memrig reads {SCHEMA_VERSION}"
            )
        try:
            made = cls(value["pipeline"], value["judge"], value["plan"], value["about"], version)
        except KeyError as error:
            raise RunError(f"{path} is damaged: {error.args[0]} is missing") from None
        for name in (*COMPARED, "about"):
            if not isinstance(getattr(made, name), dict):
                raise RunError(f"{path} is damaged: {name} is no JSON object")
        if made.sha256 != value.get("sha256"):
            raise RunError(f"{path} was changed after it was written: its hash does not agree")
        return made


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf of nested objects with its dotted name; lists are leaves."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    else:
        yield name, value
