"""Timestamps: what they say, and never more than they say."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.loaders.times import read_time

SEEN = [
    ("2025-01-02T10:00:00", "2025-01-02T10:00:00"),
    ("2025-01-02T10:00:00Z", "2025-01-02T10:00:00+00:00"),
    ("2025-01-02T10:00:00.250+08:00", "2025-01-02T10:00:00.250000+08:00"),
    ("2025-01-02 10:00", "2025-01-02T10:00:00"),
    ("2025-01-02 10:00:05", "2025-01-02T10:00:05"),
    ("2025-01-02", "2025-01-02"),
    ("Jan 02, 2025, 10:00:00", "2025-01-02T10:00:00"),
    ("Dec 15, 2025, 06:11:23", "2025-12-15T06:11:23"),
    ("Sept 5, 2024", "2024-09-05"),
    ("January 2, 2025 3:05 PM", "2025-01-02T15:05:00"),
    ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
    ("12:09 am on 13 September, 2023", "2023-09-13T00:09:00"),
    ("12:30 p.m. on 1 June 2023", "2023-06-01T12:30:00"),
    ("8 May, 2023", "2023-05-08"),
    ("2023/05/30 (Tue) 21:56", "2023-05-30T21:56:00"),
    ("2023/05/30", "2023-05-30"),
    ("2023/5/3 9:07", "2023-05-03T09:07:00"),
    (1735812000, "2025-01-02T10:00:00+00:00"),
    (1735812000.5, "2025-01-02T10:00:00.500000+00:00"),
    (1735812000123, "2025-01-02T10:00:00.123000+00:00"),
    ("1735812000", "2025-01-02T10:00:00+00:00"),
]
UNREADABLE = [
    "soon",
    "2025-02-30T10:00:00",
    "2025-01-02T25:00:00",
    "2025-13-01",
    "2025-01",
    "Foo 02, 2025",
    "13:56 pm on 8 May, 2023",
    "0:10 am on 8 May, 2023",
    "31 June, 2023",
    "2023/05/30 (Mon) 21:56",
    "10:00:00",
    "99999",
    True,
    0,
    -1,
    1e300,
    10**400,
    [],
    {"year": 2025},
]


@pytest.mark.parametrize(("raw", "iso"), SEEN)
def test_read(raw: object, iso: str) -> None:
    time = read_time(raw)
    assert time is not None
    assert time.iso == iso
    assert time.raw == str(raw)


@pytest.mark.parametrize("raw", UNREADABLE, ids=lambda raw: str(raw)[:20])
def test_unreadable_keeps_its_raw_text(raw: object) -> None:
    time = read_time(raw)
    assert time is not None and time.iso is None and time.raw


@pytest.mark.parametrize("raw", [None, "", "  \n"])
def test_missing(raw: object) -> None:
    assert read_time(raw) is None


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 31)).map(  # noqa: DTZ001
    lambda m: m.replace(microsecond=0)
)
WRITERS = {
    "iso": lambda m: m.isoformat(),
    "blank": lambda m: m.strftime("%Y-%m-%d %H:%M:%S"),
    "halumem": lambda m: f"{MONTHS[m.month - 1]} {m:%d, %Y, %H:%M:%S}",
    "locomo": lambda m: (
        f"{(m.hour - 1) % 12 + 1}:{m:%M:%S} {'am' if m.hour < 12 else 'pm'} on "
        f"{m.day} {MONTHS[m.month - 1]}, {m:%Y}"
    ),
    "longmemeval": lambda m: f"{m:%Y/%m/%d} ({DAYS[m.weekday()]}) {m:%H:%M:%S}",
}


@given(moment=MOMENTS, form=st.sampled_from(sorted(WRITERS)))
def test_every_form_of_a_moment_reads_as_this_moment(moment: datetime, form: str) -> None:
    time = read_time(WRITERS[form](moment))
    assert time is not None and time.iso == moment.isoformat()


@given(moment=MOMENTS, minutes=st.integers(-14 * 60, 14 * 60))
def test_a_zone_is_kept_and_none_is_added(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    time = read_time(zoned.isoformat())
    assert time is not None and time.iso == zoned.isoformat()
    plain = read_time(moment.isoformat())
    assert plain is not None and plain.moment is not None and plain.moment.tzinfo is None
    assert not plain.is_before(time) and not time.is_before(plain)


@given(seconds=st.integers(10**8, 10**11 - 1))
def test_epoch_seconds_and_milliseconds_are_one_moment(seconds: int) -> None:
    in_seconds, in_milliseconds = read_time(seconds), read_time(seconds * 1000)
    assert in_seconds is not None and in_milliseconds is not None
    assert in_seconds.iso == in_milliseconds.iso
    assert in_seconds.moment == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@given(
    st.one_of(
        st.text(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.lists(st.integers()),
    )
)
def test_nothing_crashes_the_reader(raw: object) -> None:
    time = read_time(raw)
    assert time is None or time.raw


def test_times_of_two_notations_have_no_order() -> None:
    early, late = read_time("1:56 pm on 8 May, 2023"), read_time("2025-01-02T10:00:00")
    assert early is not None and late is not None
    assert not early.is_before(late) and not late.is_before(early)
    assert read_time("2025-01-01").is_before(late)  # type: ignore[union-attr]


READ = """
import locale, sys
from harness.loaders.times import read_time
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
print([read_time(raw).iso for raw in %r])
"""


def test_zone_and_language_of_the_host_change_nothing() -> None:
    said = set()
    for zone, language in (
        ("UTC", "C"),
        ("Asia/Shanghai", "zh_CN.UTF-8"),
        ("Etc/GMT+9", "C.UTF-8"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", READ % [raw for raw, _ in SEEN]],
            env={**os.environ, "TZ": zone, "LC_ALL": language},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert said == {f"{[iso for _, iso in SEEN]}\n"}
