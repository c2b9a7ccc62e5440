"""What a load found: reasons to refuse, warnings, what was left out, and the counts.

Every fault is collected with its place and the load goes on, so that one run names them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.loaders.slices import Slice
from harness.loaders.strict import JSONPath, line_of
from harness.outcomes import DataError, Problem
from harness.samples import Balance, LeftOut

#: So many warnings of one kind are written out; the rest is counted in one last line.
NAMED_WARNINGS = 50

_LISTS = {
    "sessions": "session",
    "dialogue": "turn",
    "memory_sessions": "session",
    "memory_points": "point",
    "checkpoints": "checkpoint",
    "qa_checkpoints": "checkpoint",
    "questions": "question",
    "attachments": "attachment",
    "evidence": "evidence",
}
_IDS = ("_v2_session_id", "session_id", "memory_id", "checkpoint_id")


def words(root: Any, path: JSONPath) -> str:
    """A path in words: ``sample 'm1', session 'S01', turn 0, content``.

    Elements of known lists are called by their id, else by their position.
    """
    said = []
    value, owner = root, ""
    if isinstance(root, dict) and isinstance(root.get("sample_id"), str):
        said.append(f"sample {root['sample_id']!r}")
    for step in path:
        inner = _step(value, step)
        if isinstance(step, int):
            said.append(f"{_LISTS.get(owner, owner or 'element')} {_name(inner, step)}")
        elif step not in _LISTS:
            said.append(step)
        value, owner = inner, step if isinstance(step, str) else ""
    if path and isinstance(path[-1], str) and path[-1] in _LISTS:
        said.append(path[-1])
    return ", ".join(said)


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _name(value: Any, position: int) -> str:
    if isinstance(value, dict):
        for key in _IDS:
            if isinstance(value.get(key), str) and value[key].strip():
                return repr(value[key])
    return str(position)


@dataclass(frozen=True)
class At:
    """A place in a parsed JSON value."""

    piece: Slice
    root: Any
    path: JSONPath = ()
    prefix: str = ""

    def child(self, *steps: str | int) -> At:
        """The place below this one."""
        return At(self.piece, self.root, (*self.path, *steps), self.prefix)

    @property
    def file(self) -> str:
        """The file, relative to the data folder."""
        return self.piece.file

    @property
    def line(self) -> int:
        """The line at which the value starts, from 1."""
        return line_of(self.piece, self.path)

    def __str__(self) -> str:
        said = words(self.root, self.path)
        return ", ".join(part for part in (self.prefix, said) if part)


@dataclass
class Findings:
    """Collects what is found while reading. ``counts`` is what was read, whatever became of it."""

    strict: bool = False
    problems: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _warnings: dict[str, list[str]] = field(default_factory=dict)
    _unnamed: Counter[str] = field(default_factory=Counter)

    def refuse(self, at: At, message: str) -> None:
        """A reason to refuse the data set, at a place in it."""
        where = str(at)
        text = f"{where}: {message}" if where else message
        self.problems.append(Problem(text, at.file, at.line))

    def refuse_file(self, message: str, file: str, line: int | None = None) -> None:
        """A reason to refuse the data set that concerns a file or a line of it."""
        self.problems.append(Problem(message, file, line))

    def absorb(self, error: DataError) -> None:
        """Keep the problems of an error and go on."""
        self.problems.extend(error.problems)

    def warn(self, kind: str, at: At, message: str) -> None:
        """Something that loads but that its author should look at."""
        self._warn(kind, lambda: f"{at.file}: {at}: {message}")

    def warn_file(self, kind: str, file: str, message: str) -> None:
        """A warning about a file as a whole."""
        self._warn(kind, lambda: f"{file}: {message}")

    def leave_out(self, what: str, at: At, reason: str, *, gold: bool = False) -> None:
        """List something read that is in no denominator, and warn about it.

        Gold is refused instead when ``strict``.
        """
        if gold and self.strict:
            self.refuse(at, f"{what} would be left out: {reason} (strict)")
            return
        self.left_out.append(LeftOut(what, str(at), reason))
        self.warn(f"left out: {what}", at, f"{what} left out: {reason}")

    def _warn(self, kind: str, text: Callable[[], str]) -> None:
        named = self._warnings.setdefault(kind, [])
        if len(named) < NAMED_WARNINGS:
            named.append(text())
        else:
            self._unnamed[kind] += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings, by kind in order of first appearance."""
        told: list[str] = []
        for kind, named in self._warnings.items():
            told += named
            if self._unnamed[kind]:
                told.append(f"and {self._unnamed[kind]} more warnings of this kind ({kind})")
        return tuple(told)

    def check(self) -> None:
        """Raise :class:`DataError` with every problem, if there is one."""
        if self.problems:
            raise DataError(self.problems)

    def balance(self) -> Balance:
        """The balance of a finished load."""
        counts = self.counts
        return Balance(
            samples=counts["samples"],
            sessions=counts["sessions"],
            turns=counts["turns"],
            attachments=counts["attachments"],
            question_attachments=counts["question_attachments"],
            gold_points=counts["gold_points"],
            checkpoints=counts["checkpoints"],
            questions=counts["questions"],
            warnings=self.warnings,
            left_out=tuple(self.left_out),
        )
