"""The aggregate of a run, for those who show it: read whole or refused by name."""

from __future__ import annotations

from pathlib import Path

from harness.outcomes import RunError
from harness.records import JSONObject
from harness.runs.directory import AGGREGATE
from harness.runs.files import read_object
from harness.runs.manifest import FILE
from harness.runs.manifest import SCHEMA_VERSION as MANIFEST_SCHEMA

SCHEMA_VERSION = 1

#: What every reader takes for granted, with its type.
_SHAPE = {"title": str, "plan": dict, "statuses": dict, "dimensions": dict}
_CELL = ("value", "N", "na")


def read_aggregate(run: Path) -> JSONObject:
    """``aggregate_metrics.json`` of a run directory.

    Raises:
        RunError: not there, damaged, or of another memrig; a manifest of a newer memrig.
    """
    read_manifest(run)
    try:
        value = read_object(run / AGGREGATE)
        wrong = _wrong(value)
    except RunError as error:
        wrong = str(error)
    if wrong is not None:
        raise RunError(
            f"{run / AGGREGATE} is damaged or made by another memrig: {wrong}; "
            f"memrig aggregate {run} makes it anew"
        )
    return value


def read_manifest(run: Path) -> JSONObject:
    """The manifest as it stands, for showing; empty where there is none.

    Raises:
        RunError: damaged, or of a newer memrig.
    """
    path = run / FILE
    value = read_object(path) if path.is_file() else {}
    version = value.get("schema_version", MANIFEST_SCHEMA)
    if not isinstance(version, int) or version > MANIFEST_SCHEMA:
        raise RunError(f"{path}: schema version {version!r}; this memrig reads {MANIFEST_SCHEMA}")
    return value


def _wrong(value: JSONObject) -> str | None:
    version = value.get("schema_version")
    if version != SCHEMA_VERSION:
        return f"schema version {version!r}, this memrig reads {SCHEMA_VERSION}"
    for name, kind in _SHAPE.items():
        if not isinstance(value.get(name), kind):
            return f"{name} is missing or no {kind.__name__}"
    for name, numbers in value["dimensions"].items():
        cells = numbers.values() if isinstance(numbers, dict) else [None]
        if not all(isinstance(cell, dict) and all(k in cell for k in _CELL) for cell in cells):
            return f"dimension {name} holds no numbers"
    return None
