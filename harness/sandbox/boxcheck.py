"""Run inside a finished image or environment: is what it holds what was asked for?

``python boxcheck.py BOX none|cpu``. Standard library only, Python 3.9 or later. Writes one line a
fault and exits 1, or a JSON object of facts and exits 0. Nothing of the baseline is imported: that
happens at start, with the box's limits on. Boxes write no bytecode, so it is made here.
"""

from __future__ import annotations

import ast
import compileall
import importlib
import json
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from py_compile import PycInvalidationMode


def main(box: Path, torch: str) -> int:
    """Check the tree in folder ``box`` and the packages of this interpreter."""
    faults = []
    for path in ("harness/adapter/contract.py", "harness/adapter/serve.py", "baseline/adapter.py"):
        faults += _parses(box / path)
    faults += [f"the secret file {path} must not be in a box" for path in _secrets(box)]
    packages = _packages()
    faults += _twice([name for name, _ in packages])
    faults += _torch({name for name, _ in packages}, torch)
    if faults:
        sys.stdout.write("".join(f"boxcheck: {fault}\n" for fault in faults))
        return 1
    compileall.compile_dir(box, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    facts = {"python": platform.python_version(), "packages": len(packages)}
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


def _parses(path: Path) -> list[str]:
    try:
        ast.parse(path.read_bytes(), str(path))
    except FileNotFoundError:
        return [f"{path} is missing"]
    except SyntaxError as error:
        return [f"{path}, line {error.lineno}: {error.msg}"]
    return []


def _secrets(box: Path) -> list[Path]:
    return [
        path
        for path in box.rglob("*")
        if path.name == ".env" or path.name.startswith(".env.") or path.name.endswith(".env")
    ]


def _packages() -> list[tuple[str, str]]:
    found = []
    for entry in metadata.distributions():
        name = entry.metadata["Name"]
        if name:
            found.append((re.sub(r"[-_.]+", "-", name).lower(), entry.version))
    return found


def _twice(names: list[str]) -> list[str]:
    return [f"{name} is installed twice" for name in sorted(set(names)) if names.count(name) > 1]


def _torch(installed: set[str], wanted: str) -> list[str]:
    faults = [f"{name} belongs to a CUDA build" for name in installed if name.startswith("nvidia-")]
    if wanted == "none":
        return faults + (["torch is here but was not asked for"] if "torch" in installed else [])
    if "torch" not in installed:
        return [*faults, "torch is missing"]
    version = importlib.import_module("torch").version
    if version.cuda is not None:
        faults.append(f"torch {version.__version__} is a CUDA build ({version.cuda})")
    return faults


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
