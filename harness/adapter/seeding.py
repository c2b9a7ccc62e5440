"""Makes a box's random generators repeat: ``random``, numpy's global one, and ``uuid.uuid4``.

Done before the adapter is imported, because systems draw ids while they are imported. numpy is
not imported for it; it is seeded at the moment when somebody does. Generators that ask the
operating system (``secrets``, ``numpy.random.default_rng()`` without a seed) stay as they are.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import uuid
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def seed_of(seed: int, sample: str) -> int:
    """A sample's own seed: 31 bits drawn from the run's seed and the sample's ordinal."""
    digest = hashlib.sha256(f"{seed}/{sample}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class Generators:
    """Owns this process's generators from its creation on. Make one, and only in a box."""

    def __init__(self, seed: int) -> None:
        self._ids = random.Random()
        self._forks = 0
        self._seed = seed
        uuid.uuid4 = self._uuid4
        sys.meta_path.insert(0, _SeedNumpyWhenImported(self))
        os.register_at_fork(before=self._count_fork, after_in_child=self._after_fork)
        self.apply(seed, "start")

    def apply(self, seed: int, phase: str = "reset") -> None:
        """Start all generators anew.

        Ids drawn after a reset differ from those drawn before it (``phase``): what a system made
        while it started lives on beside what it makes later.
        """
        self._seed = seed
        random.seed(seed)
        self._ids.seed(f"uuid/{seed}/{phase}")
        self.seed_numpy(sys.modules.get("numpy.random"))

    def seed_numpy(self, numpy_random: Any) -> None:
        """Seed numpy's global generator, if numpy is there."""
        if numpy_random is not None and hasattr(numpy_random, "seed"):
            numpy_random.seed(self._seed)

    def _uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128), version=4)

    def _count_fork(self) -> None:
        self._forks += 1

    def _after_fork(self) -> None:
        """A forked worker draws other ids than its parent, and the same ones in every run."""
        self._ids.seed(f"uuid/{self._seed}/{self._forks}")


class _SeedNumpyWhenImported(importlib.abc.MetaPathFinder):
    """Stands before the normal finders and wraps the loader of ``numpy.random`` only."""

    def __init__(self, generators: Generators) -> None:
        self._generators = generators

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "numpy.random":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _SeedingLoader(spec.loader, self._generators)
        return spec


class _SeedingLoader(importlib.abc.Loader):
    """The module's own loader, with one step more at the end."""

    def __init__(self, loader: Any, generators: Generators) -> None:
        self._loader = loader
        self._generators = generators

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._generators.seed_numpy(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
