"""Which kind of sandbox a baseline gets here, and why, in one line."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from harness.catalog import Baseline
from harness.config import EvalConfig
from harness.outcomes import EngineError, UsageError
from harness.sandbox import base_image, ownership, venv
from harness.sandbox.base import Box, BoxRequest, ModelCall
from harness.sandbox.container import ContainerLauncher
from harness.sandbox.engine import Engine
from harness.sandbox.image import ImageBuilder
from harness.sandbox.venv import VenvLauncher, probe_network
from harness.settings import Settings

_NO_BASE = "has no base image {} and cannot pull it; `make engine` makes one"


def _silent(message: str) -> None:
    """Say nothing."""


class ImageLauncher:
    """Starts boxes of one baseline from its image, which :meth:`prepare` builds if it is missing.

    See :class:`harness.sandbox.base.Launcher`. ``note`` says in one line what kind of sandbox this
    is and why.
    """

    kind = "container"

    def __init__(
        self,
        baseline: Baseline,
        settings: Settings,
        engine: Engine,
        *,
        note: str = "",
        labels: Mapping[str, str] | None = None,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self.note = note
        self._baseline = baseline
        self._settings = settings
        self._engine = engine
        self._labels = {ownership.BASELINE: baseline.name, **(labels or {})}
        self._say = say
        self._container: ContainerLauncher | None = None
        # A launcher has no end of its own in the contract; its connections go when it goes.
        weakref.finalize(self, engine.close)

    def prepare(self) -> dict[str, Any]:
        """Build what is missing; returns the manifest's facts.

        Removes first what a killed memrig left: boxes whose owner is gone.
        """
        for box in self._engine.reap():
            self._say(f"removed {box.name}, left by a memrig that was killed")
        built = ImageBuilder(self._engine, self._settings, self._say).ensure(self._baseline)
        self._container = ContainerLauncher(
            image_id=built.image_id,
            adapter=self._baseline.adapter,
            limits=self._baseline.limits,
            engine=self._engine,
            labels=self._labels,
            env=self._baseline.environment,
            facts={**built.facts, "network": "none", "clock": self._baseline.clock},
        )
        return self._container.prepare()

    def start(self, request: BoxRequest, model_call: ModelCall | None = None) -> Box:
        """Start one box and wait for its hello."""
        if self._container is None:
            self.prepare()
        assert self._container is not None
        return self._container.start(request, model_call)


def make_launcher(
    baseline: Baseline,
    config: EvalConfig,
    settings: Settings,
    *,
    labels: Mapping[str, str] | None = None,
    say: Callable[[str], None] = _silent,
    find_engine: Callable[[str], tuple[Engine | None, list[str]]] = Engine.diagnose,
) -> ImageLauncher | VenvLauncher:
    """Choose the sandbox: a container where an engine can make one, else a venv (``auto``).

    An engine that answers and has no base image, nor can pull one, makes none.

    ``labels`` go onto every container (``memrig.run``). ``say`` is told in one line what takes
    long. The launcher's ``note`` is the line for the user. ``find_engine`` is given the name that
    is set and returns an engine that answers, or why each does not.

    Raises:
        UsageError: a row without a box, or one that must not run in a venv.
        EngineError: a container was asked for and no engine answers.
    """
    if baseline.host_side:
        raise UsageError(f"{baseline.name} is made on the host: it has no box")
    engine, cause = None, "as asked"
    reasons: list[str] = []
    if config.sandbox != "venv":
        engine, reasons = find_engine(settings.engine)
        cause = "no container engine answers; `memrig doctor` says why, `make engine` gets one"
    if engine is not None:
        based = base_image.settled(engine, settings, say)
        if based is not None or config.sandbox == "container":
            note = f"{baseline.name} runs in containers of {engine.name}"
            made = based or settings
            return ImageLauncher(baseline, made, engine, note=note, labels=labels, say=say)
        engine.close()
        cause = f"{engine.name} answers but {_NO_BASE.format(settings.base_image)}"
    elif config.sandbox == "container":
        raise EngineError(
            f"no container engine answers ({'; '.join(reasons) or 'there is none'}).\n"
            "  `memrig doctor` says what is wrong; `make engine` installs one on Debian; "
            "--sandbox venv does without"
        )
    if baseline.runs_model_output and not config.unsafe:
        raise UsageError(
            f"{baseline.name} executes text that a model wrote, and a venv does not keep it from "
            "your files. Run it in a container (`make engine`), or say --unsafe"
        )
    network = probe_network()
    reach = "without a network" if network.isolated else f"WITH the host's network ({network.note})"
    note = f"{baseline.name} runs in a venv, {reach}, files not isolated ({cause})"
    return VenvLauncher(baseline, settings, note=note, say=say)


def build_box(
    baseline: Baseline,
    settings: Settings,
    *,
    sandbox: str = "auto",
    no_cache: bool = False,
    say: Callable[[str], None] = _silent,
) -> str:
    """Build what a baseline's boxes are started from; returns one line about it.

    Raises:
        BuildError: with the path of the log. EngineError: an image was asked for, and no engine
            answers. UsageError: a row without a box.
    """
    started = time.monotonic()
    baseline.home  # noqa: B018  (a row without a folder is refused here)
    engine = None if sandbox == "venv" else Engine.detect(settings.engine)
    built = None
    if engine is not None:
        with engine:
            based = base_image.settled(engine, settings, say)
            if based is not None or sandbox == "container":
                builder = ImageBuilder(engine, based or settings, say)
                built = builder.ensure(baseline, no_cache=no_cache)
            else:
                say(f"a venv, because {engine.name} {_NO_BASE.format(settings.base_image)}")
    elif sandbox == "container":
        raise EngineError("no container engine answers; `memrig doctor` says what mends it")
    if built is not None:
        state = "built" if built.built else "unchanged"
        size = f"{built.size / 1e6:.0f} MB"
        return f"{baseline.family}  {built.tag}  {size}  {state}  {built.seconds:.1f} s"
    made = venv.ensure(baseline, settings, say, no_cache=no_cache)
    return f"{baseline.family}  {made.root}  venv  {time.monotonic() - started:.1f} s"
