"""What a run is asked to do. Frozen: the command line is one caller of it among others."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class EvalConfig:
    """One baseline over one data set.

    The first eight fields are the seed framework's own flags. ``top_k`` is the depth that is
    answered from and scored (default 5); ``max_k`` the depth retrieved once. ``images`` says what
    a box is given of an image. ``shard`` is ``(i, n)``, 1-based.
    """

    dataset: Path
    baseline: str
    output_dir: Path
    smoke: bool = False
    dry_run: bool = False
    eval_only: bool = False
    max_eval_workers: int = 5
    jobs: int = 1
    samples: tuple[str, ...] = ()
    max_sessions: int | None = None
    shard: tuple[int, int] | None = None
    top_k: int = 5
    max_k: int = 10
    seed: int = 0
    sandbox: Literal["auto", "container", "venv"] = "auto"
    images: Literal["caption", "file", "both"] = "caption"
    options: dict[str, Any] = field(default_factory=dict)
    baselines_dirs: tuple[Path, ...] = ()
    strict_data: bool = False
    unsafe: bool = False
