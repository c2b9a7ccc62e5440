"""Reading single fields: text, ids, lists, extra fields. Null is missing, never the text "None"."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from harness.loaders.findings import At, Findings

#: Ids go into file names (encoded); a longer one would not fit everywhere.
MAX_ID_BYTES = 255


def number_text(value: int | float | bool) -> str:
    """A JSON number or boolean as text, as JSON writes it."""
    return json.dumps(value)


def is_number(value: Any) -> bool:
    """A JSON number (a boolean is none)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_text(findings: Findings, at: At, value: Any) -> str | None:
    """Text, or ``None`` if it is missing.

    Numbers and booleans become text with a warning; lists and objects are refused.
    """
    if value is None:
        return None
    if isinstance(value, str):
        if "\x00" in value:
            findings.warn("NUL", at, "holds NUL characters, which adapters are not given")
        return value
    if isinstance(value, (bool, int, float)):
        text = number_text(value)
        kind = "boolean" if isinstance(value, bool) else "number"
        findings.warn("not text", at, f"a {kind}, read as the text {text!r}")
        return text
    findings.refuse(at, f"{json_type(value)}, expected text")
    return None


def read_label(findings: Findings, at: At, value: Any) -> str | None:
    """Text of a field that decides nothing: blank is missing, a wrong type warns and is dropped."""
    if isinstance(value, (list, dict)):
        findings.warn("not text", at, f"{json_type(value)}, expected text; ignored")
        return None
    text = read_text(findings, at, value)
    return text if text and text.strip() else None


def json_type(value: Any) -> str:
    """The JSON type of a value with its article, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


def read_key_id(findings: Findings, at: At, value: Any, what: str, *, in_path: bool = False) -> str:
    """An id that records are keyed by. Returns "" after refusing it.

    Refused: missing, blank, not text, control characters, over :data:`MAX_ID_BYTES`; with
    ``in_path`` also what could leave a folder.
    """
    fault = None
    if value is None:
        fault = f"{what} is missing"
    elif not isinstance(value, str):
        fault = f"{what} is {json_type(value)}, expected text"
    elif not value.strip():
        fault = f"{what} is blank"
    elif any(unicodedata.category(character) == "Cc" for character in value):
        fault = f"{what} {value!r} holds control characters"
    elif len(value.encode()) > MAX_ID_BYTES:
        fault = f"{what} {value[:40]!r}… is longer than {MAX_ID_BYTES} bytes"
    elif in_path and (set(value) & {"/", "\\"} or value.strip(". ") == ""):
        fault = f"{what} {value!r} could leave a folder as a file name"
    if fault is not None:
        findings.refuse(at, fault)
        return ""
    return str(value)


def read_soft_id(findings: Findings, at: At, value: Any, what: str) -> str | None:
    """An id that may be missing (a point's, an image's). A number becomes text with a warning."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if is_number(value):
        text = number_text(value)
        findings.warn("id not text", at, f"{what} is a number, read as the text {text!r}")
        return text
    if not isinstance(value, str):
        findings.warn("id not text", at, f"{what} is {json_type(value)}; ignored")
        return None
    return value


def read_list(findings: Findings, at: At, value: Any, *, or_one: bool = False) -> list[Any]:
    """A list; a missing one is empty.

    With ``or_one`` a single object or text is a list of one, with a warning; anything else is
    refused.
    """
    if value is None:
        return []
    if isinstance(value, list):
        return value
    if or_one and isinstance(value, (dict, str)):
        findings.warn("not a list", at, f"{json_type(value)}, read as a list of one")
        return [value]
    findings.refuse(at, f"{json_type(value)}, expected a list")
    return []


def read_object(findings: Findings, at: At, value: Any) -> dict[str, Any] | None:
    """An object, or ``None`` after refusing anything else."""
    if isinstance(value, dict):
        return value
    findings.refuse(at, f"{json_type(value)}, expected an object")
    return None


def read_texts(findings: Findings, at: At, value: Any, *, or_one: bool = False) -> tuple[str, ...]:
    """A list of texts without blanks; what is dropped from it is warned about."""
    made = []
    for position, entry in enumerate(read_list(findings, at, value, or_one=or_one)):
        place = at.child(position)
        text = read_text(findings, place, entry)
        if text and text.strip():
            made.append(text)
        elif text is not None or entry is None:
            findings.warn("blank entry", place, f"{'null' if entry is None else 'blank'}; ignored")
    return tuple(made)


def extras(value: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """What an object says beyond the known fields."""
    return {key: entry for key, entry in value.items() if key not in known}
