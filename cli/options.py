"""Flags that several verbs share, as frozen groups, and the decorator that makes them flags.

A verb takes a group as one argument::

    @flattened
    def run(baseline: ..., common: RunOptions, build: BuildOptions) -> None: ...

and Typer sees one flag for each field.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from harness.config import EvalConfig
    from harness.settings import Settings

WHAT = "What is run"
HOW = "How it is run"
BUILD = "How boxes are built"


class Sandbox(StrEnum):
    """Where a system runs."""

    AUTO = "auto"
    CONTAINER = "container"
    VENV = "venv"


class Images(StrEnum):
    """What a box is given of an image."""

    CAPTION = "caption"
    FILE = "file"
    BOTH = "both"


@dataclass(frozen=True)
class RunOptions:
    """What ``run`` and ``bench`` have in common."""

    smoke: Annotated[
        bool, typer.Option("--smoke", help="The first sample only.", rich_help_panel=WHAT)
    ] = False
    samples: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these samples: ids, repeated or with commas between.",
            metavar="ID",
            rich_help_panel=WHAT,
        ),
    ] = None
    max_sessions: Annotated[
        int | None,
        typer.Option(
            help="At most this many sessions of a sample.", min=1, metavar="N", rich_help_panel=WHAT
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            help="The i-th of n parts of the samples; `memrig merge` joins them.",
            metavar="i/n",
            rich_help_panel=WHAT,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the plan and check it; run nothing.", rich_help_panel=WHAT
        ),
    ] = False
    eval_only: Annotated[
        bool,
        typer.Option(
            "--eval-only",
            help="Judge and aggregate what --output-dir holds; no system is started.",
            rich_help_panel=WHAT,
        ),
    ] = False
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="An option of the system, repeated for more (`memrig list` shows them).",
            metavar="KEY=VALUE",
            rich_help_panel=WHAT,
        ),
    ] = None
    top_k: Annotated[
        int,
        typer.Option(
            help="Memories that a question is answered from.",
            min=1,
            metavar="K",
            rich_help_panel=HOW,
        ),
    ] = 5
    images: Annotated[
        Images, typer.Option(help="What a system is given of an image.", rich_help_panel=HOW)
    ] = Images.CAPTION
    seed: Annotated[int, typer.Option(help="Seeds every box.", rich_help_panel=HOW)] = 0
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            help="Samples at a time, each in its own box.",
            min=1,
            rich_help_panel=HOW,
        ),
    ] = 1
    max_eval_workers: Annotated[
        int, typer.Option(help="Judgements at a time.", min=1, metavar="N", rich_help_panel=HOW)
    ] = 5
    sandbox: Annotated[
        Sandbox,
        typer.Option(
            help="auto is a container where an engine can make one, else a venv.",
            rich_help_panel=HOW,
        ),
    ] = Sandbox.AUTO
    baselines: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder with more systems; repeat for more.", metavar="DIR", rich_help_panel=HOW
        ),
    ] = None
    strict_data: Annotated[
        bool,
        typer.Option(
            "--strict-data", help="Refuse data that load with a warning.", rich_help_panel=HOW
        ),
    ] = False
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Let a system that runs model output run in a venv.",
            rich_help_panel=HOW,
        ),
    ] = False

    def config(self, dataset: Path, baseline: str, output_dir: Path) -> EvalConfig:
        """The frozen configuration of one row.

        Raises:
            UsageError: a flag that cannot be read.
        """
        from harness.config import EvalConfig

        return EvalConfig(
            dataset=dataset,
            baseline=baseline,
            output_dir=output_dir,
            smoke=self.smoke,
            dry_run=self.dry_run,
            eval_only=self.eval_only,
            max_eval_workers=self.max_eval_workers,
            jobs=self.jobs,
            samples=tuple(part for given in self.samples or () for part in _split(given)),
            max_sessions=self.max_sessions,
            shard=parse_shard(self.shard) if self.shard else None,
            top_k=self.top_k,
            max_k=max(self.top_k, EvalConfig.max_k),
            seed=self.seed,
            sandbox=self.sandbox.value,
            images=self.images.value,
            options=parse_options(self.option or ()),
            baselines_dirs=tuple(self.baselines or ()),
            strict_data=self.strict_data,
            unsafe=self.unsafe,
        )


@dataclass(frozen=True)
class BuildOptions:
    """Closed networks: where a build takes its things from. Also MEMRIG_* and memrig.toml."""

    base_image: Annotated[
        str | None,
        typer.Option(help="Image that boxes are built on.", metavar="IMAGE", rich_help_panel=BUILD),
    ] = None
    package_index: Annotated[
        str | None,
        typer.Option(
            help="Package index, without credentials.", metavar="URL", rich_help_panel=BUILD
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            help="Certificate authorities to trust in builds.",
            metavar="PEM",
            rich_help_panel=BUILD,
        ),
    ] = None
    wheel_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of wheels, preferred over the index.",
            metavar="DIR",
            rich_help_panel=BUILD,
        ),
    ] = None
    build_network_host: Annotated[
        bool | None,
        typer.Option(
            "--build-network-host",
            help="Let builds use the host's network (stated in the manifest).",
            rich_help_panel=BUILD,
        ),
    ] = None

    def settings(self) -> Settings:
        """The settings that flags, environment and ``memrig.toml`` come to."""
        from harness.settings import Settings

        return Settings.load(dataclasses.asdict(self))


def _split(given: str) -> list[str]:
    return [part.strip() for part in given.split(",") if part.strip()]


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` -> (2, 4)."""
    from harness.outcomes import UsageError

    first, _, second = text.partition("/")
    if not (first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
        raise UsageError(f"--shard {text}: give it as i/n, for example 1/4")
    part, parts = int(first), int(second)
    if not 1 <= part <= parts:
        raise UsageError(f"--shard {text}: the part must be from 1 to {parts}")
    return part, parts


def parse_options(given: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """``["k=3"]`` -> ``{"k": "3"}``; the catalogue reads the text as the option's own type."""
    from harness.outcomes import UsageError

    options: dict[str, Any] = {}
    for entry in given:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--option {entry}: give it as KEY=VALUE, for example k1=1.2")
        if key.strip() in options:
            raise UsageError(f"--option {key.strip()} is given twice")
        options[key.strip()] = value
    return options


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """Turn every argument whose type is a group of this module into that group's flags."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            groups[name] = kind
            parameters += _flags_of(kind)
        else:
            parameters.append(
                parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    def verb(**given: Any) -> None:
        for name, kind in groups.items():
            taken = {field.name: given.pop(field.name) for field in dataclasses.fields(kind)}
            given[name] = kind(**taken)
        function(**given)

    verb.__name__, verb.__doc__ = function.__name__, function.__doc__
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return verb


def _flags_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]
