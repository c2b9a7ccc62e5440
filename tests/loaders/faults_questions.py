"""Faults of checkpoints, questions and their evidence."""

from __future__ import annotations

from fault_tools import (
    Case,
    cp,
    do,
    evidence,
    g1,
    left,
    put,
    qa,
    question,
    states,
    the_turn,
)

from harness.samples import AnswerKind, EvidenceKind, EvidenceState

CHECKPOINT = [
    *(
        Case(f"covered_{name}", put(cp, covered_sessions=value), expect, says, holds)
        for name, value, expect, says, holds in (
            ("empty", [], "fatal", ("checkpoint 'q1'", "never be asked"), None),
            ("null", None, "fatal", ("checkpoint 'q1'",), None),
            ("missing", ..., "fatal", ("checkpoint 'q1'",), None),
            ("number", 1, "fatal", ("checkpoint 'q1'", "a number"), None),
            ("null_entry", [None], "fatal", ("session null is not",), None),
            ("object_entry", [{}], "fatal", ("session an object is not",), None),
            ("padded", [" S01"], "fatal", ("' S01'",), None),
            (
                "text",
                "S02",
                "warning",
                ("list of one",),
                lambda s, d: s.checkpoints[0].trigger_session == "S02",
            ),
            (
                "gap",
                ["S00", "S02"],
                "accept",
                (),
                lambda s, d: s.checkpoints[0].covered == ("S00", "S02"),
            ),
        )
    ),
    Case("cp_no_id", put(cp, checkpoint_id=...), "fatal", ("checkpoint at 0", "missing")),
    Case("cp_number_id", put(cp, checkpoint_id=1), "fatal", ("a number",)),
    Case(
        "questions_null",
        put(cp, questions=None),
        "warning",
        ("no question to ask",),
        lambda s, d: (
            s.checkpoints == () and (d.balance.checkpoints, left(d, "checkpoint")) == (1, 1)
        ),
    ),
    Case("questions_object", put(cp, questions={}), "fatal", ("questions", "an object")),
    Case(
        "cp_not_object",
        lambda b: b.checkpoints["checkpoints"].append(3),
        "fatal",
        ("checkpoint 1",),
    ),
    Case(
        "no_checkpoints",
        lambda b: b.checkpoints.update(checkpoints=[]),
        "warning",
        ("no checkpoints",),
        lambda s, d: d.balance.questions == 0,
    ),
    Case(
        "checkpoints_object",
        lambda b: b.checkpoints.update(checkpoints={}),
        "fatal",
        ("checkpoints", "an object"),
    ),
    Case(
        "file_order_is_kept",
        lambda b: b.checkpoints["checkpoints"].append(
            {
                "checkpoint_id": "q0",
                "covered_sessions": ["S00"],
                "questions": [{"question": "Who paints?", "answer": "Wanda"}],
            }
        ),
        "accept",
        (),
        lambda s, d: (
            [c.id for c in s.checkpoints] == ["q1", "q0"]
            and [c.id for c in s.checkpoints_after("S00")] == ["q0"]
        ),
    ),
]

QUESTION = [
    *(
        Case(
            f"question_{name}",
            put(qa, question=value),
            "warning",
            ("cannot be asked",),
            lambda s, d: (d.balance.questions, left(d, "question")) == (1, 1),
        )
        for name, value in (("blank", " "), ("null", None), ("missing", ...))
    ),
    Case(
        "question_number",
        put(qa, question=7),
        "warning",
        ("a number",),
        lambda s, d: question(s).text == "7",
    ),
    Case("question_list", put(qa, question=["x"]), "fatal", ("question 0", "a list")),
    Case(
        "question_not_object",
        lambda b: b.checkpoint["questions"].append("why?"),
        "fatal",
        ("question 1",),
    ),
    *(
        Case(f"answer_{name}", put(qa, answer=value), "fatal", ("question 0, answer",))
        for name, value in (
            ("missing", ...),
            ("blank", "  "),
            ("object", {"a": 1}),
            ("empty_list", []),
            ("list_of_null", [None]),
        )
    ),
    Case(
        "answer_list_with_null",
        put(qa, answer=["Yellow", None]),
        "warning",
        ("null; ignored",),
        lambda s, d: (
            question(s).answers == ("Yellow",) and question(s).answer_kind is AnswerKind.VARIANTS
        ),
    ),
    Case(
        "answer_float",
        put(qa, answer=2.5),
        "accept",
        (),
        lambda s, d: question(s).answers == ("2.5",),
    ),
    Case(
        "no_type",
        put(qa, question_type=..., question_type_abbrev=...),
        "accept",
        (),
        lambda s, d: question(s).type_id is None,
    ),
    Case("type_number", put(qa, question_type=4), "warning", ("question_type",)),
    Case(
        "same_question_id",
        do(put(qa, question_id="k"), lambda b: b.checkpoint["questions"].append(dict(b.question))),
        "warning",
        ("'k' is taken",),
        lambda s, d: [q.id for q in s.checkpoints[0].questions] == ["k", "q1:1"],
    ),
    Case("kind_unknown", put(qa, answer_kind="essay"), "fatal", ("'essay'", "rubric")),
    Case(
        "kind_variants",
        put(qa, answer_kind="variants", answer=["Yellow", "Gold"]),
        "accept",
        (),
        lambda s, d: question(s).answers == ("Yellow", "Gold"),
    ),
    Case(
        "kind_refusal",
        put(qa, answer_kind="refusal"),
        "accept",
        (),
        lambda s, d: question(s).answer_kind is AnswerKind.REFUSAL,
    ),
    Case(
        "kind_text_with_list",
        put(qa, answer_kind="text", answer=["a", "b"]),
        "fatal",
        ("answer_kind is text",),
    ),
    Case(
        "choice",
        put(qa, answer_kind="choice", choices=["Yellow", "Green"]),
        "accept",
        (),
        lambda s, d: question(s).choices == ("Yellow", "Green"),
    ),
    Case(
        "choice_without_answer",
        put(qa, choices=["Red", "Green"]),
        "fatal",
        ("'Yellow' is none of the choices",),
    ),
    Case("choice_twice", put(qa, choices=["Yellow", "Yellow"]), "fatal", ("stands twice",)),
    Case(
        "adversarial",
        put(qa, adversarial_answer="Blue"),
        "accept",
        (),
        lambda s, d: (
            question(s).answer_kind is AnswerKind.REFUSAL
            and question(s).labels["adversarial_answer"] == "Blue"
        ),
    ),
    Case(
        "rubric",
        put(qa, evaluation_criteria="says yellow"),
        "accept",
        (),
        lambda s, d: question(s).answer_kind is AnswerKind.RUBRIC,
    ),
    Case(
        "question_date",
        put(qa, question_date="2025/03/04 (Tue) 10:00"),
        "accept",
        (),
        lambda s, d: question(s).date == "2025-03-04T10:00:00",
    ),
    Case("question_date_garbage", put(qa, question_date="later"), "warning", ("'later'",)),
]

