"""Are two runs the same? The manifests say what ought to be, the records what is.

Record lines are equal when they are byte-equal after sorting by (sample, position, kind) and
without times, attempts, measurements and log paths (``records.VOLATILE``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from harness.records import VOLATILE, JSONObject
from harness.runs.directory import Finished, Run
from harness.runs.files import canonical
from harness.runs.manifest import COMPARED

Verdict = Literal["reuse", "re-judge", "re-run"]


@dataclass(frozen=True)
class Difference:
    """What ``diff`` found.

    ``verdict`` says what of the first run can serve as the second: all of it (reuse), its records
    (re-judge), nothing (re-run). ``field`` is the first manifest field that differs, else the
    place of the first record that does; absent when nothing differs.
    """

    verdict: Verdict
    field: str | None = None
    left: Any = None
    right: Any = None
    records_equal: bool = True
    records: int = 0

    @property
    def equal(self) -> bool:
        """Nothing differs."""
        return self.field is None


def diff(left: Run, right: Run) -> Difference:
    """Compare two runs: manifests first, then every record."""
    where, differing, count = _records(left, right)
    for section in COMPARED:
        found = left.manifest.difference(right.manifest, (section,))
        if found is not None:
            verdict: Verdict = "re-judge" if section == "judge" else "re-run"
            return Difference(verdict, found.field, found.left, found.right, where is None, count)
    if where is not None:
        return Difference("re-run", where, *differing, records_equal=False, records=count)
    return Difference("reuse", records=count)


def stable(record: JSONObject) -> JSONObject:
    """A record without what two equal runs may differ in, at any depth of its failure."""
    kept = {name: value for name, value in record.items() if name not in VOLATILE}
    if isinstance(kept.get("failure"), dict):
        kept["failure"] = {k: v for k, v in kept["failure"].items() if k not in VOLATILE}
    return kept


def _records(left: Run, right: Run) -> tuple[str | None, tuple[Any, Any], int]:
    """Place of the first record that differs, its two values, and how many were compared."""
    mine = {entry.sample_id: entry for entry in left.finished}
    theirs = {entry.sample_id: entry for entry in right.finished}
    count = 0
    for sample_id in sorted(mine.keys() | theirs.keys()):
        if sample_id not in mine or sample_id not in theirs:
            there = (_told(sample_id in mine), _told(sample_id in theirs))
            return f"sample {sample_id}", there, count
        pairs = _zip(_sorted(left, mine[sample_id]), _sorted(right, theirs[sample_id]))
        for one, other in pairs:
            count += 1
            found = _field(one, other)
            if found is not None:
                return found[0], (found[1], found[2]), count
    return None, (None, None), count


def _told(recorded: bool) -> str:
    return "recorded" if recorded else "not recorded"


def _sorted(run: Run, entry: Finished) -> Iterator[tuple[str, JSONObject]]:
    """One sample's records as (place, stable record), by position and then kind."""
    read = [
        (int(value["position"]), kind, place, value)
        for kind, source in (
            ("question", run.question_objects(entry)),
            ("session", run.session_objects(entry)),
        )
        for place, value in enumerate(source)
    ]
    for position, kind, _, value in sorted(read, key=lambda found: found[:3]):
        yield f"sample {entry.sample_id} {kind} {position}", stable(value)


def _zip(
    left: Iterator[tuple[str, JSONObject]], right: Iterator[tuple[str, JSONObject]]
) -> Iterator[tuple[tuple[str, JSONObject] | None, tuple[str, JSONObject] | None]]:
    while True:
        pair = (next(left, None), next(right, None))
        if pair == (None, None):
            return
        yield pair


def _field(
    one: tuple[str, JSONObject] | None, other: tuple[str, JSONObject] | None
) -> tuple[str, Any, Any] | None:
    """The first field in which two records differ."""
    if one is None or other is None:
        place = (one or other or ("", {}))[0]
        return place, _told(one is not None), _told(other is not None)
    if one[0] != other[0]:
        return one[0], one[0], other[0]
    if canonical(one[1]) == canonical(other[1]):
        return None
    for name in [*one[1], *(name for name in other[1] if name not in one[1])]:
        if one[1].get(name) != other[1].get(name):
            return f"{one[0]} {name}", one[1].get(name), other[1].get(name)
    return one[0], one[1], other[1]
