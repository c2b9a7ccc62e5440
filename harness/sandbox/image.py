"""A baseline's image: found by its tag, or built once.

The tag is ``memrig-<name>:<12 hex>``, the hash of a :class:`harness.sandbox.recipe.Recipe`. An
image that is there is never built again: look, take the file lock, look again, build with the log
kept, verify. So of two builds at a time the second waits and finds the image done.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

from filelock import FileLock

from harness import __version__
from harness.catalog import Baseline
from harness.outcomes import BuildError, EngineError, MemrigError
from harness.sandbox import recipe as recipes
from harness.sandbox.context import write_tar
from harness.sandbox.lockfile import read_lock
from harness.sandbox.recipe import BASELINE, HASH, KIND, NETWORK, STAGE, VERSION, Recipe
from harness.sandbox.sources import fetch_all
from harness.settings import Settings


class ImageEngine(Protocol):
    """What building needs of :class:`harness.sandbox.engine.Engine`."""

    def platform(self) -> str:
        """Of the daemon, e.g. ``linux/amd64``."""

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """The image's facts as the engine gives them, or ``None`` where there is no such image."""

    def pull(self, reference: str) -> None:
        """Fetch an image; raises :class:`EngineError`."""

    def build(
        self,
        context: IO[bytes],
        *,
        tag: str,
        labels: Mapping[str, str],
        build_args: Mapping[str, str],
        network: str | None,
        no_cache: bool,
        log: Path,
    ) -> str:
        """Build from a tar, keep the log, leave no container; returns the image id.

        Raises:
            BuildError: with the log.
        """

    def images(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Facts of all images that carry the labels (an empty value: any)."""

    def remove_image(self, reference: str) -> None:
        """Remove an image; raises :class:`EngineError`."""


def _silent(message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Built:
    """An image that is there.

    ``built``: this call made it. ``size`` in bytes, ``seconds`` this call took, ``facts`` for the
    manifest.
    """

    tag: str
    image_id: str
    size: int
    built: bool
    seconds: float
    log: Path | None
    facts: Mapping[str, Any] = field(default_factory=dict)


class ImageBuilder:
    """Builds images with one engine. ``say`` is told in one line what takes long."""

    def __init__(
        self, engine: ImageEngine, settings: Settings, say: Callable[[str], None] = _silent
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._say = say

    def ensure(self, baseline: Baseline, *, no_cache: bool = False) -> Built:
        """Find the baseline's image or build it, and the layer under it.

        Raises:
            BuildError: with the path of the log. DataError: a lock that cannot be trusted.
        """
        started = time.monotonic()
        lock = read_lock(baseline.home, baseline.build.torch)
        sources = fetch_all(baseline.sources, self._settings)
        base = self._base_image()
        platform = self._engine.platform()
        layers = self._layers(baseline, base["Id"])
        for layer in layers:
            self._make(layer, no_cache=False)
        recipe = recipes.baseline_image(
            baseline, lock, sources, layers[-1], platform, self._settings
        )
        made = self._make(recipe, no_cache=no_cache)
        facts = {
            **made.facts,
            "base_image": self._settings.base_image,
            "base_image_id": base["Id"],
            "base_image_digest": digest_of(base),
            "layer": layers[-1].tag,
            "platform": platform,
            "lock_sha256": lock.sha256,
            "sources": [source.facts() for source in sources],
        }
        return replace(made, seconds=time.monotonic() - started, facts=facts)

    def layer(self) -> str:
        """Find or build the plain layer under every image; returns its tag."""
        base = self._base_image()
        recipe = recipes.plain_layer(base["Id"], self._engine.platform(), self._settings)
        return self._make(recipe, no_cache=False).tag

    def current(self, baseline: Baseline) -> str | None:
        """The tag of the image that this baseline would start now, if it is there; builds nothing.

        Where sources would have to be fetched to know, any image of the baseline will do.
        """
        tags = self.tags(baseline)
        return tags[-1] if tags and self._engine.inspect_image(tags[-1]) is not None else None

    def tags(self, baseline: Baseline) -> list[str]:
        """The tags of the layers and the image that this baseline would use now, image last."""
        base = self._engine.inspect_image(self._settings.base_image)
        if base is None:
            return []
        layers = self._layers(baseline, base["Id"])
        tags = [layer.tag for layer in layers]
        if baseline.sources:
            found = self._engine.images({KIND: "baseline", BASELINE: baseline.family})
            return [*tags, *(tag for image in found for tag in image.get("RepoTags") or ())]
        lock = read_lock(baseline.home, baseline.build.torch)
        platform = self._engine.platform()
        last = recipes.baseline_image(baseline, lock, (), layers[-1], platform, self._settings)
        return [*tags, last.tag]

    def _layers(self, baseline: Baseline, base_id: str) -> list[Recipe]:
        platform = self._engine.platform()
        plain = recipes.plain_layer(base_id, platform, self._settings)
        if baseline.build.torch == "none":
            return [plain]
        return [plain, recipes.torch_layer(plain, platform, self._settings)]

    def _base_image(self) -> dict[str, Any]:
        name = self._settings.base_image
        found = self._engine.inspect_image(name)
        if found is None:
            self._say(f"pulling the base image {name}")
            try:
                self._engine.pull(name)
            except EngineError as error:
                raise BuildError(
                    f"the base image {name} is not here and cannot be pulled: {error}\n"
                    "  `make engine` makes one from Debian packages; --base-image IMAGE names "
                    "another"
                ) from None
            found = self._engine.inspect_image(name)
        if found is None:
            raise BuildError(f"the base image {name} was pulled and yet is not there")
        return found

    def _make(self, recipe: Recipe, *, no_cache: bool) -> Built:
        found = None if no_cache else self._find(recipe)
        if found is not None:
            return found
        locks = self._settings.work_dir / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with FileLock(locks / f"{recipe.tag.replace(':', '-')}.lock"):
            found = None if no_cache else self._find(recipe)
            return found or self._build(recipe, no_cache)

    def _find(self, recipe: Recipe) -> Built | None:
        """The image of this very recipe. Twelve digits may clash, so the whole hash is compared."""
        image = self._engine.inspect_image(recipe.tag)
        if image is None or labels_of(image).get(HASH) != recipe.hash:
            return None
        return _built(recipe, image, built=False, seconds=0.0, log=None)

    def _build(self, recipe: Recipe, no_cache: bool) -> Built:
        log = self._settings.work_dir / "logs" / f"build-{recipe.tag.replace(':', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        host = self._settings.build_network_host
        self._say(f"building {recipe.tag} (log: {log})")
        labels = {
            **recipe.labels,
            HASH: recipe.hash,
            VERSION: __version__,
            NETWORK: "host" if host else "default",
        }
        extras = [*recipe.extras, *recipes.certificate(self._settings)]
        if recipe.repository == "memrig-layer-torch-cpu":
            extras += recipes.torch_extras(self._settings)
        with tempfile.TemporaryFile(dir=log.parent) as context:
            write_tar([*recipe.files, *extras], context)
            context.seek(0)
            self._engine.build(
                context,
                tag=recipe.tag,
                labels=labels,
                build_args={"BASE_IMAGE": recipe.base, "MEMRIG_HASH": recipe.hash},
                network="host" if host else None,
                no_cache=no_cache,
                log=log,
            )
        image = self._engine.inspect_image(recipe.tag)
        if image is None or labels_of(image).get(HASH) != recipe.hash:
            raise BuildError(f"{recipe.tag} was built and yet is not there as built", log)
        self._drop_stages(recipe)
        return _built(recipe, image, built=True, seconds=time.monotonic() - started, log=log)

    def _drop_stages(self, recipe: Recipe) -> None:
        """Remove what the first stages of this build left: wheels, the first copy of a venv."""
        for image in self._engine.images({STAGE: recipe.hash}):
            try:
                self._engine.remove_image(image["Id"])
            except EngineError as error:
                self._say(f"a stage of {recipe.tag} could not be removed: {error}")


def _built(
    recipe: Recipe, image: dict[str, Any], *, built: bool, seconds: float, log: Path | None
) -> Built:
    facts = {
        "image": recipe.tag,
        "image_id": image["Id"],
        "image_hash": recipe.hash,
        "build_network": labels_of(image).get(NETWORK, "unknown"),
        "built_by_memrig": labels_of(image).get(VERSION, "unknown"),
    }
    return Built(recipe.tag, image["Id"], int(image.get("Size", 0)), built, seconds, log, facts)


def labels_of(image: Mapping[str, Any]) -> dict[str, str]:
    """The labels in an image's facts."""
    return dict((image.get("Config") or {}).get("Labels") or image.get("Labels") or {})


def digest_of(image: Mapping[str, Any]) -> str:
    """The digest a registry knows an image by; one that was made here has none: ``unknown``."""
    digests = image.get("RepoDigests") or ()
    return str(digests[0]).rpartition("@")[2] if digests else "unknown"


def old_images(
    engine: ImageEngine, builder: ImageBuilder, baselines: Sequence[Baseline]
) -> list[dict[str, Any]]:
    """Images of memrig that these baselines would not start any more, and unused layers.

    Images of other baselines (``--baselines DIR``) stay, and so do those of one whose state cannot
    be told, because its lock is refused.
    """
    keep: set[str] = set()
    judged: set[str] = set()
    for baseline in baselines:
        if not baseline.host_side:
            with contextlib.suppress(MemrigError):
                keep.update(builder.tags(baseline))
                judged.add(baseline.family)
    return [
        image
        for image in engine.images({KIND: ""})
        if labels_of(image).get(BASELINE) in {None, *judged}
        and not keep.intersection(image.get("RepoTags") or ())
    ]
