"""The fault adapter as a box: its image, its launchers, and how to give it a command."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.outcomes import SandboxFailure
from harness.sandbox.base import BoxRequest, Limits, ModelCall
from harness.sandbox.box import PipedBox
from harness.sandbox.client import MemoryClient
from harness.sandbox.container import ContainerLauncher
from harness.sandbox.process import ProcessLauncher
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FAULT = Path(__file__).parent / "boxes" / "fault"
BASE_IMAGE = Settings.load().base_image
ADAPTER = "adapter:FaultAdapter"

#: Small enough to be reached in a test, large enough for Python.
LIMITS = Limits(memory_mb=256, cpus=1, pids=160, disk_mb=40, start_s=60, call_s=60)

DOCKERFILE = f"""FROM {BASE_IMAGE}
COPY box/ /opt/memrig/
RUN mkdir -p /state && chown 10001:10001 /state
ENV PYTHONPATH=/opt/memrig:/opt/memrig/baseline PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /state
CMD ["python3", "-m", "harness.adapter.serve"]
"""


def fault_context() -> bytes:
    """The context of the test image as a tar that is the same for the same files."""
    files = {"Dockerfile": DOCKERFILE.encode(), "box/harness/__init__.py": b""}
    for path in sorted((ROOT / "harness" / "adapter").glob("*.py")):
        files[f"box/harness/adapter/{path.name}"] = path.read_bytes()
    for path in sorted(FAULT.glob("*.py")):
        files[f"box/baseline/{path.name}"] = path.read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@dataclass
class Boxes:
    """Starts boxes of one kind and closes what a test leaves open."""

    kind: str
    make: Callable[[Limits], ContainerLauncher | ProcessLauncher]
    log_dir: Path
    opened: list[PipedBox]

    def start(
        self, limits: Limits = LIMITS, model_call: ModelCall | None = None, sample: str = "s0001"
    ) -> PipedBox:
        request = BoxRequest(sample, seed=7, options={}, log_dir=self.log_dir)
        box = self.make(limits).start(request, model_call)
        self.opened.append(box)
        MemoryClient(box).reset()
        return box


def process_launcher(limits: Limits = LIMITS, adapter: str = ADAPTER) -> ProcessLauncher:
    env = {"PYTHONPATH": f"{ROOT}:{FAULT}"}
    return ProcessLauncher(
        [sys.executable, "-m", "harness.adapter.serve"], env, None, adapter, limits
    )


def ask(box: PipedBox, command: str, timeout_s: float | None = None) -> str:
    """Give the fault adapter a command; returns the text of its one item."""
    params = {"query": {"text": command}, "top_k": 5}
    value = box.call("retrieve", params, timeout_s=timeout_s).value
    return str(value["items"][0]["text"])


def failure(box: PipedBox, command: str, timeout_s: float | None = None) -> SandboxFailure:
    """The typed end that a command leads to."""
    with pytest.raises(SandboxFailure) as caught:
        ask(box, command, timeout_s)
    return caught.value
