"""Bundles in the three-file format for measurements: LoCoMo-10, and drawn ones of any size."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

JSONObject = dict[str, Any]

#: LoCoMo's category 5 asks about what was never said.
ADVERSARIAL = 5

WORDS = ["garden", "train", "violin", "winter", "market", "letter", "harbour", "cousin", "recipe"]


def locomo(source: Path, folder: Path) -> Path:
    """Convert ``locomo10.json``: all turns, observations as points, one checkpoint at the end."""
    conversations = json.loads(source.read_text(encoding="utf-8"))
    return _write(folder, [_locomo_sample(entry) for entry in conversations])


def _locomo_sample(entry: JSONObject) -> tuple[JSONObject, JSONObject, JSONObject]:
    sample, talk = entry["sample_id"], entry["conversation"]
    numbers = [n for n in range(1, 100) if talk.get(f"session_{n}")]
    sessions = [
        {
            "_v2_session_id": f"S{n:02d}",
            "dialogue": [
                {
                    "role": "user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                    "content": turn["text"],
                    "timestamp": talk[f"session_{n}_date_time"],
                    "name": turn["speaker"],
                    "dia_id": turn["dia_id"],
                }
                for turn in talk[f"session_{n}"]
            ],
        }
        for n in numbers
    ]
    points = [
        {
            "session_id": f"S{n:02d}",
            "memory_points": [
                _point(f"mp_S{n:02d}_{i:03d}", text)
                for i, text in enumerate(_observations(entry, n), 1)
            ],
        }
        for n in numbers
    ]
    checkpoint = {
        "checkpoint_id": "end",
        "covered_sessions": [session["_v2_session_id"] for session in sessions],
        "questions": [_locomo_question(sample, i, qa) for i, qa in enumerate(entry["qa"])],
    }
    return _lines(sample, sessions, points, [checkpoint])


def _observations(entry: JSONObject, number: int) -> Iterable[str]:
    said = entry["observation"].get(f"session_{number}_observation", {})
    return (text for entries in said.values() for text, *_ in entries)


def _locomo_question(sample: str, index: int, qa: JSONObject) -> JSONObject:
    refusal = qa["category"] == ADVERSARIAL
    return {
        "question_id": f"{sample}:{index}",
        "question": qa["question"],
        "answer": "Not mentioned." if refusal else str(qa["answer"]),
        "question_type": f"category {qa['category']}",
        "question_type_abbrev": str(qa["category"]),
        "difficulty": "",
        "evidence": [],
    }


def drawn(folder: Path, *, samples: int, sessions: int, turns: int, questions: int) -> Path:
    """Invented talk of a given size; the same for the same numbers."""
    rng = random.Random(samples * 1_000_003 + sessions * 1009 + turns)
    return _write(folder, [_drawn(rng, i, sessions, turns, questions) for i in range(samples)])


def _drawn(
    rng: random.Random, number: int, sessions: int, turns: int, questions: int
) -> tuple[JSONObject, JSONObject, JSONObject]:
    names = [f"S{n:02d}" for n in range(1, sessions + 1)]
    talk = [
        {
            "_v2_session_id": name,
            "dialogue": [
                {
                    "role": "user" if i % 2 == 0 else "assistant",
                    "content": f"{' '.join(rng.choices(WORDS, k=20))} {number} {name} {i}",
                    "timestamp": f"2024-01-{n % 28 + 1:02d}T10:{i % 60:02d}:00",
                }
                for i in range(turns)
            ],
        }
        for n, name in enumerate(names)
    ]
    points = [
        {
            "session_id": name,
            "memory_points": [_point(f"mp_{name}_{number}", " ".join(rng.choices(WORDS, k=6)))],
        }
        for name in names
    ]
    asked = [
        {
            "question_id": f"q{number}-{i}",
            "question": f"What about the {rng.choice(WORDS)} and the {rng.choice(WORDS)}, {i}?",
            "answer": rng.choice(WORDS),
            "question_type": "drawn",
            "question_type_abbrev": "DR",
            "difficulty": "",
            "evidence": [],
        }
        for i in range(questions)
    ]
    checkpoint = {"checkpoint_id": "end", "covered_sessions": names, "questions": asked}
    return _lines(f"drawn-{number:04d}", talk, points, [checkpoint] if asked else [])


def _point(memory_id: str, text: str) -> JSONObject:
    return {
        "memory_id": memory_id,
        "memory_content": text,
        "memory_type": "observation",
        "memory_source": "normal",
        "is_update": False,
        "original_memories": [],
        "importance": 0.5,
    }


def _lines(
    sample: str,
    sessions: list[JSONObject],
    points: list[JSONObject],
    checkpoints: list[JSONObject],
) -> tuple[JSONObject, JSONObject, JSONObject]:
    head = {"uuid": sample, "sample_id": sample}
    return (
        {**head, "sessions": sessions},
        {**head, "memory_sessions": points},
        {**head, "checkpoints": checkpoints},
    )


def _write(folder: Path, samples: list[tuple[JSONObject, JSONObject, JSONObject]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    main = json.dumps([sample for sample, _, _ in samples], ensure_ascii=False)
    (folder / "domain_a_v2.json").write_text(main, encoding="utf-8")
    for place, name in ((1, "stage4_memory_points.jsonl"), (2, "stage4b_qa_checkpoints.jsonl")):
        lines = "".join(json.dumps(parts[place], ensure_ascii=False) + "\n" for parts in samples)
        (folder / name).write_text(lines, encoding="utf-8")
    return folder
