"""Loaders: one module a data set format, each turning files into a stream of samples.

A format is a module with ``ID``, ``SUMMARY``, ``matches(path)`` (by content, never raises) and
``load(path, strict=...)``; it is registered by its line in :data:`_FORMATS`.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from pathlib import Path
from typing import Protocol, cast

from harness.loaders.dataset import FileDataset
from harness.outcomes import DataError, Problem
from harness.samples import Dataset

#: Asked in this order; the first that matches reads the data.
_FORMATS = ("domain_a_v2", "worldmemarena")


class Format(Protocol):
    """What a format module offers."""

    ID: str
    SUMMARY: str

    def matches(self, path: Path) -> bool:
        """Whether the path looks like this format. Reads as little as it can; never raises."""

    def load(self, path: Path, *, strict: bool = False) -> FileDataset:
        """Validate and index; raises ``DataError`` with every reason to refuse."""


def known_formats() -> tuple[Format, ...]:
    """The format modules, in the order in which they are tried."""
    return tuple(
        cast(Format, importlib.import_module(f"harness.loaders.{name}")) for name in _FORMATS
    )


def open_dataset(path: Path | str, strict: bool = False) -> Dataset:
    """Open a data set of any known format, found by its content.

    Args:
        path: a folder or a file.
        strict: refuse when a gold point, question or checkpoint would have to be left out.

    Raises:
        DataError: no known format, or the data are refused, or they are not what their card pins;
            names every problem.
    """
    place = Path(path)
    try:
        if place.is_dir():
            os.scandir(place).close()  # globs pass over a folder that may not be read
        place.stat()
        return _open(place, strict)
    except FileNotFoundError as error:
        raise DataError([Problem(f"{error.filename}: no such file or folder")]) from None
    except ValueError as error:  # a NUL in the path
        raise DataError([Problem(f"{str(place)!r}: {error}")]) from None
    except OSError as error:  # no permission, a name too long, a broken disk
        raise DataError([Problem(f"{error.filename}: cannot be read: {error.strerror}")]) from None


def _open(place: Path, strict: bool) -> Dataset:
    formats = known_formats()
    for module in formats:
        if module.matches(place):
            return _held_against_card(place, module.load(place, strict=strict))
    looked = "\n".join(f"  {module.ID}: {module.SUMMARY}" for module in formats)
    raise DataError([Problem(f"{place}: no known data set format. Looked for:\n{looked}")])


def _held_against_card(path: Path, dataset: FileDataset) -> Dataset:
    from harness.loaders.cards import card_of, check_card  # pydantic: only when data are opened

    card = card_of(path)
    warnings = check_card(card, dataset) if card is not None else ()
    if not warnings:
        return dataset
    balance = dataclasses.replace(dataset.balance, warnings=(*dataset.balance.warnings, *warnings))
    return dataclasses.replace(dataset, balance=balance)
