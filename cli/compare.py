"""`memrig compare`: is the difference between two rows more than chance?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

LEVEL = 0.05

if TYPE_CHECKING:
    from harness.aggregate.compare import Compared


def compare(
    run_a: Annotated[Path, typer.Argument(help="The first run.", metavar="RUN_A")],
    run_b: Annotated[Path, typer.Argument(help="The second run.", metavar="RUN_B")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare only this number (as `memrig explain` names them); repeat for more.  "
            "[default: all]",
            metavar="NAME",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the drawn label swaps (over 14 conversations).")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Compare two rows on the same data, number by number.

    Paired by conversation: the labels of the two rows are swapped in every way (over 14
    conversations in 9,999 drawn ways), and p is how often the difference comes out at least as
    large. p is then adjusted over all numbers (Holm). Both runs must have the same data, judge,
    answerer and depth. Name one number with --metric if it is the one you set out to compare.

    Examples:
      memrig compare runs/mine/BM25 runs/mine/MemEngine-LTMemory
      memrig compare runs/mine/BM25 runs/mine/MemEngine-LTMemory --metric qa
      memrig compare runs/a/BM25 runs/b/BM25 --json
    """
    from harness.aggregate.compare import HEADLINES
    from harness.aggregate.compare import compare as compared
    from harness.report.places import rows_under

    a, b = (rows_under([path])[0].aggregate for path in (run_a, run_b))
    keys = [_key(a, name) for name in metric] if metric else HEADLINES
    results = compared(a, b, keys, seed=seed)
    if as_json:
        typer.echo(json.dumps(_plain(a, b, results), ensure_ascii=False, indent=2))
        return
    for line in [*_told(a, b, results), *_unclustered(run_a, run_b)]:
        typer.echo(line)


def _key(aggregate: Mapping[str, Any], wanted: str) -> str:
    from harness.outcomes import UnknownName
    from harness.report.names import find, names_of

    numbers = [name for name in names_of(aggregate) if name.kind == "number"]
    found = find(numbers, wanted)
    if found is None:
        raise UnknownName("number", wanted, [called for name in numbers for called in name.also])
    return found.key


def _told(a: Mapping[str, Any], b: Mapping[str, Any], results: list[Compared]) -> list[str]:
    from harness.report.names import HEADS

    name_a, name_b = _names(a, b)
    lines = [f"A = {name_a}, B = {name_b}", str(a["title"]), ""]
    tests = sum(entry.paired is not None for entry in results)
    if not tests:
        reasons = list(dict.fromkeys(str(entry.reason) for entry in results))
        return [
            *lines,
            "nothing to compare: no number stands in both rows",
            *map("  {}".format, reasons),
        ]
    lines.append(
        f"{'':<18}{'A':>6}{'B':>6}{'A - B':>7} {'95 % interval':<14}{'n':>3}{'p':>7}{'Holm':>6}"
    )
    for entry in results:
        head = " ".join(HEADS.get(entry.key) or (entry.key.partition(".")[2],))
        if entry.paired is None:
            if entry.a is not None or entry.b is not None:
                lines.append(f"{head:<18}{_n(entry.a):>6}{_n(entry.b):>6}  N/A: {entry.reason}")
            continue
        pair, low_high = entry.paired, entry.paired.interval.bounds
        interval = f"{low_high[0]:+.2f} to {low_high[1]:+.2f}" if low_high else "none"
        lines.append(
            f"{head:<18}{_n(entry.a):>6}{_n(entry.b):>6}{pair.difference:>+7.3f} {interval:<14}"
            f"{pair.conversations:>3}{_p(pair.p):>7}{_p(entry.p_holm):>6} {short(entry, tests)}"
        )
    return [*lines, "", *_summary(results, name_a, name_b), *_reading(results)]


