"""``memrig new``: a folder for a new system that passes ``memrig check`` as it stands.

The files come from ``harness/templates/baseline``; ``$name``, ``$class_name`` and ``$folder`` are
filled in. Nothing outside the new folder is touched, and it appears whole or not at all.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path
from string import Template

from harness.baseline_file import NAME
from harness.catalog import Catalog
from harness.outcomes import UsageError
from harness.settings import ROOT

TEMPLATES = Path(__file__).resolve().parent / "templates" / "baseline"
MAX_NAME = 64


def new_baseline(name: str, parent: Path, catalog: Catalog) -> list[Path]:
    """Make ``parent/name`` from the template; returns its files.

    Raises:
        UsageError: a name that cannot be used or is taken (also by letters' case alone, since
            image tags have none), no such parent, or the folder is there already.
    """
    _require_good_name(name)
    _require_free(name, catalog)
    if not parent.is_dir():
        raise UsageError(f"{parent} is no folder; make it first, or give another --dir")
    target = parent / name
    if target.exists():
        raise UsageError(f"{target} is there already; nothing was changed")
    words = {"name": name, "class_name": class_name(name), "folder": _shell_path(target)}
    with tempfile.TemporaryDirectory(prefix=".memrig-new-", dir=parent) as scratch:
        made = Path(scratch) / name
        for source in sorted(TEMPLATES.rglob("*.tmpl")):
            path = made / source.relative_to(TEMPLATES).with_suffix("")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = Template(source.read_text(encoding="utf-8")).substitute(words)
            path.write_text(text, encoding="utf-8")
        made.rename(target)
    return sorted(path for path in target.rglob("*") if path.is_file())


def _shell_path(folder: Path) -> str:
    """The folder as one types it in memrig's own folder."""
    folder = folder.resolve()
    inside = folder.is_relative_to(ROOT)
    return shlex.quote(str(folder.relative_to(ROOT) if inside else folder))


def class_name(name: str) -> str:
    """``My-System.2`` -> ``MySystem2Adapter``."""
    parts = re.split(r"[-_.]", name)
    return "".join(part[:1].upper() + part[1:] for part in parts) + "Adapter"


def _require_good_name(name: str) -> None:
    if not NAME.match(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"{name!r} cannot be a name: letters and digits, parted by single - _ or ., a letter "
            f"first, at most {MAX_NAME}"
        )


def _require_free(name: str, catalog: Catalog) -> None:
    taken = {row.name: row.name for row in catalog.baselines()}
    taken |= {row.family: row.family for row in catalog.baselines()}
    taken |= {broken.name: broken.name for broken in catalog.broken()}
    taken |= catalog.aliases()
    for other, owner in taken.items():
        if other.casefold() == name.casefold():
            means = "" if other == owner else f", which means {owner}"
            raise UsageError(f"the name {other!r} is taken{means}; names never change owner")
