"""What one attempt at a sample writes while it runs: ``attempts/<sample>/<n>/``.

Lines are flushed, not synced: a killed memrig loses none of them, and a power cut only those of a
sample that starts anew anyway. They become part of the run when the run takes them over.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from harness.outcomes import Status
from harness.records import JSONObject, QARecord, SessionRecord, to_json
from harness.runs.files import full_disk_by_name, line_of

SESSIONS, QUESTIONS, ABOUT, NOTES = "sessions.jsonl", "questions.jsonl", "attempt.json", "notes.txt"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 60


def folder_name(ordinal: str, sample_id: str) -> str:
    """A folder for a sample whatever its id: the ordinal makes it unique, the id readable."""
    return f"{ordinal}_{_UNSAFE.sub('-', sample_id)[:_LONGEST]}".rstrip(".")


class Attempt:
    """One try at one sample. Records may be added from one thread."""

    def __init__(self, root: Path, sample_id: str, ordinal: str, number: int) -> None:
        """An attempt under ``root``, the run's ``attempts`` folder; see :meth:`next`."""
        self.sample_id = sample_id
        self.ordinal = ordinal
        self.number = number
        self.folder = root / folder_name(ordinal, sample_id) / str(number)
        self.statuses: Counter[Status] = Counter()
        self._run = root.parent
        self._files: dict[str, BinaryIO] = {}

    @classmethod
    def next(cls, root: Path, sample_id: str, ordinal: str) -> Attempt:
        """Open the attempt after a sample's last one."""
        folder = root / folder_name(ordinal, sample_id)
        with full_disk_by_name(folder):
            folder.mkdir(parents=True, exist_ok=True)
            numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
            attempt = cls(root, sample_id, ordinal, max(numbers, default=0) + 1)
            attempt.folder.mkdir()
            for name in (SESSIONS, QUESTIONS):
                attempt._files[name] = (attempt.folder / name).open("ab")
        return attempt

    def session(self, record: SessionRecord) -> None:
        """Add a session's record."""
        self._add(SESSIONS, record.status, to_json(record))

    def question(self, record: QARecord) -> None:
        """Add a question's record."""
        self._add(QUESTIONS, record.status, to_json(record))

    def about(self, **facts: Any) -> None:
        """Write down what the box said about itself, or how the attempt ended."""
        head = {"sample_id": self.sample_id, "ordinal": self.ordinal, "attempt": self.number}
        text = json.dumps({**head, **facts}, ensure_ascii=False, indent=2)
        path = self.folder / ABOUT
        with full_disk_by_name(path):
            path.write_text(text + "\n", encoding="utf-8")

    def note(self, text: str) -> str:
        """Keep a text too long for a record (a trace); returns where, relative to the run."""
        path = self.folder / NOTES
        with full_disk_by_name(path), path.open("a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n\n")
        return self.relative(path)

    def relative(self, path: Path) -> str:
        """A path as a record names it: relative to the run directory where it lies in it."""
        inside = path.is_relative_to(self._run)
        return str(path.relative_to(self._run)) if inside else str(path)

    def path(self, name: str) -> Path:
        """The file of this attempt that holds :data:`SESSIONS` or :data:`QUESTIONS`."""
        return self.folder / name

    def close(self) -> None:
        """No more records. Safe to call twice."""
        for name, file in self._files.items():
            with full_disk_by_name(self.folder / name):
                file.close()

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, name: str, status: Status, record: JSONObject) -> None:
        file = self._files[name]
        with full_disk_by_name(self.folder / name):
            file.write(line_of(record))
            file.flush()
        self.statuses[status] += 1
