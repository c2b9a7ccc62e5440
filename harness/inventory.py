"""What systems there are, what they can do, and whether their software is there; builds nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from harness.catalog import Baseline, Catalog
from harness.outcomes import MemrigError
from harness.sandbox import base_image, venv
from harness.sandbox.engine import Engine
from harness.sandbox.image import ImageBuilder
from harness.settings import Settings

BUILT = "built"
NOT_BUILT = "not built"
NO_ENGINE = "no engine"
HOST = "on the host"


class ImageFinder(Protocol):
    """Finds the image that a baseline would start now (:class:`ImageBuilder` does)."""

    def current(self, baseline: Baseline) -> str | None:
        """Its tag, if it is there."""


@dataclass(frozen=True)
class Entry:
    """One row of ``memrig list``.

    ``image`` and ``venv`` are ``built``, ``not built``, ``no engine``, ``on the host`` or why it
    cannot be known. ``options`` are name -> default.
    """

    name: str
    family: str
    summary: str
    update_semantics: str
    needs: tuple[str, ...]
    reset: str
    torch: str
    runs_model_output: bool
    options: dict[str, Any]
    option_help: dict[str, str]
    aliases: tuple[str, ...]
    version: str
    licence: str
    paper: str | None
    caution: str
    image: str
    venv: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for ``--json``."""
        return asdict(self)


def inventory(catalog: Catalog, settings: Settings) -> list[Entry]:
    """All usable rows by name, with the state of their images and environments."""
    engine, _ = Engine.diagnose(settings.engine)
    images = None
    if engine is not None:
        images = ImageBuilder(engine, base_image.at_hand(engine, settings))
    return [entry_of(row, settings, images) for row in catalog.baselines()]


def entry_of(row: Baseline, settings: Settings, images: ImageFinder | None) -> Entry:
    """One row; ``images`` is absent where no engine answers."""
    return Entry(
        name=row.name,
        family=row.family,
        summary=row.summary,
        update_semantics=row.update_semantics,
        needs=row.needs,
        reset=row.reset,
        torch=row.build.torch,
        runs_model_output=row.runs_model_output,
        options=dict(row.options),
        option_help={name: doc.help for name, doc in row.option_docs.items()},
        aliases=row.aliases,
        version=row.version,
        licence=row.licence,
        paper=row.paper,
        caution=row.caution,
        image=_image_state(row, images),
        venv=_venv_state(row, settings),
    )


def _image_state(row: Baseline, images: ImageFinder | None) -> str:
    if row.host_side:
        return HOST
    if images is None:
        return NO_ENGINE
    try:
        return BUILT if images.current(row) else NOT_BUILT
    except MemrigError as error:
        return _why(error)


def _venv_state(row: Baseline, settings: Settings) -> str:
    if row.host_side:
        return HOST
    try:
        return BUILT if venv.current(row, settings) else NOT_BUILT
    except MemrigError as error:
        return _why(error)


def _why(error: MemrigError) -> str:
    """A lock or a setting that is wrong is one row's trouble, not the list's."""
    return f"cannot be built: {str(error).splitlines()[0]}"
