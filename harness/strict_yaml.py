"""YAML that says where it is wrong: duplicate keys refused, a line number for every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from harness.outcomes import DataError, Problem

#: Path of keys and list positions inside a document, as pydantic's ``loc`` has it.
Location = tuple[int | str, ...]


def load(path: Path) -> tuple[Any, dict[Location, int]]:
    """Read one YAML document; returns its value and the 1-based line of every node.

    Raises:
        DataError: unreadable, not UTF-8, not YAML, or a key stands twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError([Problem(f"cannot be read: {error.strerror}", str(path))]) from None
    except UnicodeDecodeError as error:
        raise DataError([Problem(f"is not UTF-8: {error.reason}", str(path))]) from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise DataError([Problem(f"is not YAML: {error.problem}", str(path), line)]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise DataError([Problem(f"is not YAML: {error}", str(path))]) from None
    lines: dict[Location, int] = {}
    twice: list[Problem] = []
    if node is not None:
        _walk(node, (), lines, twice, str(path))
    if twice:
        raise DataError(twice)
    return value, lines


def _walk(
    node: yaml.Node,
    at: Location,
    lines: dict[Location, int],
    twice: list[Problem],
    file: str,
) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen:
                twice.append(Problem(f"the key {name!r} stands twice", file, line))
            seen.add(name)
            lines[(*at, name)] = line
            _walk(value, (*at, name), lines, twice, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*at, index), lines, twice, file)


def problems_of(
    error: ValidationError, file: Path, lines: dict[Location, int], known: dict[str, str]
) -> list[Problem]:
    """Turn what pydantic found into problems with file and line.

    ``known`` maps each legal top-level field to its help; it is used for the message about an
    unknown one.
    """
    found = []
    for entry in error.errors(include_url=False):
        at: Location = entry["loc"]
        line = next((lines[at[:n]] for n in range(len(at), -1, -1) if at[:n] in lines), None)
        where = ".".join(str(part) for part in at)
        message = f"{where}: {entry['msg']}" if where else str(entry["msg"])
        if entry["type"] == "extra_forbidden":
            message = f"unknown field {where!r}"
            if len(at) == 1:
                message += f"; known: {', '.join(known)}"
        found.append(Problem(message, str(file), line))
    return found
