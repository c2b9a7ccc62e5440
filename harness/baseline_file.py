"""``baseline.yaml``: every field of it, documented here and nowhere else.

The models are pydantic because this is a file boundary; :mod:`harness.catalog` turns them into
frozen dataclasses. An unknown field is an error that names the file and the line.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness.outcomes import DataError, Problem
from harness.strict_yaml import load, problems_of

#: A row's name: what a person types after ``BASELINE=`` and what an image tag is made from.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*\Z")
_ADAPTER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]+\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|unknown)\Z")

Scalar = str | int | float | bool | None | list[Any] | dict[str, Any]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*$", max_length=64)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OptionSpec(_Part):
    """One knob of a baseline."""

    default: Scalar = Field(description="its value when nobody says otherwise")
    help: str = Field(description="what it does, in one line")
    choices: list[Scalar] | None = Field(None, description="the only legal values")
    effect: str | None = Field(
        None, description="what changes when it is turned: traffic, results or state"
    )
    example: Scalar = Field(
        None, description="another legal value; the knob test of `memrig check` turns to it"
    )

    @model_validator(mode="after")
    def _default_is_a_choice(self) -> OptionSpec:
        if self.choices is not None and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is not one of the choices")
        return self


class VariantSpec(_Part):
    """One row of a folder that holds several."""

    options: dict[str, Scalar] = Field(
        default_factory=dict, description="option values that differ from the defaults"
    )
    summary: str | None = Field(None, description="one line, shown by `memrig list`")


class LimitSpec(_Part):
    """Hard limits of a box; what is absent keeps memrig's default (harness.sandbox.base)."""

    memory_mb: int | None = Field(None, ge=32, description="memory, MiB, swap included")
    cpus: float | None = Field(None, gt=0, description="cores")
    pids: int | None = Field(None, ge=8, description="processes and threads")
    disk_mb: int | None = Field(None, ge=1, description="/state, MiB")
    start_s: float | None = Field(None, gt=0, description="seconds until the box says hello")
    call_s: float | None = Field(None, gt=0, description="seconds for one adapter call")
    shm_mb: int | None = Field(
        None,
        ge=0,
        description="a container's /dev/shm, MiB of its memory; 0, the default, is none at all. "
        "Needed by shared memory and by locks of Python's multiprocessing",
    )


class BuildSpec(_Part):
    """How the image or environment is made."""

    torch: Literal["none", "cpu"] = Field(
        "none",
        description="cpu: a shared layer holds the CPU build of PyTorch; the lock leaves torch out",
    )
    sdist_allowed: list[str] = Field(
        default_factory=list, description="packages that may be built from source"
    )
    apt: list[str] = Field(default_factory=list, description="Debian packages for the image")

    @field_validator("apt")
    @classmethod
    def _debian_names(cls, names: list[str]) -> list[str]:
        for name in names:
            if not _DEBIAN.match(name):
                raise ValueError(f"{name!r} is not the name of a Debian package")
        return names

    @field_validator("sdist_allowed")
    @classmethod
    def _package_names(cls, names: list[str]) -> list[str]:
        for name in names:
            if not NAME.match(name):
                raise ValueError(f"{name!r} is not the name of a package")
        return names


class SourceSpec(_Part):
    """Code that no package registry has, pinned by commit and fetched by the host's own git."""

    repository: str = Field(description="what `git fetch` takes", min_length=1)
    commit: str = Field(description="40 hex digits, or `unknown` until the first fetch records it")
    paths: list[str] = Field(min_length=1, description="files and folders of it that are needed")
    python_path: list[str] = Field(
        default_factory=list, description="folders of it that the box imports from"
    )

    @field_validator("repository")
    @classmethod
    def _no_option(cls, repository: str) -> str:
        if repository.startswith("-"):
            raise ValueError("must not begin with '-'")
        return repository

    @field_validator("commit")
    @classmethod
    def _whole_commit(cls, commit: str) -> str:
        if not _COMMIT.match(commit):
            raise ValueError("must be 40 lower-case hex digits, or `unknown`")
        return commit

    @field_validator("paths", "python_path")
    @classmethod
    def _inside(cls, paths: list[str]) -> list[str]:
        for path in paths:
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or path.startswith(("-", ":")):
                raise ValueError(f"{path!r} must be a path inside the repository")
        return paths


