"""What an image is made from, and the hash that names it. Nothing here talks to an engine.

The CA file and the wheels are in the build's context but not in the hash: they change where bytes
come from and not which bytes, since the lock holds their hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.catalog import Baseline
from harness.outcomes import BuildError
from harness.sandbox import context, dockerfile
from harness.sandbox.context import File
from harness.sandbox.lockfile import TORCH_VERSION, Lock, find_torch
from harness.sandbox.sources import Fetched
from harness.settings import Settings

#: Labels on every image that memrig makes.
KIND = "memrig.kind"
BASELINE = "memrig.baseline"
HASH = "memrig.hash"
LOCK = "memrig.lock"
STAGE = "memrig.stage"
NETWORK = "memrig.build-network"
VERSION = "memrig.version"

BOXCHECK = Path(__file__).with_name("boxcheck.py")


@dataclass(frozen=True)
class Recipe:
    """One image. ``files`` and ``facts`` make its identity; ``extras`` are in the context only.

    ``base`` is the image it starts from, handed over as the build argument ``BASE_IMAGE``.
    """

    repository: str
    base: str
    files: tuple[File, ...]
    facts: Mapping[str, object]
    extras: tuple[File, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """Its identity, 64 hexadecimal digits, of the files as they were when first asked."""
        return context.content_hash(self.files, self.facts)

    @property
    def tag(self) -> str:
        """``repository:<12 hex>``."""
        return f"{self.repository}:{self.hash[:12]}"


def plain_layer(base_id: str, platform: str, settings: Settings) -> Recipe:
    """The layer under every image: base image, virtual environment, state folder."""
    text = dockerfile.plain_layer()
    return Recipe(
        "memrig-layer-plain",
        settings.base_image,
        (File("Dockerfile", text.encode()),),
        {"base": base_id, "platform": platform},
        labels={KIND: "layer"},
    )


def torch_layer(plain: Recipe, platform: str, settings: Settings) -> Recipe:
    """The plain layer with the CPU build of PyTorch.

    Which wheel it is enters the hash by its name: the bytes of the known ones are checked against
    their pin before a build, and reading 190 MB for every look at a tag is too much.

    Raises:
        BuildError: there is no CPU wheel to be had.
    """
    folder = settings.wheel_dir
    names = sorted(p.name for p in folder.glob(torch_pattern())) if folder else []
    if not names and settings.torch_index is None:
        raise BuildError(no_torch(settings))
    refuse_file_index(settings)
    index = None if names else settings.torch_index
    text = dockerfile.torch_layer(
        f"torch=={TORCH_VERSION}", _install(settings, wheels=bool(names)), index
    )
    return Recipe(
        "memrig-layer-torch-cpu",
        plain.tag,
        (File("Dockerfile", text.encode()),),
        {"base": plain.hash, "platform": platform, "wheels": names},
        labels={KIND: "layer"},
    )


def torch_extras(settings: Settings) -> tuple[File, ...]:
    """The wheels of PyTorch for its layer's context, checked; none where an index serves them."""
    return tuple(
        File(f"build/wheels/{path.name}", source=path) for path in find_torch(settings.wheel_dir)
    )


def torch_pattern() -> str:
    """How the files of the CPU wheels are called."""
    return f"torch-{TORCH_VERSION}+cpu-*.whl"


def no_torch(settings: Settings) -> str:
    """What to say where no CPU wheel of PyTorch can be had."""
    looked = f"{settings.wheel_dir} has none" if settings.wheel_dir else "no wheel folder is set"
    return (
        f"this baseline needs the CPU build of torch {TORCH_VERSION}, and {looked}. Put its wheel "
        f"({torch_pattern()}) into a folder and give --wheel-dir DIR (MEMRIG_WHEEL_DIR), or set "
        "MEMRIG_TORCH_INDEX to the address of PyTorch's index of CPU wheels, which its "
        "installation page names. The package index is not asked: it serves a CUDA build"
    )


def baseline_image(
    baseline: Baseline,
    lock: Lock,
    sources: Sequence[Fetched],
    layer: Recipe,
    platform: str,
    settings: Settings,
) -> Recipe:
    """A baseline's image on its layer. Variants of one folder share it."""
    refuse_file_index(settings)
    wheels = lock.wheels_in(settings.wheel_dir)
    own = baseline.home / "Dockerfile"
    text = dockerfile.baseline_image(
        own.read_text(encoding="utf-8") if own.is_file() else None,
        _install(settings, bool(wheels), baseline.build.sdist_allowed),
        apt=baseline.build.apt,
        packages=not lock.empty,
        torch=baseline.build.torch,
        python_path=[place for source in sources for place in source.python_path],
    )
    labels = {KIND: "baseline", BASELINE: baseline.family, LOCK: lock.sha256}
    labels |= {f"memrig.source.{source.name}": source.commit for source in sources}
    return Recipe(
        f"memrig-{baseline.family.lower()}",
        layer.tag,
        (
            File("Dockerfile", text.encode()),
            File("build/requirements.lock", lock.data),
            *context.under("box", box_files(baseline, sources)),
        ),
        {"layer": layer.hash, "name": baseline.family, "platform": platform},
        tuple(File(f"build/wheels/{path.name}", source=path) for path in wheels),
        labels,
    )


def box_files(baseline: Baseline, sources: Sequence[Fetched]) -> list[File]:
    """What a box of this baseline holds besides Python and packages, in either kind of sandbox."""
    tree = context.box_tree(baseline.home, [f for source in sources for f in source.files])
    return [*tree, File("boxcheck.py", source=BOXCHECK)]


def certificate(settings: Settings) -> tuple[File, ...]:
    """The CA file for a context."""
    return (File("build/ca.pem", source=settings.ca_file),) if settings.ca_file else ()


def refuse_file_index(settings: Settings) -> None:
    """A build of an image does not see the folders of this machine.

    Raises:
        BuildError: an index is a ``file:`` address.
    """
    for address in (settings.package_index, settings.torch_index, *settings.extra_index):
        if address and address.startswith("file:"):
            raise BuildError(
                f"{address} is a folder of this machine, which the build of an image does not see; "
                "give its wheels with --wheel-dir, or use --sandbox venv"
            )


def _install(
    settings: Settings, wheels: bool, sdist_allowed: tuple[str, ...] = ()
) -> dockerfile.Install:
    return dockerfile.Install(
        settings.package_index,
        settings.extra_index,
        settings.ca_file is not None,
        wheels,
        sdist_allowed,
    )
