"""Faults of gold points and of keys."""

from __future__ import annotations

import copy

from fault_tools import (
    Case,
    do,
    g1,
    g2,
    gold,
    left,
    put,
    qa,
    question,
)
from loader_bundles import point, renamed

from harness.samples import PointKind

GOLD = [
    *(
        Case(
            f"importance_{name}",
            put(g1, importance=value),
            expect,
            says,
            lambda s, d, out=out: gold(s).importance == out,
        )
        for name, value, expect, says, out in (
            ("word", "high", "warning", ("'high'",), None),
            ("nan_text", "NaN", "warning", ("'NaN'",), None),
            ("over", 1.5, "warning", ("1.5",), None),
            ("negative", -0.1, "warning", ("-0.1",), None),
            ("bool", True, "warning", ("importance",), None),
            ("object", {}, "warning", ("importance",), None),
            ("null", None, "accept", (), None),
            ("missing", ..., "accept", (), None),
            ("text", "0.25", "accept", (), 0.25),
            ("zero", 0, "accept", (), 0.0),
        )
    ),
    *(
        Case(
            f"memory_content_{name}",
            put(g1, memory_content=value),
            "warning",
            (says,),
            lambda s, d: (
                "g1" not in {p.id for p in s.points}
                and (d.balance.gold_points, len(s.points), left(d, "gold point")) == (5, 4, 1)
            ),
        )
        for name, value, says in (
            ("blank", " ", "blank"),
            ("null", None, "missing"),
            ("absent", ..., "missing"),
        )
    ),
    Case(
        "content_is_number",
        put(g1, memory_content=640),
        "warning",
        ("a number",),
        lambda s, d: gold(s).text == "640",
    ),
    Case("content_is_list", put(g1, memory_content=["x"]), "fatal", ("point 'g1'", "a list")),
    Case(
        "points_null",
        lambda b: b.stage4[0].update(memory_points=None),
        "accept",
        (),
        lambda s, d: d.balance.gold_points == 4,
    ),
    Case("point_null", lambda b: b.stage4[0]["memory_points"].append(None), "fatal", ("point 1",)),
    Case(
        "id_number",
        put(g1, memory_id=3),
        "warning",
        ("memory_id is a number",),
        lambda s, d: gold(s, "3").citable,
    ),
    Case(
        "id_null",
        put(g1, memory_id=None),
        "warning",
        ("memory_id is missing",),
        lambda s, d: [p.id for p in s.points if not p.citable] == ["w1/S01/0"],
    ),
    Case("id_list", put(g1, memory_id=["g1"]), "fatal", ("memory_id is a list",)),
    Case(
        "same_point_twice",
        lambda b: b.stage4[0]["memory_points"].append(copy.deepcopy(g1(b))),
        "warning",
        ("identical repeat", "'g1'"),
        lambda s, d: d.balance.gold_points == 6 and len(s.points) == 5,
    ),
    Case(
        "same_ids_in_two_samples",
        do(
            lambda b: setattr(b, "samples", [b.sample, renamed(b.sample, "w2")]),
            lambda b: setattr(b, "point_rows", [b.points, renamed(b.points, "w2")]),
            lambda b: setattr(b, "checkpoint_rows", [b.checkpoints, renamed(b.checkpoints, "w2")]),
        ),
        "accept",
        (),
        lambda s, d: d.balance.gold_points == 10,
    ),
    Case(
        "originals_text",
        put(g2, original_memories="Wanda's van is green"),
        "warning",
        ("list of one",),
        lambda s, d: gold(s, "g2").originals == ("Wanda's van is green",),
    ),
    Case(
        "originals_with_null",
        put(g2, original_memories=[None, "Wanda's van is green", " "]),
        "warning",
        ("null; ignored", "blank; ignored"),
        lambda s, d: gold(s, "g2").originals == ("Wanda's van is green",),
    ),
    Case(
        "originals_null",
        put(g2, original_memories=None),
        "warning",
        ("recall only",),
        lambda s, d: (
            not gold(s, "g2").in_update_handling
            and gold(s, "g2").kind is PointKind.UPDATE
            and left(d, "update handling") == 1
        ),
    ),
    Case(
        "source_null",
        put(g1, memory_source=None),
        "accept",
        (),
        lambda s, d: gold(s).kind is PointKind.NEW,
    ),
    Case("source_missing", put(g1, memory_source=...), "accept"),
    Case(
        "source_spelling",
        put(g1, memory_source="Interference"),
        "accept",
        (),
        lambda s, d: gold(s).kind is PointKind.INTERFERENCE,
    ),
    Case("source_object", put(g1, memory_source={}), "warning", ("an object",)),
    Case("is_update_two", put(g1, is_update=2), "fatal", ("point 'g1'", "2 is neither")),
    Case("is_update_list", put(g1, is_update=[]), "fatal", ("point 'g1'",)),
    Case(
        "session_listed_twice",
        lambda b: b.stage4.append(
            {"session_id": "S01", "memory_points": [point("g9", "Wanda drives")]}
        ),
        "warning",
        ("'S01' stands here twice",),
        lambda s, d: (
            gold(s, "g9").session_id == "S01" and [p.id for p in s.points_of("S01")] == ["g1", "g9"]
        ),
    ),
    Case(
        "gold_session_null",
        lambda b: b.stage4[0].update(session_id=None),
        "fatal",
        ("session_id", "missing"),
    ),
    Case("gold_session_not_object", lambda b: b.stage4.append("S01"), "fatal", ("session 2",)),
    Case(
        "s00_in_both_equal",
        lambda b: b.stage4.insert(
            0, {"session_id": "S00", "memory_points": [point("g0", "Wanda paints")]}
        ),
        "warning",
        ("identical repeat",),
        lambda s, d: (d.balance.gold_points, len(s.points)) == (6, 5),
    ),
    Case(
        "variants_and_sources",
        put(g1, variants=["a", "b"], source_turns=["D1:1"]),
        "accept",
        (),
        lambda s, d: gold(s).source_ids == ("D1:1",) and gold(s).labels["variants"] == ["a", "b"],
    ),
]

