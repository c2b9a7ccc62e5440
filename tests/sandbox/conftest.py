"""Boxes that misbehave on request, in each kind of sandbox."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faultbox import ADAPTER, BASE_IMAGE, Boxes, fault_context, process_launcher

from harness.sandbox.base import Limits
from harness.sandbox.container import ContainerLauncher
from harness.sandbox.engine import Engine
from harness.sandbox.process import ProcessLauncher


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine; tests that use it carry ``@pytest.mark.docker``."""
    found, reasons = Engine.diagnose()
    if found is None:
        pytest.skip(f"no container engine answers: {'; '.join(reasons)}")
    with found:
        yield found


@pytest.fixture(scope="session")
def fault_image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of the fault adapter, built once for one content."""
    context = fault_context()
    tag = f"memrig-test-fault:{hashlib.sha256(context).hexdigest()[:12]}"
    if engine.inspect_image(BASE_IMAGE) is None:
        pytest.fail(f"the base image {BASE_IMAGE} is not there; set MEMRIG_BASE_IMAGE")
    if engine.inspect_image(tag) is None:
        log = tmp_path_factory.mktemp("build") / "build.log"
        labels = {"memrig.kind": "test"}
        engine.build(io.BytesIO(context), tag=tag, labels=labels, build_args={}, log=log)
    return tag


@pytest.fixture(params=["process", pytest.param("container", marks=pytest.mark.docker)])
def boxes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Boxes]:
    """Process boxes and container boxes in turn; none may be left over."""
    make: Callable[[Limits], ContainerLauncher | ProcessLauncher] = process_launcher
    engine: Engine | None = None
    if request.param == "container":
        image = request.getfixturevalue("fault_image")
        engine = request.getfixturevalue("engine")
        assert engine is not None
        labels = {"memrig.run": str(tmp_path), "memrig.baseline": "Fault"}
        sealed = engine

        def make(limits: Limits) -> ContainerLauncher:
            return ContainerLauncher(image, ADAPTER, limits, sealed, labels)

    made = Boxes(request.param, make, tmp_path / "logs", [])
    yield made
    for box in made.opened:
        box.close()
    if engine is not None:
        assert engine.list_boxes({"memrig.run": str(tmp_path)}) == []


@pytest.fixture
def container(fault_image: str, engine: Engine, tmp_path: Path) -> Iterator[Boxes]:
    """Container boxes only; the test carries ``@pytest.mark.docker``."""
    labels = {"memrig.run": str(tmp_path), "memrig.baseline": "Fault"}

    def make(limits: Limits) -> ContainerLauncher:
        return ContainerLauncher(fault_image, ADAPTER, limits, engine, labels)

    made = Boxes("container", make, tmp_path / "logs", [])
    yield made
    for box in made.opened:
        box.close()
    assert engine.list_boxes({"memrig.run": str(tmp_path)}) == []
