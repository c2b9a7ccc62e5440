"""Which base image this engine has: the one that is set, or the one that ``make engine`` made.

A base image that somebody named is never replaced by another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from harness.outcomes import EngineError
from harness.settings import LOCAL_BASE_IMAGE, Settings


class Images(Protocol):
    """What is asked of :class:`harness.sandbox.engine.Engine`."""

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """The image's facts, or ``None`` where there is no such image."""

    def pull(self, reference: str) -> None:
        """Fetch an image; raises :class:`EngineError`."""


def at_hand(engine: Images, settings: Settings) -> Settings:
    """The settings with the base image that would be used if nothing can be pulled."""
    if _is_named(settings) or engine.inspect_image(settings.base_image) is not None:
        return settings
    return _local(settings) if engine.inspect_image(LOCAL_BASE_IMAGE) is not None else settings


def settled(engine: Images, settings: Settings, say: Callable[[str], None]) -> Settings | None:
    """The settings with a base image that is there, pulled if need be; ``None``: there is none.

    A named one that cannot be had is returned as it is: its build fails and says why.
    """
    name = settings.base_image
    if _is_named(settings) or engine.inspect_image(name) is not None:
        return settings
    say(f"pulling the base image {name}")
    try:
        engine.pull(name)
    except EngineError:
        if engine.inspect_image(LOCAL_BASE_IMAGE) is None:
            return None
        say(
            f"{name} cannot be pulled; boxes are built on {LOCAL_BASE_IMAGE}, made by `make engine`"
        )
        return _local(settings)
    return settings


def _is_named(settings: Settings) -> bool:
    return "base_image" in settings.origins


def _local(settings: Settings) -> Settings:
    origins = {**settings.origins, "base_image": "found on the engine"}
    return replace(settings, base_image=LOCAL_BASE_IMAGE, origins=origins)