KEYS = [
    Case(
        "point_keys",
        put(g1, keys={"must": ["green", {"any": ["van", "bus"], "not_before": ["no"]}]}),
        "accept",
        (),
        lambda s, d: gold(s).keys is not None and gold(s).keys.must[1].not_before == ("no",),
    ),
    Case(
        "question_keys",
        put(qa, keys={"answers": [["yellow"], ["gold"]], "forbidden": ["green"]}),
        "accept",
        (),
        lambda s, d: len(question(s).keys.alternatives) == 2,
    ),
    *(
        Case(f"keys_{name}", put(target, keys=value), "fatal", says)
        for name, target, value, says in (
            ("unknown_field", g1, {"must": ["a"], "may": []}, ("unknown field 'may'",)),
            ("no_must", g1, {"gone": []}, ("'must' is missing",)),
            ("empty_must", g1, {"must": []}, ("at least one",)),
            ("gone_on_new", g1, {"must": ["a"], "gone": ["b"]}, ("nothing to be gone",)),
            ("text", g1, "green", ("text, expected an object",)),
            ("blank_key", g1, {"must": [" "]}, ("not blank",)),
            ("null_key", g1, {"must": [None]}, ("null, expected a key",)),
            ("number_key", g1, {"must": [4]}, ("a number, expected an object",)),
            ("key_without_any", g1, {"must": [{"not_after": ["x"]}]}, ("'any' is missing",)),
            ("answers_flat", qa, {"answers": ["yellow"]}, ("expected a list of keys",)),
            ("answers_empty", qa, {"answers": []}, ("a list of alternatives",)),
            ("forbidden_text", qa, {"answers": [["a"]], "forbidden": "b"}, ("list of keys",)),
        )
    ),
]
