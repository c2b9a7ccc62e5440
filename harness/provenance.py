"""Where a run's records come from, written down for its manifest: code, data, boxes, host."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import harness
from harness.catalog import Baseline
from harness.config import EvalConfig
from harness.pipeline.answer import AnswerFn
from harness.pipeline.plan import Plan
from harness.records import JSONObject
from harness.runs import Manifest
from harness.samples import Dataset

PACKAGE = Path(harness.__file__).parent

#: The part of the code that decides what stage 1 records.
STAGE_ONE = (
    "adapter",
    "loaders",
    "pipeline",
    "sandbox",
    "catalog.py",
    "outcomes.py",
    "records.py",
    "samples.py",
)

#: Facts about a box's surroundings: told, and no reason not to resume.
_SURROUNDINGS = ("engine", "built_by_memrig", "base_image")


def manifest_of(
    *,
    config: EvalConfig,
    baseline: Baseline,
    dataset: Dataset,
    samples: Sequence[str],
    plan: Plan,
    answer: AnswerFn,
    judge: JSONObject,
    box: JSONObject,
    constant: JSONObject | None,
) -> Manifest:
    """The manifest of a run that is about to start."""
    pipeline: JSONObject = {
        "row": baseline.row,
        "baseline": _baseline_facts(baseline),
        "dataset": {
            "name": dataset.name,
            "format": dataset.format,
            "sha256": dataset.sha256,
            "content_sha256": dataset.content_sha256,
            "errata": None,
        },
        "selection": {
            "samples": list(samples),
            "max_sessions": config.max_sessions,
            "shard": list(config.shard) if config.shard else None,
        },
        "answerer": {"id": answerer_id(answer), "model": None, "decoding": None},
        "constant": constant,
        "top_k": config.top_k,
        "max_k": max(config.max_k, config.top_k),
        "images": config.images,
        "ingestion": "turns, one frame a session",
        "seed": config.seed,
        "box": {name: value for name, value in box.items() if name not in _SURROUNDINGS},
        "memrig": {"version": harness.__version__, "stage_1_sha256": code_sha256()},
    }
    about: JSONObject = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "dataset_path": str(config.dataset.resolve()),
        "alias_of": baseline.alias_of,
        "jobs": config.jobs,
        "surroundings": {name: box[name] for name in _SURROUNDINGS if name in box},
        "host": {
            "platform": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
        "git": git_state(),
        "command": sys.argv[:1] and [Path(sys.argv[0]).name, *sys.argv[1:]],
    }
    return Manifest(pipeline, judge, plan.as_json(), about)


def _baseline_facts(baseline: Baseline) -> JSONObject:
    return {
        "name": baseline.name,
        "version": baseline.version,
        "adapter": baseline.adapter,
        "host_side": baseline.host_side,
        "options": dict(baseline.options),
        "limits": asdict(baseline.limits),
        "reset": baseline.reset,
        "update_semantics": baseline.update_semantics,
    }


def answerer_id(answer: AnswerFn) -> str:
    """What names an answerer in titles: its ``id``, else its qualified name."""
    given: Any = getattr(answer, "id", None)
    if isinstance(given, str) and given:
        return given
    named: Any = answer if hasattr(answer, "__qualname__") else type(answer)
    return f"{named.__module__}.{named.__qualname__}"


@cache
def code_sha256() -> str:
    """Hash of memrig's own code as far as it decides stage 1: paths and bytes, sorted."""
    digest = hashlib.sha256()
    for name in STAGE_ONE:
        place = PACKAGE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(PACKAGE).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def git_state() -> JSONObject:
    """Commit and whether the checkout differs from it; unknown outside of a checkout."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return {"commit": "unknown", "dirty": None}
    return {"commit": commit, "dirty": bool(changes)}


def _git(*words: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(PACKAGE.parent), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
