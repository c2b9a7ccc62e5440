"""The catalogue: which baselines there are, by folder, and what a typed name stands for.

A folder name never changes owner and an alias never changes its target, so two folders that claim
one name are an error, not an override. A broken folder does not hinder the others: it is listed as
broken, and asking for it raises :class:`DataError` with the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from harness.baseline_file import BaselineFile, OptionSpec, check_choice, read
from harness.outcomes import DataError, Problem, UnknownName, UsageError
from harness.sandbox.base import Limits

#: The baselines that ship with memrig (it is used from a checkout).
SHIPPED = Path(__file__).resolve().parent.parent / "baselines"


@dataclass(frozen=True)
class OptionDoc:
    """A knob: its ``default``, one line of ``help``, legal ``choices``, what it changes."""

    default: Any
    help: str
    choices: tuple[Any, ...] | None = None
    effect: str | None = None
    example: Any = None


@dataclass(frozen=True)
class Build:
    """How a box's software is made; see :class:`harness.baseline_file.BuildSpec`."""

    torch: Literal["none", "cpu"] = "none"
    sdist_allowed: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A repository pinned by commit; see :class:`harness.baseline_file.SourceSpec`."""

    repository: str
    commit: str
    paths: tuple[str, ...]
    python_path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """One row: a folder, or one of its variants, with its options merged.

    ``name`` is the full name, ``family`` the folder's, ``row`` the printed one. ``alias_of`` is
    what the user typed when that was an alias, else ``None``. Host-side rows (``host_side``) have
    no folder and no box: the pipeline makes them from gold.
    """

    name: str
    family: str
    row: str
    summary: str
    folder: Path | None
    adapter: str = "adapter:Adapter"
    version: str = "1"
    alias_of: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    option_docs: dict[str, OptionDoc] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    reset: Literal["container", "object"] = "container"
    build: Build = Build()
    sources: tuple[Source, ...] = ()
    needs: tuple[str, ...] = ()
    update_semantics: str = "append_only"
    runs_model_output: bool = False
    clock: Literal["real", "session"] = "real"
    aliases: tuple[str, ...] = ()
    caution: str = ""
    notes: str = ""
    paper: str | None = None
    licence: str = "unknown"
    homepage: str | None = None
    host_side: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its boxes get beside those that every box gets."""
        return {"MEMRIG_CLOCK": self.clock} if self.clock != "real" else {}

    @property
    def home(self) -> Path:
        """The folder; a row without one is a usage error here."""
        if self.folder is None:
            raise UsageError(f"{self.name} is made on the host: it has no folder, box or image")
        return self.folder

    def with_options(self, given: Mapping[str, Any]) -> Baseline:
        """Return this row with some options turned. Text is read as the default's type.

        Raises:
            UnknownName: no such option. UsageError: a value that it cannot take.
        """
        merged = dict(self.options)
        for name, value in given.items():
            if name not in self.option_docs:
                raise UnknownName(f"option of {self.name}", name, self.option_docs)
            doc = self.option_docs[name]
            try:
                merged[name] = _as_type_of(doc.default, value)
                check_choice(name, merged[name], list(doc.choices) if doc.choices else None)
            except ValueError as error:
                raise UsageError(f"{self.name}: {error}") from None
        return replace(self, options=merged)


#: Rows that need gold, so they are made on the host, without a box or an adapter.
HOST_SIDE = (
    Baseline(
        name="Oracle",
        family="Oracle",
        row="Oracle",
        summary="Reads the gold evidence: the ceiling of the answerer (host side, not a system).",
        folder=None,
        host_side=True,
        update_semantics="gold",
        notes="Upper reference row: memories and retrieval come from the gold annotations.",
    ),
    Baseline(
        name="ConstantFloor",
        family="ConstantFloor",
        row="ConstantFloor",
        summary="Gives every question the same answer: the floor (host side, not a system).",
        folder=None,
        host_side=True,
        update_semantics="none",
        notes="Lower reference row: the best constant answer, no memory.",
    ),
)


_MODEL = "needs a language model; not in this version of memrig"
_GALLERY = "Mem-Gallery's fork; not in this version of memrig"

