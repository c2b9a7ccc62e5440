"""Small words that several verbs print: counts, and commands that can be pasted."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path


def counted(number: int, what: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def program() -> str:
    """How this command is called from where the user stands: what is printed can be pasted."""
    called = Path(sys.argv[0])
    if called.name != "memrig" or shutil.which("memrig") == str(called.absolute()):
        return "memrig"
    return str(called)


def pasteable(text: str) -> str:
    """A message with its commands (in backquotes) as they are typed here."""
    return re.sub(r"`memrig (?=[a-z])", lambda _: f"`{program()} ", text)
