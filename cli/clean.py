"""`memrig clean`: remove what memrig made and no live run owns. Runs' records are never touched."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.sandbox.engine import Engine
    from harness.settings import Settings


@dataclass(frozen=True)
class Item:
    """Something that can be removed: what it is, in words, and how."""

    what: str
    remove: Callable[[], object]


def clean(
    images: Annotated[
        bool, typer.Option("--images", help="Also images that no system would start any more.")
    ] = False,
    venvs: Annotated[
        bool, typer.Option("--venvs", help="Also virtual environments that no process uses.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also every image and environment; they are built anew.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove containers and volumes that no live run owns, and more if you say so.

    Things are found by memrig's own labels and folder; nobody else's are touched. Runs stay.

    Examples:
      memrig clean
      memrig clean --images --venvs
      memrig clean --all --yes
    """
    from harness.sandbox.engine import Engine
    from harness.settings import Settings

    settings = Settings.load()
    engine, reasons = Engine.diagnose(settings.engine)
    items: list[Item] = []
    if engine is not None:
        items += stray_boxes(engine)
        if images or everything:
            items += image_items(engine, settings, every=everything)
    else:
        typer.echo(f"no engine answers ({'; '.join(reasons) or 'none found'})", err=True)
    if venvs or everything:
        items += environments(settings)
    if remove_all(items, yes=yes) and engine is not None:
        engine.reap()  # also volumes that lost their container


def remove_all(items: list[Item], *, yes: bool) -> bool:
    """Show, ask, remove; whether it was done."""
    if not items:
        typer.echo("nothing to remove")
        return True
    for item in items:
        typer.echo(item.what)
    if not yes and not _confirmed(len(items)):
        return False
    failed = [item.what for item in items if not _removed(item)]
    if failed:
        raise typer.Exit(1)
    typer.echo(f"removed {len(items)}")
    return True


def _confirmed(count: int) -> bool:
    from harness.outcomes import UsageError

    if not sys.stdin.isatty():
        raise UsageError("nothing was removed: without a terminal, say --yes")
    return typer.confirm(f"remove {'this' if count == 1 else f'these {count}'}?")


def _removed(item: Item) -> bool:
    from harness.outcomes import MemrigError

    try:
        item.remove()
    except (MemrigError, OSError) as error:
        typer.echo(f"{item.what}: not removed: {error}", err=True)
        return False
    return True


def stray_boxes(engine: Engine) -> list[Item]:
    """Containers whose owner is gone."""
    return [
        Item(
            f"container {box.name} of {box.baseline or box.image} ({box.status})",
            _box(engine, box.id),
        )
        for box in engine.list_boxes()
        if box.orphan
    ]


def _box(engine: Engine, box: str) -> Callable[[], object]:
    return lambda: engine.remove(box)


def image_items(engine: Engine, settings: Settings, *, every: bool) -> list[Item]:
    """Old images, or all that memrig made."""
    from harness.catalog import Catalog
    from harness.sandbox.base_image import at_hand
    from harness.sandbox.image import ImageBuilder, old_images
    from harness.sandbox.recipe import KIND

    settings = at_hand(engine, settings)
    if every:
        found = engine.images({KIND: ""})
    elif engine.inspect_image(settings.base_image) is None:
        # Without it nobody can tell which images would be started now.
        typer.echo(f"no base image {settings.base_image}: images are left alone", err=True)
        found = []
    else:
        found = old_images(engine, ImageBuilder(engine, settings), Catalog().baselines())
    # Newest first, so that a layer goes after the images that stand on it.
    newest = sorted(found, key=lambda image: -int(image.get("Created") or 0))
    return [Item(_image_words(image), _image(engine, image)) for image in newest]


def _image_words(image: dict[str, Any]) -> str:
    tags = " ".join(image.get("RepoTags") or ()) or "untagged"
    return f"image {tags} ({int(image.get('Size') or 0) / 1e6:.0f} MB)"


def _image(engine: Engine, image: dict[str, Any]) -> Callable[[], object]:
    names = list(image.get("RepoTags") or ()) or [str(image["Id"])]

    def remove() -> None:
        for name in names:
            engine.remove_image(name)

    return remove


def environments(settings: Settings) -> list[Item]:
    """Virtual environments of systems, save those that a running process was started from."""
    home = settings.work_dir / "venvs"
    roots = sorted(path for path in home.glob("*") if path.is_dir()) if home.is_dir() else []
    busy = running_commands()
    return [
        Item(f"environment {root.name}", _folder(root))
        for root in roots
        if not any(str(root) in line for line in busy)
    ]


def _folder(root: Path) -> Callable[[], object]:
    return lambda: shutil.rmtree(root)


def running_commands() -> list[str]:
    """The command lines of all processes that can be seen, arguments joined with blanks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it ended meanwhile
    return found
