"""A sample's snapshots, each written as the difference to the one before it.

The hash is over the whole snapshot, so a chain that is replayed (:class:`Replay`) proves itself at
every link.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.outcomes import VerifyError
from harness.records import JSONObject, SnapshotRecord
from harness.runs.files import sha256_of


class Chain:
    """Writes one sample's snapshots. Starts anew with every attempt."""

    def __init__(self) -> None:
        self._items: dict[str, JSONObject] = {}

    def add(self, snapshot: Sequence[JSONObject], *, whole: bool) -> SnapshotRecord:
        """Record the next snapshot (wire records); ``whole`` keeps all of its items too.

        Raises:
            ValueError: two memories share an id, so that no difference can be told.
        """
        after = {str(item["memory_id"]): item for item in snapshot}
        if len(after) != len(snapshot):
            raise ValueError(f"two memories share the id {_first_repeated(snapshot)!r}")
        before, self._items = self._items, after
        order = tuple(after)
        return SnapshotRecord(
            count=len(after),
            sha256=sha256_of(snapshot),
            changed=tuple(item for key, item in after.items() if before.get(key) != item),
            removed=tuple(key for key in before if key not in after),
            order=None if order == _natural_order(before, after) else order,
            items=tuple(snapshot) if whole else None,
        )


class Replay:
    """Reads them back: :meth:`next` returns the whole snapshot after each record."""

    def __init__(self) -> None:
        self._items: dict[str, JSONObject] = {}

    def next(self, record: SnapshotRecord) -> list[JSONObject]:
        """Apply one difference.

        Raises:
            VerifyError: the count, the hash or the whole snapshot beside it does not agree.
        """
        gone = set(record.removed)
        after = {key: item for key, item in self._items.items() if key not in gone}
        after.update({str(item["memory_id"]): item for item in record.changed})
        if record.order is not None:
            if sorted(record.order) != sorted(after):
                raise VerifyError("the order of a snapshot names other memories than it holds")
            after = {key: after[key] for key in record.order}
        self._items = after
        snapshot = list(after.values())
        if len(snapshot) != record.count:
            raise VerifyError(f"a snapshot of {record.count} memories has {len(snapshot)}")
        if sha256_of(snapshot) != record.sha256:
            raise VerifyError("a snapshot has another hash than was recorded")
        if record.items is not None and list(record.items) != snapshot:
            raise VerifyError("a whole snapshot differs from the chain of differences")
        return snapshot


def _natural_order(before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    """Survivors as they stood, then the new ones."""
    kept, known = set(after), set(before)
    return (*(key for key in before if key in kept), *(key for key in after if key not in known))


def _first_repeated(snapshot: Sequence[JSONObject]) -> str:
    seen: set[str] = set()
    for item in snapshot:
        key = str(item["memory_id"])
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("no id is repeated")
