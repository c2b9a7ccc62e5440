"""An adapter that makes all the noise a library can, around calls to the real one.

``memrig check`` starts a box with it (options ``adapter`` and ``options`` name the real one): what
is printed by Python, by C or by a child process must not reach the pipe, and a child that reads its
standard input must not eat a message.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

from .contract import MemoryAdapter, Setup
from .records import (
    MemoryDeltaRecord,
    MemorySnapshotRecord,
    NormalizedTurn,
    Query,
    RetrievalRecord,
)

#: Looks like a reply: whoever takes noise for a message is found out.
FORGED = '{"jsonrpc":"2.0","id":1,"result":{"value":{"items":[]},"meta":{}}}'
_CHILD = "import sys; print(sys.argv[1], sys.stdin.read())"
_CHILD_SECONDS = 60


def make_noise() -> None:
    """Print from Python, from C, to the bare descriptor, and from a child that reads its input."""
    print(FORGED, flush=True)
    sys.__stdout__.write(FORGED + "\n")  # type: ignore[union-attr]
    os.write(1, (FORGED + "\n").encode("ascii"))
    libc = ctypes.CDLL(None)
    libc.puts(FORGED.encode("ascii"))
    libc.fflush(None)
    subprocess.run([sys.executable, "-S", "-c", _CHILD, FORGED], check=True, timeout=_CHILD_SECONDS)


class NoisyAdapter(MemoryAdapter):
    """Every method makes noise, then does what the real adapter does."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        module, _, name = str(setup.options["adapter"]).partition(":")
        inner_setup = Setup(
            seed=setup.seed,
            options=setup.options["options"],
            state_dir=setup.state_dir,
            model_url=setup.model_url,
            model_token=setup.model_token,
        )
        make_noise()
        self._inner: MemoryAdapter = getattr(importlib.import_module(module), name)(inner_setup)

    def reset(self) -> None:
        """Pass on."""
        make_noise()
        self._inner.setup = replace(self._inner.setup, seed=self.setup.seed)
        self._inner.reset()

    def ingest_turn(self, turn: NormalizedTurn) -> None:
        """Pass on."""
        print(FORGED, flush=True)
        self._inner.ingest_turn(turn)

    def end_session(self, session_id: str) -> None:
        """Pass on."""
        make_noise()
        self._inner.end_session(session_id)

    def snapshot_memories(self) -> list[MemorySnapshotRecord]:
        """Pass on."""
        make_noise()
        return self._inner.snapshot_memories()

    def export_memory_delta(self, session_id: str) -> list[MemoryDeltaRecord]:
        """Pass on."""
        make_noise()
        return self._inner.export_memory_delta(session_id)

    def retrieve(self, query: Query, top_k: int) -> RetrievalRecord:
        """Pass on."""
        make_noise()
        return self._inner.retrieve(query, top_k)

    def get_capabilities(self) -> dict[str, Any]:
        """Pass on."""
        return self._inner.get_capabilities()

    def forget_difference(self) -> None:
        """Pass on."""
        self._inner.forget_difference()
