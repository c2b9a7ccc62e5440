"""The lines above and below a table: what it was made with, and how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.aggregate.dimensions import by_key
from harness.aggregate.stats import NO_SPREAD, TOO_FEW
from harness.judging.base import NEEDS_MODEL
from harness.report.marks import cell_of, has
from harness.report.names import HEADS, counted

Aggregate = Mapping[str, Any]

FAILED = "question_answering.failed_ratio"
#: The row that gives one answer to everything, and the one that is given the gold.
FLOOR, CEILING = "ConstantFloor", "Oracle"

#: Stands where a cell has no interval.
NO_INTERVAL = {NO_SPREAD: "°", TOO_FEW: "°°"}


class Footnotes:
    """Numbers the reasons for N/A in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def sign(self, reason: str) -> str:
        """What stands in a cell: a dash and the footnote's number."""
        return f"—{superscript(self._numbers.setdefault(reason, len(self._numbers) + 1))}"

    def lines(self) -> list[str]:
        """The footnotes."""
        return [f"—{superscript(n)} N/A: {reason}" for reason, n in self._numbers.items()]


def superscript(number: int) -> str:
    """A number in superior figures."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def number(value: float, decimals: int = 3) -> str:
    """Decimals without the leading zero: ``.720``, ``1.000``."""
    text = f"{value:.{decimals}f}"
    return text.replace("0.", ".", 1) if text.startswith("0.") else text


def head(key: str) -> str:
    """A column's head in one line."""
    return " ".join(HEADS[key])


def any_failed(rows: Sequence[Aggregate]) -> bool:
    """Whether any question of any row broke off."""
    found = [cell_of(row, FAILED) for row in rows]
    return any(cell is not None and cell["value"] for cell in found)


def subtitle(rows: Sequence[Aggregate]) -> tuple[str, ...]:
    """Judge, answerer, depth, size, sandbox."""
    first = rows[0]
    kinds = sorted({str(row["sandbox"]) for row in rows if row.get("sandbox")})
    conversations = max(len(row["conversations"]["ids"]) for row in rows)
    lines = [f"judge: {first.get('judge_title', '')} [{first.get('judge')}]"]
    if first.get("answerer"):
        lines.append(f"answers: {first['answerer']} · top {first.get('top_k')}")
    size = counted(conversations, "conversations")
    lines.append(size + (f" · sandbox: {', '.join(kinds)}" if kinds else ""))
    open_network = sorted({str(row["row"]) for row in rows if row.get("network") == "host"})
    if open_network:
        lines.append(f"not cut off from the network: {', '.join(open_network)}")
    notes = dict.fromkeys(str(row["data_note"]) for row in rows if row.get("data_note"))
    return (*lines, *notes)


