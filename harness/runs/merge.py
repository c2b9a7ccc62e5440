"""Put the shards of a run together, as if it had been one run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.outcomes import RunError
from harness.records import JSONObject
from harness.runs.attempts import Attempt, folder_name
from harness.runs.directory import BOX, Finished, Run
from harness.runs.files import full_disk_by_name
from harness.runs.manifest import Manifest


def merge(shards: Sequence[Path], target: Path) -> Run:
    """Write the shards' records into a new run directory; attempts and logs come along.

    The result is judged and aggregated anew by the caller. It is open for writing.

    Raises:
        RunError: the shards are not all of one run, or not complete, or not all there.
    """
    runs = [Run.open(path) for path in shards]
    manifest = _joined(runs)
    hello = _hello(runs)
    merged = Run.create(target, manifest)
    try:
        if hello is not None:
            merged.greet(hello)
        order = {sample_id: n for n, sample_id in enumerate(_samples(manifest))}
        parts = [(run, entry) for run in runs for entry in run.finished]
        for run, entry in sorted(parts, key=lambda part: order[part[1].sample_id]):
            merged.append_sample(_carried(run, entry, merged))
    except BaseException:
        merged.close()
        raise
    return merged


def _joined(runs: Sequence[Run]) -> Manifest:
    """The manifest of the whole: the shards' common one, with their samples and plans added up."""
    if not runs:
        raise RunError("there is nothing to merge")
    numbers = []
    for run in runs:
        shard = run.manifest.pipeline["selection"].get("shard")
        if shard is None:
            raise RunError(f"{run.path} is no shard: it was not made with --shard")
        numbers.append(tuple(shard))
        missing = [s for s in _samples(run.manifest) if not run.is_finished(s)]
        if missing:
            raise RunError(f"{run.path} is not complete: sample {missing[0]!r} is not recorded")
    _check_all_there(runs, numbers)
    whole = [_whole(run.manifest) for run in runs]
    for run, manifest in zip(runs[1:], whole[1:], strict=True):
        found = whole[0].difference(manifest, ("pipeline", "judge"))
        if found is not None:
            raise RunError(f"{run.path} is of another run than {runs[0].path}: {found}")
    ordinals = {e.sample_id: e.ordinal for run in runs for e in run.finished}
    pipeline = dict(whole[0].pipeline)
    samples = sorted(
        ordinals, key=lambda sample_id: (len(ordinals[sample_id]), ordinals[sample_id])
    )
    pipeline["selection"] = {**pipeline["selection"], "samples": samples}
    plan = {
        name: sum(int(run.manifest.plan[name]) for run in runs) for name in runs[0].manifest.plan
    }
    return Manifest(pipeline, whole[0].judge, plan, {**whole[0].about, "merged_from": len(runs)})


def _hello(runs: Sequence[Run]) -> JSONObject | None:
    """What the boxes of all shards said; a shard whose boxes never started has nothing to say."""
    said = [(run, hello) for run in runs if (hello := run.hello()) is not None]
    for run, hello in said[1:]:
        first, known = said[0]
        for name in [*known, *(name for name in hello if name not in known)]:
            if known.get(name) != hello.get(name):
                raise RunError(
                    f"{run.path} had other boxes than {first.path}: their {name} differs "
                    f"({BOX}). Shards of unequal boxes are not one run"
                )
    return said[0][1] if said else None


def _check_all_there(runs: Sequence[Run], numbers: Sequence[tuple[int, ...]]) -> None:
    of = numbers[0][1]
    if sorted(numbers) != [(number, of) for number in range(1, of + 1)]:
        given = ", ".join(f"{number}/{total}" for number, total in sorted(numbers))
        raise RunError(f"need each shard from 1/{of} to {of}/{of} once; given: {given}")


def _whole(manifest: Manifest) -> Manifest:
    """A shard's manifest without what is the shard's own."""
    selection: JSONObject = {**manifest.pipeline["selection"], "shard": None, "samples": []}
    return replace(manifest, pipeline={**manifest.pipeline, "selection": selection})


def _samples(manifest: Manifest) -> list[str]:
    return list(manifest.pipeline["selection"]["samples"])


def _carried(run: Run, entry: Finished, merged: Run) -> Attempt:
    """Copy a sample's attempts and logs; returns the one that counts, as the merged run's own."""
    folder = folder_name(entry.ordinal, entry.sample_id)
    with full_disk_by_name(merged.path):
        shutil.copytree(run.path / "attempts" / folder, merged.path / "attempts" / folder)
        for log in sorted((run.path / "logs").glob(f"{entry.ordinal}.*")):
            shutil.copy2(log, merged.path / "logs" / log.name)
    return Attempt(merged.path / "attempts", entry.sample_id, entry.ordinal, entry.attempt)
