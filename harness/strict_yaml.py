"""YAML that says where it is wrong: duplicate keys refused, a line number for every key.

Anchors and aliases are refused: a few lines of them can stand for gigabytes, and no file of ours
needs them. So is nesting beyond :data:`MAX_DEPTH` and a file beyond :data:`MAX_BYTES`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from harness.outcomes import DataError, Problem

#: Path of keys and list positions inside a document, as pydantic's ``loc`` has it.
Location = tuple[int | str, ...]

#: Deeper nesting is refused: the parser recurses, and Python's own limit is a crash.
MAX_DEPTH = 50
#: A larger file is no settings file.
MAX_BYTES = 4 << 20


def load(path: Path) -> tuple[Any, dict[Location, int]]:
    """Read one YAML document; returns its value and the 1-based line of every node.

    Raises:
        DataError: unreadable, too large, not UTF-8, or refused by :func:`parse`.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise DataError([Problem(f"is larger than {MAX_BYTES} bytes", str(path))])
        text = raw.decode("utf-8")
    except OSError as error:
        raise DataError([Problem(f"cannot be read: {error.strerror}", str(path))]) from None
    except UnicodeDecodeError as error:
        raise DataError([Problem(f"is not UTF-8: {error.reason}", str(path))]) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> tuple[Any, dict[Location, int]]:
    """:func:`load` for a text; ``file`` is how it is called in messages.

    Raises:
        DataError: not YAML, an anchor or alias, nested too deep, or a key stands twice.
    """
    try:
        _refuse_what_grows(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise DataError([Problem(f"is not YAML: {error.problem}", file, line)]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise DataError([Problem(f"is not YAML: {error}", file)]) from None
    lines: dict[Location, int] = {}
    twice: list[Problem] = []
    if node is not None:
        _walk(node, (), lines, twice, file)
    if twice:
        raise DataError(twice)
    return value, lines


def _refuse_what_grows(text: str, file: str) -> None:
    """Read the events of a text, which takes no recursion, up to the first that is refused."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else None
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            mark = "*" if isinstance(event, yaml.AliasEvent) else "&"
            message = f"anchors and aliases are not allowed ({mark}{anchor}); write it out"
            raise DataError([Problem(message, file, line)])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise DataError([Problem(f"nested deeper than {MAX_DEPTH} levels", file, line)])


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