def how_to_read(rows: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """What a value, the line below it and N are."""
    cells = [cell for row in rows for key in keys if (cell := cell_of(row, key)) and has(row, key)]
    lines = []
    if any(cell["n"] < cell["N"] for cell in cells):
        lines.append(
            "a failed unit counts as wrong; n/N: so many of the planned were valid; v: the value "
            "over these only"
        )
    if any_failed(rows):
        lines.append(
            "QA correct, halluc., omitted and failed are shares of all planned questions and add "
            "up to 1: a failed question is neither a hallucination nor an omission"
        )
    if any(cell["interval"] for cell in cells):
        lines.append("below a value: its 95 % interval over conversations (cluster-robust t)")
    lines += [_no_interval(cells, reason, sign) for reason, sign in NO_INTERVAL.items()]
    units: dict[str, list[str]] = {}
    for key in keys:
        if any(has(row, key) for row in rows):
            units.setdefault(by_key(key).unit, []).append(head(key))
    if units:
        told = (f"{unit} ({', '.join(heads)})" for unit, heads in units.items())
        lines.append(f"N counts {', '.join(told)}")
    return [line for line in lines if line]


def _no_interval(cells: Sequence[Mapping[str, Any]], reason: str, sign: str) -> str:
    without = [cell for cell in cells if cell["interval"] is None and cell["no_interval"] == reason]
    if not without:
        return ""
    if len(without) == len(cells):
        return f"no value has an interval: {reason}"
    return f"{sign} no interval: {reason}"


#: Said under a table, with ``memrig explain`` for the rest.
_MEANINGS = {
    "memory_correctness.avg_correctness": "Memory correct: precision, the share of added and "
    "updated memories that state a gold point so far; verbatim turns that state none count against",
    "update_handling.score": "Update handling: only the new value stored 1, both 1/2, the old one "
    "or neither 0",
}


def meanings(rows: Sequence[Aggregate], keys: Sequence[str], beside: Sequence[str]) -> list[str]:
    """What the names that explain themselves least mean, in a few words each."""
    lines = [text for key, text in _MEANINGS.items() if key in keys and _any(rows, key)]
    k = rows[0].get("top_k", 5)
    if f"recall@{k}" in beside:
        lines.append(
            f"recall@{k}, nDCG@{k} by source: do the source ids of the first {k} memories name the "
            "turns cited? Evidence coverage: does their text state the cited facts?"
        )
    sizes = {
        "box": "in the box: time inside the adapter",
        "context": "context: tokens that an answer is read from",
        "memories": "memories: mean over samples after the last session",
        "state": "state: only files under /state",
    }
    told = [text for key, text in sizes.items() if key in beside]
    return [*lines, "; ".join(told)] if told else lines


def _any(rows: Sequence[Aggregate], key: str) -> bool:
    return any(has(row, key) for row in rows)


def warnings(rows: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """What is no fault of a row, and a reader would stumble over."""
    lines = []
    whole = [
        str(row["row"]) for row in rows if row.get("full_context") and not row.get("reference")
    ]
    if whole:
        gives = "returns" if len(whole) == 1 else "return"
        lines.append(f"{', '.join(whole)} {gives} all it has; k does not apply")
    floor = next((row for row in rows if row.get("row") == FLOOR), None)
    beaten = [key for key in keys if floor is not None and _useless(floor, rows, key)]
    lines += [
        f"the constant answer reaches {number((cell_of(floor or {}, key) or {})['value'])} in "
        f"{head(key)}: this number says little on these data"
        for key in beaten
    ]
    counts = any(sum(row["degraded"][kind] for kind in ("sessions", "questions")) for row in rows)
    if counts or any(failed(row) for row in rows):
        lines.append("degr./failed: sessions and questions with something amiss / broken off")
    return lines


def _useless(floor: Aggregate, rows: Sequence[Aggregate], key: str) -> bool:
    """Whether answering everything alike reaches the best system, or what is given the gold."""
    if not has(floor, key) or by_key(key).better != "high":
        return False
    reached = (cell_of(floor, key) or {})["value"]
    values = {
        kind: [(cell_of(row, key) or {})["value"] for row in rows if test(row) and has(row, key)]
        for kind, test in (
            ("system", lambda row: not row.get("reference")),
            ("ceiling", lambda row: row.get("row") == CEILING),
        )
    }
    return reached > 0 and any(found and reached >= max(found) for found in values.values())


def failed(row: Aggregate) -> int:
    """How many sessions and questions broke off."""
    return sum(
        count
        for statuses in row["statuses"].values()
        for status, count in statuses.items()
        if status.startswith("failed_") or status == "budget_exhausted"
    )


def hidden(rows: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """The columns that are not shown, with the most frequent reason."""
    by_reason: dict[str, list[str]] = {}
    for key in keys:
        cells = [found for row in rows if (found := cell_of(row, key)) is not None]
        reasons = Counter(str(cell.get("na") or "not measured") for cell in cells)
        if not reasons:
            continue
        structural = NEEDS_MODEL in reasons
        reason = NEEDS_MODEL if structural else reasons.most_common(1)[0][0]
        by_reason.setdefault(reason, []).append(head(key).replace("halluc.", "hallucination"))
    return [f"not shown: {', '.join(names)} ({reason})" for reason, names in by_reason.items()]


def metrics(rows: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """The metric ids of the columns that have a number, once for all rows."""
    cells = [cell_of(row, key) for key in keys for row in rows if has(row, key)]
    ids = [str(cell["metric_id"]).partition("/")[0] for cell in cells if cell is not None]
    return [f"metrics: {', '.join(dict.fromkeys(ids))}"] if ids else []


def judges(rows: Sequence[Aggregate]) -> list[str]:
    """How far the judge is to be trusted, once for all rows whose judge was measured alike."""
    errors = [row["calibration"] for row in rows if row.get("calibration")]
    return list(dict.fromkeys(_error(error) for error in errors))


def _error(error: Mapping[str, Any]) -> str:
    accepted, missed = error["false_correct"], error["missed_correct"]
    line = (
        f"{error['judge']} judge on {error['n']} calibration items: accepts "
        f"{accepted['hits']} of {accepted['n']} wrong answers, misses "
        f"{missed['hits']} of {missed['n']} right ones"
    )
    return f"{line}; deterministic, not exact" if error["deterministic"] else line
