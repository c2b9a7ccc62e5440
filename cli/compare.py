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
    from harness.report.explain import metric_of
    from harness.report.html import rows_under

    a, b = (rows_under([path])[0].aggregate for path in (run_a, run_b))
    keys = [metric_of(name).key for name in metric] if metric else HEADLINES
    results = compared(a, b, keys, seed=seed)
    if as_json:
        typer.echo(json.dumps(_plain(a, b, results), ensure_ascii=False, indent=2))
        return
    for line in [*_told(a, b, results), *_unclustered(run_a, run_b)]:
        typer.echo(line)


def _told(a: Mapping[str, Any], b: Mapping[str, Any], results: list[Compared]) -> list[str]:
    from harness.report.layout import HEADS

    name_a, name_b = _names(a, b)
    lines = [
        f"A = {name_a}, B = {name_b}",
        str(a["title"]),
        "",
        f"{'':<20}{'A':>7}{'B':>7}{'A - B':>8}  {'95 % interval':<17}{'n':>4}{'p':>8}{'Holm':>8}  ",
    ]
    for entry in results:
        head = " ".join(HEADS.get(entry.key) or (entry.key.partition(".")[2],))
        if entry.paired is None:
            if entry.a is not None or entry.b is not None:
                lines.append(f"{head:<20}{_n(entry.a):>7}{_n(entry.b):>7}  N/A: {entry.reason}")
            continue
        pair, low_high = entry.paired, entry.paired.interval.bounds
        interval = f"{low_high[0]:+.3f} to {low_high[1]:+.3f}" if low_high else "none"
        lines.append(
            f"{head:<20}{_n(entry.a):>7}{_n(entry.b):>7}{pair.difference:>+8.3f}  {interval:<17}"
            f"{pair.conversations:>4}{pair.p:>8.4f}{entry.p_holm:>8.4f}  {verdict(entry)}"
        )
    lines += ["", _summary(results, name_a, name_b), *_too_few(results)]
    return lines


def _unclustered(run_a: Path, run_b: Path) -> list[str]:
    """McNemar on single questions, for readers who know it; it ignores that they are clustered."""
    from harness.aggregate.compare import discordant
    from harness.runs import Run
    from harness.runs.directory import JUDGED_QUESTIONS

    lines = (Run.open(run).judged(JUDGED_QUESTIONS) for run in (run_a, run_b))
    found = discordant(*lines)
    if found is None:
        return []
    return [
        f"Question by question: only A right {found.only_a}, only B right {found.only_b} of "
        f"{found.both_asked}; exact McNemar p = {found.p:.4f} (unclustered: too small where "
        "questions of one conversation go together)."
    ]


def _n(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.3f}"


def _names(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, str]:
    names = str(a.get("row", "A")), str(b.get("row", "B"))
    return names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")


def verdict(entry: Compared) -> str:
    """One number's result in words."""
    pair = entry.paired
    if pair is None:
        return f"N/A: {entry.reason}"
    if entry.winner is not None:
        return f"{entry.winner.upper()} is better"
    if entry.different:
        return "different"
    if pair.difference == 0:
        return "equal"
    if pair.smallest_p >= LEVEL:
        return "too few conversations to tell"
    if pair.p < LEVEL:
        return "not distinguishable after Holm"
    return "not distinguishable"


def _too_few(results: list[Compared]) -> list[str]:
    """Say so where no outcome at all could have passed."""
    pairs = [entry.paired for entry in results if entry.paired is not None]
    best = min((pair.smallest_p for pair in pairs), default=0.0)
    if best * len(pairs) < LEVEL:
        return []
    most = max(pair.conversations for pair in pairs)
    advice = "Use more conversations."
    if best < LEVEL:
        advice = "Compare one with --metric, or use more conversations."
    return [
        f"With {most} conversations p is at least {best:.3g}; of {len(pairs)} numbers at once none "
        f"can pass p < {LEVEL}. {advice}"
    ]


def _summary(results: list[Compared], name_a: str, name_b: str) -> str:
    better: dict[str, list[str]] = {"a": [], "b": []}
    for entry in results:
        if entry.winner is not None:
            better[entry.winner].append(entry.key)
    if not (better["a"] or better["b"]):
        return f"{name_a} and {name_b} are not distinguishable on these data."
    parts = [
        f"{name} is better in {', '.join(keys)}"
        for name, keys in ((name_a, better["a"]), (name_b, better["b"]))
        if keys
    ]
    return "; ".join(parts) + ". Elsewhere they are not distinguishable."


def _plain(a: Mapping[str, Any], b: Mapping[str, Any], results: list[Compared]) -> dict[str, Any]:
    from dataclasses import asdict

    numbers = [
        {**asdict(entry), "different": entry.different, "verdict": verdict(entry)}
        for entry in results
    ]
    return {"a": a.get("row"), "b": b.get("row"), "title": a["title"], "numbers": numbers}
