"""Schema hints: what lets a very small model serve a system that was written for a large one.

A baseline may say which JSON a certain prompt of its system wants. The hint turns that prompt's
``json_object`` (or no format at all) into a strict schema, so that half a billion parameters
produce what the system can parse. Applied on the embedded provider only, and disclosed: the
manifest lists the hints, the ledger every request that one was applied to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.models.policy import Request
from harness.models.routes import CHAT


@dataclass(frozen=True)
class SchemaHint:
    """``pattern`` (regular expression) is looked for in the texts of the messages."""

    name: str
    pattern: str
    schema: Mapping[str, Any]


def apply_hints(request: Request, hints: Sequence[SchemaHint]) -> tuple[Request, tuple[str, ...]]:
    """The request with the first hint that fits, and the note of it.

    A schema that the system asks for itself is left alone.
    """
    body = request.body
    if not hints or body is None or not request.path.endswith(CHAT):
        return request, ()
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        return request, ()
    text = "\n".join(_texts(body.get("messages")))
    for hint in hints:
        if re.search(hint.pattern, text):
            schema = {"name": hint.name, "strict": True, "schema": dict(hint.schema)}
            made = {**body, "response_format": {"type": "json_schema", "json_schema": schema}}
            return replace(request, body=made), (f"schema hint {hint.name}",)
    return request, ()


def _texts(messages: Any) -> list[str]:
    found: list[str] = []
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [
                part["text"]
                for part in content
                if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            ]
    return found
