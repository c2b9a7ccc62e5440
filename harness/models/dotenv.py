"""``.env`` at the project root: read, never exported.

Its values go into a :class:`Secrets`, not into ``os.environ``, so no process that memrig starts
inherits them. A variable that is set in the real environment wins over the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.outcomes import DataError, Problem

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}

#: Variables whose values are secrets. Any other may be shown.
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)


class Secrets(Mapping[str, str]):
    """Variables by name. Printing one shows the names, never the values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._values))})"

    def secret_values(self) -> list[str]:
        """The values of those whose name says that they are secret, for the redactor."""
        return [value for name, value in self._values.items() if value and is_secret_name(name)]


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value must not be shown.

    ``OPENAI_MAX_TOKENS`` is a number, not a token.
    """
    return bool(_SECRET_NAME.search(name)) and not name.upper().endswith(
        ("MAX_TOKENS", "MAX_TOKENS_JUDGE")
    )


def load_variables(root: Path, env: Mapping[str, str] | None = None) -> Secrets:
    """The environment over ``root/.env``; an empty value counts as not set.

    Raises:
        DataError: a line of ``.env`` that is not ``NAME=value``, without its text.
    """
    merged = read_dotenv(root / ".env")
    merged.update({name: value for name, value in (os.environ if env is None else env).items()})
    return Secrets({name: value for name, value in merged.items() if value.strip()})


def read_dotenv(path: Path) -> dict[str, str]:
    """Parse one file: ``NAME=value``, ``export``, quotes, ``# comments``. No file is no values."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise DataError([Problem("is not UTF-8", str(path))]) from None
    except OSError as error:
        raise DataError([Problem(f"cannot be read: {error.strerror}", str(path))]) from None
    values: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.removeprefix("export ").partition("=")
        if not equals or not _NAME.match(name.strip()):
            problems.append(Problem("is not NAME=value", str(path), number))
            continue
        parsed = _value(value.strip())
        if parsed is None:
            problems.append(Problem(f"{name.strip()}: the quote is not closed", str(path), number))
            continue
        values[name.strip()] = parsed
    if problems:
        raise DataError(problems)
    return values


def _value(raw: str) -> str | None:
    """One value without quotes and comment; ``None`` when its quote is not closed."""
    if raw[:1] == "'":
        end = raw.find("'", 1)
        return raw[1:end] if end > 0 else None
    if raw[:1] != '"':
        return re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()
    out: list[str] = []
    letters = iter(raw[1:])
    for letter in letters:
        if letter == '"':
            return "".join(out)
        if letter == "\\":
            follower = next(letters, "")
            out.append(_ESCAPES.get(follower, "\\" + follower))
        else:
            out.append(letter)
    return None