def _p(p: float | None) -> str:
    if p is None:
        return ""
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _unclustered(run_a: Path, run_b: Path) -> list[str]:
    """McNemar on single questions, for readers who know it; it ignores that they are clustered."""
    from harness.aggregate.compare import discordant
    from harness.runs import Run
    from harness.runs.directory import JUDGED_QUESTIONS

    lines = (Run.open(run).judged(JUDGED_QUESTIONS) for run in (run_a, run_b))
    found = discordant(*lines)
    if found is None:
        return []
    p = "p < 0.0001" if found.p < 0.0001 else f"p = {found.p:.4f}"
    return [
        f"Question by question: only A right {found.only_a}, only B right {found.only_b} of "
        f"{found.both_asked}; exact McNemar {p} (unclustered: too small where "
        "questions of one conversation go together)."
    ]


def _n(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.3f}"


def _names(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    names = str(a.get("row", "A")), str(b.get("row", "B"))
    return names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")


def verdict(entry: Compared, tests: int = 1) -> str:
    """One number's result in words; ``tests`` is how many numbers were compared at once."""
    from harness.report.names import counted

    pair = entry.paired
    if pair is None:
        return f"N/A: {entry.reason}"
    if _cannot(entry, tests):
        size = counted(pair.conversations, "conversations")
        among = f" among {tests} numbers" if pair.smallest_p < LEVEL else ""
        return f"cannot be shown with {size}{among} (smallest p = {pair.smallest_p:.3g})"
    if short(entry, tests) == "not shown":
        return "not distinguishable" + (" after Holm" if pair.p < LEVEL else "")
    return short(entry, tests)


def short(entry: Compared, tests: int) -> str:
    """The same, for a column of the table."""
    pair = entry.paired
    if pair is None:
        return "N/A"
    if entry.winner is not None:
        return f"{entry.winner.upper()} is better"
    if entry.different:
        return "different"
    if pair.difference == 0:
        return "equal"
    return "too few" if _cannot(entry, tests) else "not shown"


def _cannot(entry: Compared, tests: int) -> bool:
    """No outcome at all could have passed, and there is a difference to show."""
    pair = entry.paired
    return pair is not None and pair.difference != 0 and pair.smallest_p * tests >= LEVEL


def _reading(results: list[Compared]) -> list[str]:
    """How interval and p go together."""
    pairs = [entry.paired for entry in results if entry.paired is not None]
    if all(pair.difference == 0 for pair in pairs):
        return []
    return [
        "The interval (cluster-robust t) and p (sign-flip, no assumption on the spread) are "
        "different tests: with few conversations an interval can leave out 0 while p cannot get "
        f"below {LEVEL}. The verdict follows p after Holm."
    ]


def _summary(results: list[Compared], name_a: str, name_b: str) -> list[str]:
    tested = [entry for entry in results if entry.paired is not None]
    better: dict[str, list[str]] = {"a": [], "b": []}
    for entry in tested:
        if entry.winner is not None:
            better[entry.winner].append(entry.key)
    if all(entry.paired is not None and entry.paired.difference == 0 for entry in tested):
        return [f"{name_a} and {name_b} are equal in every number compared."]
    lines = [
        f"{name} is better in {', '.join(keys)}."
        for name, keys in ((name_a, better["a"]), (name_b, better["b"]))
        if keys
    ]
    few = [entry for entry in tested if _cannot(entry, len(tested))]
    if few:
        alone = any(e.paired is not None and e.paired.smallest_p < LEVEL for e in few)
        advice = "Compare one with --metric, or use more" if alone else "Use more"
        told = verdict(few[0], len(tested))
        return [*lines, f"A difference {told}. {advice} conversations."]
    if lines:
        return [*lines, "Elsewhere they are not distinguishable."]
    return [f"{name_a} and {name_b} are not distinguishable on these data."]


def _plain(a: Mapping[str, Any], b: Mapping[str, Any], results: list[Compared]) -> dict[str, Any]:
    from dataclasses import asdict

    tests = sum(entry.paired is not None for entry in results)
    numbers = [
        {**asdict(entry), "different": entry.different, "verdict": verdict(entry, tests)}
        for entry in results
    ]
    return {"a": a.get("row"), "b": b.get("row"), "title": a["title"], "numbers": numbers}
