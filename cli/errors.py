"""What a person sees when a command fails: one message, where to look, what to do; never a trace.

``MEMRIG_DEBUG=1`` brings the trace back. Exit codes: 1 the work failed, 2 bad usage or refused
input, 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path

from cli.verbs import debugging
from cli.words import pasteable, program

INTERRUPTED = 130


def report(error: Exception) -> int | None:
    """Print an error that reached the top; the exit code, or None if it is not ours to show."""
    from harness.outcomes import MemrigError

    if _belongs_to_typer(error):
        return None
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, MemrigError):
        say(str(error))
        return error.exit_code
    if isinstance(error, OSError):
        return _os_error(error)
    say(_internal(error))
    return 1


def report_interrupt() -> int:
    """What is said when no verb had anything better to say about Ctrl-C or a SIGTERM."""
    say("interrupted")
    return INTERRUPTED


def say(message: str) -> None:
    """One message on stderr, after whatever a live display left there."""
    sys.stderr.write(f"memrig: {pasteable(message)}\n")
    sys.stderr.flush()


def _belongs_to_typer(error: Exception) -> bool:
    """Usage errors and exits, which Typer shows itself, and a reader that closed our stdout."""
    if isinstance(error, OSError):
        return error.errno == errno.EPIPE
    return type(error).__module__.split(".")[0] in ("typer", "click")


def _os_error(error: OSError) -> int:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        say(
            f"no space left on the disk{where}. What was recorded before is kept.\n"
            f"  Free some space ({program()} clean --images --venvs), then run the same command "
            "again."
        )
    else:
        say(f"{error.strerror or error}{where}")
    return 1


def _internal(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f" at {Path(last.filename).name}:{last.lineno}" if last else ""
    return (
        f"unexpected {type(error).__name__}{where}: {error}\n"
        "  This is a fault of memrig. Run it again with MEMRIG_DEBUG=1 to see the trace."
    )
