"""The planted-truth rig leaves out the disk; with it the numbers are the same to the last digit."""

from __future__ import annotations

from pathlib import Path

from harness import run_eval
from harness.config import EvalConfig
from harness.drawn import DrawnDataset, Shape
from planted import rig

SHAPE = Shape(conversations=8, sessions=4, facts=10, updates=6, hearsay=6, refusals=2)
DOSES = {"drop": 0.2, "corrupt": 0.2, "stale": 0.4, "hearsay": 0.5}


def test_a_run_directory_gives_what_the_rig_gives(tmp_path: Path) -> None:
    data = DrawnDataset(SHAPE, seed=3)
    config = EvalConfig(
        dataset=tmp_path / "none",
        baseline="Lossy",
        output_dir=tmp_path / "run",
        options={**DOSES, "draw": 4},
        seed=9,
        jobs=2,
    )
    result = run_eval(config, launcher=rig.launcher(), load_domain_bundle=lambda path: data)
    assert result.aggregate is not None
    direct = rig.run(list(data), rig.Row(DOSES, draw=4, seed=9), tmp_path)
    assert result.aggregate["dimensions"] == direct["dimensions"]
    assert result.aggregate["conversations"] == direct["conversations"]
    assert result.aggregate["statuses"] == direct["statuses"]