EVIDENCE = [
    Case("ev_missing", put(qa, evidence=...), "accept", (), lambda s, d: states(s) == []),
    Case(
        "ev_object",
        put(qa, evidence={"memory_id": "g2"}),
        "warning",
        ("list of one",),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case("ev_number", put(qa, evidence=4), "fatal", ("evidence", "a number")),
    Case(
        "ev_texts",
        evidence("g2", "no such thing"),
        "warning",
        ("bare text 'g2'",),
        lambda s, d: (
            states(s) == [("point", "g2", "resolved"), ("text", "no such thing", "unresolved")]
        ),
    ),
    Case("ev_number_entry", evidence(3), "warning", ("unresolved",)),
    Case(
        "ev_null_entry",
        evidence(None, {"memory_id": "g2"}),
        "warning",
        ("null",),
        lambda s, d: left(d, "evidence") == 1 and len(question(s).evidence) == 1,
    ),
    Case(
        "ev_unknown_field",
        evidence({"fact": "g2"}),
        "warning",
        ("unresolved",),
        lambda s, d: question(s).evidence[0].state is EvidenceState.UNRESOLVED,
    ),
    Case(
        "ev_whole_ids",
        evidence({"memory_id": "g"}),
        "warning",
        ("unresolved",),
        lambda s, d: states(s) == [("point", "g", "unresolved")],
    ),
    Case(
        "ev_image",
        do(lambda b: b.attach([{"caption": "v", "image_id": "i1"}]), evidence({"image_id": "i1"})),
        "accept",
        (),
        lambda s, d: states(s) == [("image", "i1", "resolved")],
    ),
    Case("ev_image_unknown", evidence({"image_id": "i1"}), "warning", ("no image 'i1'",)),
    Case(
        "ev_turn",
        do(put(the_turn, turn_id="t7"), evidence({"turn_id": "t7"})),
        "accept",
        (),
        lambda s, d: states(s) == [("turn", "t7", "resolved")],
    ),
    Case("ev_turn_unknown", evidence({"turn_id": "t7"}), "warning", ("no turn 't7'",)),
    Case(
        "ev_session",
        evidence({"session_id": "S01"}),
        "accept",
        (),
        lambda s, d: states(s) == [("session", "S01", "resolved")],
    ),
    Case(
        "ev_future_session",
        do(put(cp, covered_sessions=["S00"]), evidence({"session_id": "S01"}, {"memory_id": "g0"})),
        "warning",
        ("future",),
        lambda s, d: states(s) == [("session", "S01", "future"), ("point", "g0", "resolved")],
    ),
    Case(
        "ev_pair",
        evidence({"memory_id": "g2", "memory_content": "Wanda's van is yellow"}),
        "accept",
        (),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_pair_differs",
        evidence({"memory_id": "g2", "memory_content": "Wanda's boat"}),
        "warning",
        ("differs", "'g2'"),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_memory_and_image",
        do(
            lambda b: b.attach([{"caption": "v", "image_id": "i1"}]),
            evidence({"memory_id": "g2", "image_id": "i1"}),
        ),
        "warning",
        ("both count",),
        lambda s, d: (
            [e.kind for e in question(s).evidence] == [EvidenceKind.POINT, EvidenceKind.IMAGE]
        ),
    ),
    Case(
        "ev_text_unknown",
        evidence({"memory_content": "Wanda flies"}),
        "warning",
        ("unresolved",),
        lambda s, d: states(s) == [("text", "Wanda flies", "unresolved")],
    ),
    Case(
        "ev_text_and_id_once",
        evidence({"memory_id": "g2"}, {"memory_content": "Wanda's van is yellow"}),
        "warning",
        ("counts once",),
        lambda s, d: states(s) == [("point", "g2", "resolved")],
    ),
    Case(
        "ev_left_out_point",
        do(put(g1, memory_content=""), evidence({"memory_id": "g1"})),
        "warning",
        ("unresolved",),
    ),
    Case(
        "ev_made_up_id",
        do(put(g1, memory_id=None), evidence({"memory_id": "w1/S01/0"})),
        "warning",
        ("unresolved",),
    ),
]
