"""What is settled and said before rows run: names, options, the judge, where the records go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.outcomes import UnknownName, UsageError

if TYPE_CHECKING:
    from harness.catalog import Baseline, Catalog


def data_at(given: Path) -> Path:
    """The path of a data set: as given, or by the name of one that ships.

    Raises:
        UsageError: it is not there. Better now than after something was built.
    """
    from harness.loaders.cards import named

    path = named(given)
    if not path.exists():
        raise UsageError(
            f"--dataset {given}: there is no such folder or file, and no data set of that name.\n"
            "  `memrig data list` shows names and formats, `memrig data check DIR` tries one"
        )
    return path


def rows_of(catalog: Catalog, names: Sequence[str]) -> tuple[list[Baseline], list[str]]:
    """The rows that names stand for, each once, and what is to be said about the names.

    Raises:
        UsageError: a name that is none, or no name at all.
    """
    if not names:
        raise UsageError("--baseline names no system; `memrig list` shows them")
    found: dict[str, Baseline] = {}
    notes = []
    for name in names:
        spelled = catalog.spelled(name)
        if spelled != name:
            notes.append(f"{name} is read as {spelled}")
        found.update((row.name, row) for row in catalog.expand(spelled))
    notes += [f"{row.name}: {row.caution}" for row in found.values() if row.caution]
    return list(found.values()), notes


def options_of(
    rows: Sequence[Baseline], given: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Give each option to the rows that have it; also which rows those are, where not all.

    Raises:
        UnknownName: no row has it.
    """
    notes = []
    for option in given:
        takers = [row.name for row in rows if option in row.option_docs]
        if not takers:
            known = {name for row in rows for name in row.option_docs}
            raise UnknownName(f"option of {', '.join(r.name for r in rows)}", option, known)
        if len(takers) < len(rows):
            without = ", ".join(row.name for row in rows if row.name not in takers)
            notes.append(f"--option {option} goes to {', '.join(takers)}; not to {without}")
    share = {row.name: {k: v for k, v in given.items() if k in row.option_docs} for row in rows}
    return share, notes