class BaselineFile(_Part):
    """A whole ``baseline.yaml``."""

    name: Name = Field(description="the folder's own name")
    row: str | None = Field(None, description="the name printed in tables, if another")
    summary: str = Field(description="one line, shown by `memrig list`")
    adapter: str = Field("adapter:Adapter", description="module:Class of the adapter")
    version: str = Field("1", description="version of this folder; printed in the manifest")
    paper: str | None = Field(None, description="where the system is described")
    licence: str = Field("unknown", description="of the system under test (SPDX where it has one)")
    homepage: str | None = Field(None, description="of the system under test")
    update_semantics: str = Field(
        "append_only", description="what the system does with a changed fact"
    )
    reset: Literal["container", "object"] = Field(
        "container",
        description="a fresh box for each sample, or (if `memrig check` proves it) a fresh object",
    )
    options: dict[str, OptionSpec] = Field(default_factory=dict, description="its knobs")
    variants: dict[Name, VariantSpec] = Field(
        default_factory=dict,
        description="rows of this folder, by full name; none: the folder is it",
    )
    aliases: dict[Name, Name] = Field(
        default_factory=dict, description="short name -> full name; never changes its target"
    )
    limits: LimitSpec = Field(
        default_factory=lambda: LimitSpec.model_validate({}), description="hard limits of the box"
    )
    build: BuildSpec = Field(
        default_factory=lambda: BuildSpec.model_validate({}), description="how the image is made"
    )
    sources: list[SourceSpec] = Field(default_factory=list, description="code pinned by commit")
    needs: list[str] = Field(
        default_factory=list, description="models it cannot do without: chat, embeddings, vision"
    )
    clock: Literal["real", "session"] = Field(
        "real",
        description="session: the box's Python clock is at the turn's or question's own time; "
        "needs time-machine>=3 in requirements.lock",
    )
    runs_model_output: bool = Field(
        False, description="it executes text that a model wrote; a venv box then needs --unsafe"
    )
    caution: str = Field(
        "", description="one line that is said before each run, if its numbers are easily misread"
    )
    notes: str = Field("", description="what a reader of its numbers should know")

    @field_validator("adapter")
    @classmethod
    def _module_and_class(cls, adapter: str) -> str:
        if not _ADAPTER.match(adapter):
            raise ValueError("must be module:Class")
        return adapter

    @model_validator(mode="after")
    def _names_agree(self) -> BaselineFile:
        for full, variant in self.variants.items():
            if not full.startswith(f"{self.name}-"):
                raise ValueError(f"the variant {full!r} must be called {self.name}-...")
            for option, value in variant.options.items():
                if option not in self.options:
                    raise ValueError(f"variant {full}: {option!r} is not among the options")
                check_choice(f"variant {full}: {option}", value, self.options[option].choices)
        rows = set(self.variants) or {self.name}
        for short, full in self.aliases.items():
            if full not in rows:
                raise ValueError(f"the alias {short!r} points at {full!r}, which is no row here")
            if short in rows or short == self.name:
                raise ValueError(f"the alias {short!r} is a name of its own")
        return self


def check_choice(what: str, value: Any, choices: list[Any] | None) -> None:
    """Raise ``ValueError`` when there are choices and the value is none of them."""
    if choices is not None and value not in choices:
        raise ValueError(f"{what} = {value!r} is not one of {', '.join(map(repr, choices))}")


def read(folder: Path) -> BaselineFile:
    """Read ``folder/baseline.yaml``.

    Raises:
        DataError: every problem in it, with file and line.
    """
    path = folder / "baseline.yaml"
    value, lines = load(path)
    if not isinstance(value, dict):
        raise DataError([Problem("must be a mapping of fields", str(path), 1)])
    fields = {name: info.description or "" for name, info in BaselineFile.model_fields.items()}
    try:
        file = BaselineFile.model_validate(value)
    except ValidationError as error:
        raise DataError(problems_of(error, path, lines, fields)) from None
    if file.name != folder.name:
        raise DataError(
            [Problem(f"name is {file.name!r} but the folder is {folder.name!r}", str(path))]
        )
    return file