#: Systems that people ask for by these names and that are not here yet, and why.
PLANNED: dict[str, str] = {
    **dict.fromkeys(
        ("Mem0", "Mem0-1", "Mem0-2", "Mem0-Graph", "Zep", "Graphiti", "A-Mem", "AMem"), _MODEL
    ),
    **dict.fromkeys(("MemoryOS", "SimpleMem", "Letta", "LangMem"), _MODEL),
    **dict.fromkeys(
        ("Zep-Cloud", "Mem0-Platform"), "a paid service; not in this version of memrig"
    ),
    **{
        short: f"{_GALLERY} (upstream's own engine is here as MemEngine-{short})"
        for short in ("LTMemory", "STMemory", "FUMemory")
    },
    "MemGallery": _GALLERY,
}


@dataclass(frozen=True)
class Broken:
    """A folder that cannot be used, and why."""

    name: str
    folder: Path
    problems: tuple[Problem, ...]

    def error(self) -> DataError:
        """The error for whoever asks for it."""
        return DataError(self.problems)


class Catalog:
    """All baselines of memrig's own folder and of extra ones (``--baselines DIR``).

    An extra folder may hold baselines or be one itself.

    Raises:
        UsageError: an extra folder that is not there.
    """

    def __init__(self, dirs: Iterable[Path] = (), *, shipped: Path | None = SHIPPED) -> None:
        self._rows: dict[str, Baseline] = {row.name: row for row in HOST_SIDE}
        self._families: dict[str, list[str]] = {}
        self._aliases: dict[str, str] = {}
        self._broken: dict[str, Broken] = {}
        for folder in _folders(shipped, dirs):
            self._add(folder)

    def spelled(self, name: str) -> str:
        """A name as it is written here: letters' case is forgiven where just one name is meant."""
        known = {*self._rows, *self._aliases, *self._families, *self._broken}
        near = [other for other in known if other.casefold() == name.casefold()]
        return near[0] if name not in known and len(near) == 1 else name

    def get(self, name: str) -> Baseline:
        """Resolve a full name or an alias, whatever its letters' case.

        Raises:
            UnknownName: with the nearest names. DataError: the folder is broken.
            UsageError: a system that is not in this version.
        """
        name = self.spelled(name)
        if name in self._broken:
            raise self._broken[name].error()
        full = self._aliases.get(name, name)
        if full in self._rows:
            return replace(self._rows[full], alias_of=name if full != name else None)
        if name in self._families:
            rows = ", ".join(self._families[name])
            raise UsageError(f"{name!r} holds several baselines; name one of them: {rows}")
        for planned, why in PLANNED.items():
            if planned.casefold() == name.casefold():
                raise UsageError(f"{planned}: {why}. `memrig list` shows what there is")
        known = [*self._rows, *self._aliases, *self._broken]
        raise UnknownName("baseline", name, known)

    def expand(self, name: str) -> list[Baseline]:
        """Like :meth:`get`, but the name of a folder with variants stands for all of them."""
        name = self.spelled(name)
        if name in self._families and name not in self._rows and name not in self._broken:
            return [self._rows[row] for row in self._families[name]]
        return [self.get(name)]

    def names(self) -> list[str]:
        """Full names of all usable rows, in order."""
        return sorted(self._rows)

    def aliases(self) -> dict[str, str]:
        """Short name -> full name."""
        return dict(sorted(self._aliases.items()))

    def baselines(self) -> list[Baseline]:
        """All usable rows, host-side ones included, by name."""
        return [self._rows[name] for name in self.names()]

    def broken(self) -> list[Broken]:
        """Folders that cannot be used, by name."""
        return [self._broken[name] for name in sorted(self._broken)]

    def _add(self, folder: Path) -> None:
        try:
            file = read(folder)
        except DataError as error:
            self._break(folder.name, folder, error.problems)
            return
        rows = rows_of(file, folder)
        claimed = {file.name, *(row.name for row in rows), *file.aliases}
        clashes = [self._clash(name, folder) for name in sorted(claimed) if self._owned(name)]
        if clashes:
            self._break(folder.name, folder, clashes)
            return
        self._families[file.name] = [row.name for row in rows]
        self._rows.update((row.name, row) for row in rows)
        self._aliases.update(file.aliases)

    def _owned(self, name: str) -> bool:
        return any(name in names for names in (self._rows, self._aliases, self._families))

    def _clash(self, name: str, folder: Path) -> Problem:
        owner = self._rows.get(self._aliases.get(name, name))
        where = owner.folder if owner and owner.folder else "memrig itself"
        return Problem(f"the name {name!r} belongs to {where}", str(folder / "baseline.yaml"))

    def _break(self, name: str, folder: Path, problems: Iterable[Problem]) -> None:
        before = self._broken[name].problems if name in self._broken else ()
        self._broken[name] = Broken(name, folder, (*before, *problems))


