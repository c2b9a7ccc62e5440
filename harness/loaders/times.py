"""Timestamps of every data set we know, without the host's time zone or language.

The raw text always stays. What it says is written as ISO 8601: with a zone only if the text names
one (an epoch number does: UTC), without a time of day if it has none. Month names are read from a
table here, never by the C library, whose names depend on the host's locale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("jan", "january"),
            ("feb", "february"),
            ("mar", "march"),
            ("apr", "april"),
            ("may",),
            ("jun", "june"),
            ("jul", "july"),
            ("aug", "august"),
            ("sep", "sept", "september"),
            ("oct", "october"),
            ("nov", "november"),
            ("dec", "december"),
        ),
        start=1,
    )
    for name in names
}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:\s*(?P<half>[ap])\.?m\.?)?"
_FORMS = (
    # Jan 02, 2025, 10:00:00
    (
        "month-day",
        rf"(?P<month>[a-z]+)\.?\s+(?P<day>\d{{1,2}}),?\s+(?P<year>\d{{4}})(?:,?\s+{_CLOCK})?",
    ),
    # 1:56 pm on 8 May, 2023
    (
        "clock-on-day",
        rf"{_CLOCK}\s+on\s+(?P<day>\d{{1,2}})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{{4}})",
    ),
    # 8 May, 2023 and 8 May 2023, 13:56
    (
        "day-month",
        rf"(?P<day>\d{{1,2}})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{{4}})(?:,?\s+{_CLOCK})?",
    ),
    # 2023/05/30 (Tue) 21:56
    (
        "slashes",
        rf"(?P<year>\d{{4}})/(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})"
        rf"(?:\s*\((?P<weekday>[a-z]{{3}})[a-z]*\))?(?:\s+{_CLOCK})?",
    ),
)
_PATTERNS = tuple((name, re.compile(form, re.IGNORECASE | re.ASCII)) for name, form in _FORMS)
_ISO = re.compile(r"\d{4}-?(?:\d{2}-?\d{2}|W\d{2})", re.ASCII)
_EPOCH_TEXT = re.compile(r"\d{9,14}(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True)
class Time:
    """A timestamp: ``raw`` as the data wrote it, ``iso`` if it could be read.

    ``moment`` orders it among times of one ``notation``. Times of different notations are not
    compared: they come from different tools, and one that names a zone has no order with one that
    does not.
    """

    raw: str
    iso: str | None = None
    notation: str = ""
    moment: datetime | None = None

    def is_before(self, other: Time) -> bool:
        """True when both can be compared and this one is earlier."""
        if self.moment is None or other.moment is None or self.notation != other.notation:
            return False
        return self.moment < other.moment


def read_time(value: Any) -> Time | None:
    """Read a timestamp; ``None`` for a missing one (null or blank text).

    A value that cannot be read keeps its raw text (a non-text one as JSON) with ``iso`` absent.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return Time(json.dumps(value, ensure_ascii=False))
    if not isinstance(value, str):
        return _epoch(json.dumps(value), value)
    text = value.strip()
    if not text:
        return None
    if _EPOCH_TEXT.fullmatch(text):
        return _epoch(value, float(text))
    for reader in (_iso, _by_pattern):
        found = _attempt(reader, text)
        if found is not None:
            notation, moment, iso = found
            zone = "zone" if moment.tzinfo else "local"
            return Time(value, iso, f"{notation}/{zone}", moment)
    return Time(value)


_Reading = tuple[str, datetime, str]


def _attempt(reader: Callable[[str], _Reading | None], text: str) -> _Reading | None:
    try:
        return reader(text)
    except (ValueError, OverflowError):  # no such day, hour or zone
        return None


def _iso(text: str) -> _Reading | None:
    if not _ISO.match(text):
        return None
    if len(text) <= 10 and ":" not in text:
        day = date.fromisoformat(text)
        return "iso", datetime(day.year, day.month, day.day), day.isoformat()  # noqa: DTZ001
    moment = datetime.fromisoformat(text)
    return "iso", moment, moment.isoformat()


def _by_pattern(text: str) -> _Reading | None:
    for name, pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        part = {key: value or "" for key, value in found.groupdict().items()}
        month = _MONTHS.get(part["month"].lower()) or int(part["month"])
        day = date(int(part["year"]), month, int(part["day"]))
        weekday = part.get("weekday", "").lower()
        if weekday and weekday != _WEEKDAYS[day.weekday()]:
            return None  # it contradicts itself: which half is right is not ours to say
        if not part["hour"]:
            return name, datetime(day.year, day.month, day.day), day.isoformat()  # noqa: DTZ001
        moment = datetime(  # noqa: DTZ001 - the text names no zone, so neither do we
            day.year, day.month, day.day, _hour(part), int(part["minute"]), int(part["second"] or 0)
        )
        return name, moment, moment.isoformat()
    return None


def _hour(part: dict[str, str]) -> int:
    hour, half = int(part["hour"]), part["half"].lower()
    if not half:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} {half}m")
    return hour % 12 + (12 if half == "p" else 0)


def _epoch(raw: str, number: float) -> Time:
    """Seconds (nine to eleven digits) or milliseconds since 1970 in UTC; else unreadable."""
    if 1e8 <= number < 1e11:
        moment = _EPOCH + timedelta(seconds=number)
    elif 1e11 <= number < 1e14:
        moment = _EPOCH + timedelta(milliseconds=number)
    else:
        return Time(raw)
    return Time(raw, moment.isoformat(), "epoch", moment)
