"""What can go wrong, in one place: the statuses, the exception tree, and the failure table.

The tree::

    MemrigError
    ├── UsageError            a wrong flag or name; exit code 2
    │   ├── UnknownName       with "did you mean"
    │   └── DataError         input refused: every problem with file and line
    ├── BuildError            an image or environment could not be made; names its log
    ├── EngineError           docker or podman did not do what was asked
    ├── SandboxFailure        a box died, hung, ran out of memory or disk, broke the protocol
    ├── AdapterFailure        the memory system itself failed and said so over the pipe
    ├── ModelFailure          a model request failed for good
    └── RunError              a run directory cannot be used as asked
        ├── ManifestMismatch  resuming into a run made with another configuration
        └── VerifyError       records, hashes and tables do not agree

The table :data:`POLICIES` says for each kind of failure whether the call is tried again, whether
the box starts anew, and which status the unit ends in. Nothing else in memrig decides that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    """How one planned unit of work ended. Every planned unit ends in exactly one."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED_SETUP = "failed_setup"
    FAILED_INGEST = "failed_ingest"
    FAILED_RETRIEVE = "failed_retrieve"
    FAILED_ANSWER = "failed_answer"
    FAILED_JUDGE = "failed_judge"
    BUDGET_EXHAUSTED = "budget_exhausted"
    UNSUPPORTED = "unsupported"
    LEFT_OUT = "left_out"

    @property
    def has_result(self) -> bool:
        """The unit has something to grade (``ok`` or ``degraded``)."""
        return self in (Status.OK, Status.DEGRADED)

    @property
    def is_failure(self) -> bool:
        """The unit counts as wrong in the strict score."""
        return self.value.startswith("failed_") or self is Status.BUDGET_EXHAUSTED


class MemrigError(Exception):
    """The root of all errors that memrig raises on purpose. ``exit_code`` is the command's."""

    exit_code = 1


class UsageError(MemrigError):
    """The command was used wrongly, or its input was refused."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not in the catalogue, with the nearest ones that are."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        choices = sorted(known)
        folded = {choice.casefold(): choice for choice in choices}
        close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        near = [folded[match] for match in close]
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        there = f"Available: {', '.join(choices)}" if choices else "There are none."
        super().__init__(f"unknown {what} {name!r}. {hint}{there}")
        self.name = name


def printable(text: str) -> str:
    r"""A text that can be written as UTF-8: bytes of a file name that are not are shown escaped.

    Python reads such a byte of a name as a lone surrogate (``\udcff`` for 0xff).
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Problem:
    """One reason to refuse or to warn about input: what, and where exactly."""

    message: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file and self.line else ""
        if self.file and not self.line:
            where = f"{self.file}: "
        return printable(where + self.message)


class DataError(UsageError):
    """Input that is refused. Carries every problem found, not just the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class BuildError(MemrigError):
    """An image or an environment could not be built; the reason stands at the end of ``log``."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(f"{message}\n  log: {log}" if log else message)
        self.log = log


class EngineError(MemrigError):
    """The container engine did not answer, or refused."""


class SandboxFailure(MemrigError):
    """A box ended or broke its promise.

    Args:
        kind: one of START_FAILED, START_TIMEOUT, CALL_TIMEOUT, EXITED, KILLED, OUT_OF_MEMORY,
            DISK_LIMIT, PROTOCOL, MESSAGE_TOO_LARGE.
        message: one sentence for a person.
        call: the adapter call that was open.
        box_exit: exit code of the box's main process, where known; ``signal`` likewise.
        stderr_tail: its last lines.
        log: the file with all of its stderr.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        call: str | None = None,
        box_exit: int | None = None,
        signal: int | None = None,
        stderr_tail: str = "",
        log: Path | None = None,
    ) -> None:
        during = f" during {call}" if call else ""
        tail = f"\n{stderr_tail}" if stderr_tail else ""
        where = f"\n  log: {log}" if log else ""
        super().__init__(f"{kind}{during}: {message}{tail}{where}")
        self.kind = kind
        self.message = message
        self.call = call
        self.box_exit = box_exit
        self.signal = signal
        self.stderr_tail = stderr_tail
        self.log = log


class AdapterFailure(MemrigError):
    """A typed error of the memory system, as its adapter raised it inside the box."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        call: str | None = None,
        retry_safe: bool = False,
        cause: str | None = None,
        traceback: str | None = None,
    ) -> None:
        super().__init__(f"{kind} during {call}: {message}" if call else f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.call = call
        self.retry_safe = retry_safe
        self.cause = cause
        self.traceback = traceback


class ModelFailure(MemrigError):
    """A model request that failed for good (after the gateway's own retries)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class RunError(MemrigError):
    """A run directory that cannot be used as asked."""


class ManifestMismatch(RunError):
    """The run was made with another configuration; it is never resumed into."""


class VerifyError(RunError):
    """What a run says about itself is not true."""


@dataclass(frozen=True)
class Policy:
    """What to do about one kind of failure.

    ``retry_if_safe``: try the call once more when the error says that nothing was stored.
    ``restart``: the box is gone; start a fresh one from the sample's first turn.
    ``status``: which status an affected unit takes instead of the call's own, if any.
    """

    retry_if_safe: bool = False
    restart: bool = False
    status: Status | None = None


#: A dead box is restarted from the sample's start this often before its open units fail.
MAX_RESTARTS = 2

_BOX_GONE = Policy(restart=True)
_WRITE = Policy(retry_if_safe=True)

POLICIES: dict[str, Policy] = {
    "START_FAILED": Policy(restart=True, status=Status.FAILED_SETUP),
    "START_TIMEOUT": Policy(restart=True, status=Status.FAILED_SETUP),
    "CALL_TIMEOUT": _BOX_GONE,
    "EXITED": _BOX_GONE,
    "KILLED": _BOX_GONE,
    "OUT_OF_MEMORY": _BOX_GONE,
    "DISK_LIMIT": _BOX_GONE,
    "PROTOCOL": _BOX_GONE,
    "MESSAGE_TOO_LARGE": Policy(),
    "LLM_UNAVAILABLE": _WRITE,
    "LLM_ERROR": _WRITE,
    "EMPTY_RESPONSE": _WRITE,
    "JSON_PARSE_FAILED": _WRITE,
    "EMBEDDING_FAILED": _WRITE,
    "RECONCILE_FAILED": _WRITE,
    "RECONCILE_EXCEPTION": _WRITE,
    "STORE_FAILED": _WRITE,
    "BASELINE_ERROR": _WRITE,
    "UNAVAILABLE": Policy(status=Status.UNSUPPORTED),
    "UNSUPPORTED": Policy(status=Status.UNSUPPORTED),
    "BUDGET_EXHAUSTED": Policy(status=Status.BUDGET_EXHAUSTED),
    "ANSWER_ERROR": Policy(status=Status.FAILED_ANSWER),
}


def policy_of(kind: str) -> Policy:
    """The policy for a kind of failure; an unknown kind is a programming error (``KeyError``)."""
    return POLICIES[kind]
