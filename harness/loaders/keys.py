"""Our own extension fields: keys that decide without a model. Every fault in them is fatal.

A key is a text, or ``{"any": [text, ...], "not_before": [text, ...], "not_after": [text, ...]}``.
"""

from __future__ import annotations

from typing import Any

from harness.loaders.fields import json_type
from harness.loaders.findings import At, Findings
from harness.samples import Key, PointKeys, PointKind, QuestionKeys


def read_point_keys(findings: Findings, at: At, value: Any, kind: PointKind) -> PointKeys | None:
    """``{"must": [KEY...], "gone": [KEY...]}``; ``gone`` is for updates only."""
    fields = _object(findings, at, value, ("must",), ("gone",))
    if fields is None:
        return None
    must = _keys(findings, at.child("must"), fields["must"])
    gone = _keys(findings, at.child("gone"), fields.get("gone", []), may_be_empty=True)
    if gone and kind is not PointKind.UPDATE:
        findings.refuse(at.child("gone"), f"a point of kind {kind.value} has nothing to be gone")
    return PointKeys(must, gone)


def read_question_keys(findings: Findings, at: At, value: Any) -> QuestionKeys | None:
    """``{"answers": [[KEY...], ...], "forbidden": [KEY...]}``: alternatives, all keys of one."""
    fields = _object(findings, at, value, ("answers",), ("forbidden",))
    if fields is None:
        return None
    place = at.child("answers")
    alternatives = fields["answers"]
    if not isinstance(alternatives, list) or not alternatives:
        findings.refuse(place, "expected a list of alternatives, each a list of keys")
        alternatives = []
    return QuestionKeys(
        tuple(_keys(findings, place.child(n), entry) for n, entry in enumerate(alternatives)),
        _keys(findings, at.child("forbidden"), fields.get("forbidden", []), may_be_empty=True),
    )


def _object(
    findings: Findings, at: At, value: Any, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        findings.refuse(at, f"{json_type(value)}, expected an object")
        return None
    unknown = sorted(set(value) - {*required, *optional})
    missing = sorted(set(required) - set(value))
    for name in unknown:
        known = ", ".join((*required, *optional))
        findings.refuse(at, f"unknown field {name!r}; known are {known}")
    for name in missing:
        findings.refuse(at, f"the field {name!r} is missing")
    return None if missing else value


def _keys(findings: Findings, at: At, value: Any, *, may_be_empty: bool = False) -> tuple[Key, ...]:
    if not isinstance(value, list) or not (value or may_be_empty):
        findings.refuse(at, "expected a list of keys" + ("" if may_be_empty else ", at least one"))
        return ()
    made = (_key(findings, at.child(n), entry) for n, entry in enumerate(value))
    return tuple(key for key in made if key is not None)


def _key(findings: Findings, at: At, value: Any) -> Key | None:
    if isinstance(value, str):
        value = {"any": [value]}
    fields = _object(findings, at, value, ("any",), ("not_before", "not_after"))
    if fields is None:
        if value is None:
            findings.refuse(at, "null, expected a key")
        return None
    return Key(
        _texts(findings, at.child("any"), fields["any"], may_be_empty=False),
        _texts(findings, at.child("not_before"), fields.get("not_before", [])),
        _texts(findings, at.child("not_after"), fields.get("not_after", [])),
    )


def _texts(findings: Findings, at: At, value: Any, *, may_be_empty: bool = True) -> tuple[str, ...]:
    good = isinstance(value, list) and all(isinstance(v, str) and v.strip() for v in value)
    if not good or not (value or may_be_empty):
        findings.refuse(at, "expected a list of texts that are not blank")
        return ()
    return tuple(value)
