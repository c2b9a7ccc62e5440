"""Boxes for tests: the adapters of ``bad/systems.py`` and the shipped ones, in child processes."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from harness.catalog import Baseline, OptionDoc
from harness.sandbox.base import Launcher
from harness.sandbox.process import LocalLauncher, ProcessLauncher

ROOT = Path(__file__).resolve().parents[2]
BAD = Path(__file__).resolve().parent / "bad"


def example(class_name: str, **changed: object) -> Baseline:
    """A catalogue row for a class of ``bad/systems.py``."""
    fields: dict[str, object] = {
        "name": class_name,
        "family": class_name,
        "row": class_name,
        "summary": "",
        "folder": BAD,
        "adapter": f"systems:{class_name}",
        "options": {"query_words": 50},
        "option_docs": {"query_words": OptionDoc(50, "words of a question that count", example=1)},
        "reset": "object",
    }
    return Baseline(**{**fields, **changed})  # type: ignore[arg-type]


def in_a_process(baseline: Baseline) -> Launcher:
    """A child process over the real pipe, with this Python and this checkout."""
    return ProcessLauncher(
        argv=[sys.executable, "-m", "harness.adapter.serve"],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), str(baseline.home)])},
        cwd=None,
        adapter=baseline.adapter,
        limits=baseline.limits,
    )


def in_this_process(baseline: Baseline) -> Launcher:
    """The same dispatcher without a pipe: fast, for what does not need one."""
    module, _, name = baseline.adapter.partition(":")
    if module == "systems":
        module = "bad.systems"
    return LocalLauncher(getattr(importlib.import_module(module), name))
