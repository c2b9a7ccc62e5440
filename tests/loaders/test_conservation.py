"""Whatever is broken: a load is refused by name, or everything read is used or on the list."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from loader_bundles import CHECKPOINTS, MAIN, POINTS, Bundle, base, point, renamed

from harness.loaders import open_dataset
from harness.outcomes import DataError
from harness.samples import Dataset

JUNK: list[Any] = [
    None, True, 0, 7, -1, 1.5, "", " ", "x", "S01", "S02", "g1", "g2", "w1", "True", "interference",
    "\x00", "a\u2028b", [], ["g1"], [None], {}, {"a": 1}, [{}], 10**30, "2025-01-01", "maybe",
]  # fmt: skip
ONE_STEP = st.tuples(st.sampled_from(["set", "drop", "repeat", "insert"]), st.integers(0, 10**6))
FAULTS = st.lists(st.tuples(ONE_STEP, st.sampled_from(JUNK)), max_size=6)


def rich() -> Bundle:
    """Two samples with everything a bundle may have."""
    bundle = base()
    bundle.turn["attachments"] = [{"caption": "a green van", "image_id": "i1"}, {"caption": "sky"}]
    bundle.turn["turn_id"] = "D1:1"
    bundle.question["evidence"] += [{"image_id": "i1"}, {"turn_id": "D1:1"}, {"session_id": "S00"}]
    bundle.question["attachments"] = [{"caption": "a van"}]
    bundle.checkpoints["checkpoints"].append(
        {
            "checkpoint_id": "q2",
            "covered_sessions": ["S01"],
            "questions": [
                {"question": "Why?", "answer": ["a", "b"]},
                copy.deepcopy(bundle.question),
            ],
        }
    )
    bundle.stage4[0]["memory_points"].append(point("g9", "Wanda drives", keys={"must": ["drive"]}))
    bundle.samples = [bundle.sample, renamed(bundle.sample, "w2")]
    bundle.point_rows = [bundle.points, renamed(bundle.points, "w2")]
    bundle.checkpoint_rows = [bundle.checkpoints, renamed(bundle.checkpoints, "w2")]
    return bundle


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or position) of a JSON value."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in places(value[key])]


def spoil(documents: list[Any], how: str, where: int, junk: Any) -> None:
    """Do one random thing to a random place of the parsed files."""
    found = places(documents)[3:]  # not the three documents themselves
    if not found:
        return
    container, key = found[where % len(found)]
    if how == "set":
        container[key] = copy.deepcopy(junk)
    elif how == "drop":
        del container[key]
    elif isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key] if how == "repeat" else junk))
    else:
        container[f"{key}_more"] = copy.deepcopy(junk)


def check_balance(dataset: Dataset) -> None:
    """Count everything again from the samples alone and compare with the balance."""
    samples, balance = list(dataset), dataset.balance
    left = Counter(entry.what for entry in balance.left_out)
    turns = [t for s in samples for session in s.sessions for t in session.turns]
    questions = [q for s in samples for c in s.checkpoints for q in c.questions]
    assert balance.samples == len(samples)
    assert balance.sessions == sum(len(s.sessions) for s in samples)
    assert balance.turns == len(turns)
    assert left["turn"] == sum(turn.is_empty for turn in turns)
    assert balance.attachments == sum(len(t.images) for t in turns) + left["attachment"]
    assert balance.gold_points == sum(len(s.points) for s in samples) + left["gold point"]
    assert balance.checkpoints == sum(len(s.checkpoints) for s in samples) + left["checkpoint"]
    assert balance.questions == len(questions) + left["question"]
    asked = sum(len(q.images) for q in questions)
    assert balance.question_attachments == asked + left["question attachment"]
    assert len(balance.warnings) >= min(1, len(balance.left_out))
    for sample in samples:
        ids = {session.id for session in sample.sessions}
        assert all(checkpoint.trigger_session in ids for checkpoint in sample.checkpoints)
        assert all(p.session_id in ids and p.text.strip() for p in sample.points)
        assert len({p.id for p in sample.points}) == len(sample.points)
        assert all(q.text.strip() and q.answers for c in sample.checkpoints for q in c.questions)


@settings(max_examples=300, deadline=None)
@given(faults=FAULTS)
def test_random_faults_are_refused_or_add_up(faults: list[tuple[tuple[str, int], Any]]) -> None:
    bundle = rich()
    documents = [bundle.samples, bundle.point_rows, bundle.checkpoint_rows]
    for (how, where), junk in faults:
        spoil(documents, how, where, junk)
    with tempfile.TemporaryDirectory() as folder:
        bundle.write(Path(folder))
        try:
            dataset = open_dataset(folder)
        except DataError as error:
            assert error.problems
            assert all(problem.file in (MAIN, POINTS, CHECKPOINTS) for problem in error.problems)
            return
        check_balance(dataset)
        again = open_dataset(folder)
        assert again.content_sha256 == dataset.content_sha256
        json.dumps(list(dataset.balance.warnings)).encode()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_bytes_are_refused_or_add_up(data: st.DataObject) -> None:
    bundle = rich()
    files = bundle.files()
    name = data.draw(st.sampled_from([MAIN, POINTS, CHECKPOINTS]))
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    bundle.raw[name] = bytes(content)
    with tempfile.TemporaryDirectory() as folder:
        bundle.write(Path(folder))
        try:
            dataset = open_dataset(folder)
        except DataError as error:
            assert error.problems
        else:
            check_balance(dataset)