def _folders(shipped: Path | None, dirs: Iterable[Path]) -> list[Path]:
    """The baseline folders, each once, in a fixed order: memrig's own first."""
    found: list[Path] = []
    if shipped is not None and shipped.is_dir():
        found += _inside(shipped)
    for extra in dirs:
        if not extra.is_dir():
            raise UsageError(f"--baselines {extra}: there is no such folder")
        resolved = extra.resolve()
        found += [resolved] if (resolved / "baseline.yaml").exists() else _inside(resolved)
    return list(dict.fromkeys(found))


def _inside(parent: Path) -> list[Path]:
    """Folders in ``parent`` that are or try to be a baseline (an adapter without its yaml)."""
    return [
        folder.resolve()
        for folder in sorted(parent.iterdir())
        if folder.is_dir()
        and not folder.name.startswith((".", "_"))
        and ((folder / "baseline.yaml").exists() or (folder / "adapter.py").exists())
    ]


def rows_of(file: BaselineFile, folder: Path) -> list[Baseline]:
    """The rows that one ``baseline.yaml`` stands for: its variants, or the folder itself."""
    docs = {name: _doc(spec) for name, spec in file.options.items()}
    defaults = {name: doc.default for name, doc in docs.items()}
    set_limits = {
        entry.name: getattr(file.limits, entry.name)
        for entry in fields(Limits)
        if getattr(file.limits, entry.name) is not None
    }
    base = Baseline(
        name=file.name,
        family=file.name,
        row=file.row or file.name,
        summary=file.summary,
        folder=folder,
        adapter=file.adapter,
        version=file.version,
        options=defaults,
        option_docs=docs,
        limits=Limits(**set_limits),
        reset=file.reset,
        build=Build(
            file.build.torch, tuple(file.build.sdist_allowed), tuple(sorted(set(file.build.apt)))
        ),
        sources=tuple(
            Source(s.repository, s.commit, tuple(s.paths), tuple(s.python_path))
            for s in file.sources
        ),
        needs=tuple(file.needs),
        update_semantics=file.update_semantics,
        runs_model_output=file.runs_model_output,
        clock=file.clock,
        aliases=_shorts(file, file.name),
        caution=file.caution,
        notes=file.notes,
        paper=file.paper,
        licence=file.licence,
        homepage=file.homepage,
    )
    return [
        replace(
            base,
            name=full,
            row=full,
            summary=variant.summary or base.summary,
            options={**defaults, **variant.options},
            aliases=_shorts(file, full),
        )
        for full, variant in file.variants.items()
    ] or [base]


def _shorts(file: BaselineFile, full: str) -> tuple[str, ...]:
    return tuple(sorted(short for short, target in file.aliases.items() if target == full))


def _doc(spec: OptionSpec) -> OptionDoc:
    choices = tuple(spec.choices) if spec.choices is not None else None
    return OptionDoc(spec.default, spec.help, choices, spec.effect, spec.example)


def _as_type_of(default: Any, value: Any) -> Any:
    """Read a command-line text as the default's type; other values pass when the type fits."""
    if isinstance(value, str) and not isinstance(default, str):
        try:
            value = json.loads(value)
        except ValueError:
            if default is not None:
                raise ValueError(
                    f"{value!r} is not a {type(default).__name__}, as the default {default!r} is"
                ) from None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if default is not None and type(value) is not type(default):
        raise ValueError(f"{value!r} is not a {type(default).__name__}")
    return value
