"""The arrows of the design, held by the imports themselves (DESIGN 2, README "How it is built").

Reads the syntax tree of every module; nothing is imported, so an arrow that is drawn inside a
function body counts like any other.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULE_LINES = 450

#: What anything in ``harness`` may import: plain values that know nothing of the rest.
PLAIN = {"interrupt", "outcomes", "records", "samples", "config", "adapter", "strict_yaml"}

#: Contracts inside a part that others may name without the part: protocols and frozen values, and
#: the definition (id and formula) of the metrics by source, which needs no judge.
CONTRACTS = ("harness.sandbox.base", "harness.judging.base", "harness.judging.sources")

#: What each part may import besides :data:`PLAIN` and itself. A part that is not named here is a
#: plain module or one of the callers at the top (``run_eval``), which may import all parts.
MAY_IMPORT = {
    "outcomes": set(),
    "records": {"outcomes"},
    "samples": set(),
    "config": set(),
    "interrupt": set(),
    "strict_yaml": {"outcomes"},
    "adapter": set(),
    "sandbox": {"catalog", "settings"},
    "catalog": {"baseline_file"},
    "baseline_file": set(),
    "settings": set(),
    "loaders": set(),
    "pipeline": {"sandbox", "catalog", "loaders", "runs", "settings"},
    "judging": {"models"},
    "models": set(),
    "aggregate": set(),
    "report": {"aggregate", "runs"},  # runs: the files that it shows, read only
    "runs": set(),
}


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


SOURCES = modules("harness") + modules("cli")
ALL = [*SOURCES, *modules("baselines"), *modules("tests"), *modules("perf")]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every dotted name that a module imports, with its line; relative ones made absolute.

    ``from harness.outcomes import Status`` gives ``harness.outcomes.Status``.
    """
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{stem}.{alias.name}", node.lineno) for alias in node.names)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def part_of(dotted: str) -> str | None:
    """``harness.pipeline.runner`` -> ``pipeline``; None for what is not a part of harness."""
    names = dotted.split(".")
    if names[0] != "harness" or len(names) == 1:
        return None
    return "evaluation" if names[1] in ("run_eval", "RunResult") else names[1]


def known_parts() -> set[str]:
    return {path.stem if path.suffix else path.name for path in (ROOT / "harness").iterdir()}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules("harness"), ids=ids)
def test_arrows(path: Path) -> None:
    part = part_of(name_of(path))
    if part is None or part not in MAY_IMPORT:
        return  # the package itself, and the callers at the top
    allowed = MAY_IMPORT[part] | {part} | (PLAIN if part not in PLAIN else set())
    wrong = [
        f"{ids(path)}:{line} imports {target}"
        for target, line in imports(path)
        if (other := part_of(target)) in known_parts()
        and other not in allowed
        and not target.startswith(CONTRACTS)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", modules("harness/pipeline"), ids=ids)
def test_the_pipeline_sees_a_box_and_not_what_it_is_made_of(path: Path) -> None:
    seen = ("harness.sandbox.base.", "harness.sandbox.client.")
    wrong = [
        f"{ids(path)}:{line} imports {target}"
        for target, line in imports(path)
        if part_of(target) == "sandbox" and not target.startswith(seen)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [*SOURCES, *modules("baselines")], ids=ids)
def test_nothing_imports_the_command_line(path: Path) -> None:
    if name_of(path).startswith("cli"):
        return
    wrong = [f"{ids(path)}:{line}" for name, line in imports(path) if name.split(".")[0] == "cli"]
    assert not wrong, f"imports cli: {wrong}"


@pytest.mark.parametrize("path", modules("harness/adapter"), ids=ids)
def test_the_half_in_the_box_is_standard_library_only(path: Path) -> None:
    allowed = set(sys.stdlib_module_names)
    optional = optional_imports(path)
    wrong = [
        f"{ids(path)}:{line} imports {name}"
        for name, line in imports(path)
        if name.split(".")[0] not in allowed
        and not name.startswith("harness.adapter")
        and name != "harness"
        and name.split(".")[0] not in optional
    ]
    assert not wrong, "\n".join(wrong)


def optional_imports(path: Path) -> set[str]:
    """Packages imported under ``try: ... except ImportError``: used where a box has them."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Try) and any(
            isinstance(handler.type, ast.Name)
            and handler.type.id in ("ImportError", "ModuleNotFoundError")
            for handler in node.handlers
        ):
            for inner in node.body:
                if isinstance(inner, ast.Import):
                    found.update(alias.name.split(".")[0] for alias in inner.names)
                elif isinstance(inner, ast.ImportFrom) and inner.module:
                    found.add(inner.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", modules("harness"), ids=ids)
def test_only_the_engine_module_talks_to_docker(path: Path) -> None:
    if name_of(path).startswith("harness.sandbox.engine"):
        return
    wrong = [
        f"{ids(path)}:{line}" for name, line in imports(path) if name.split(".")[0] == "docker"
    ]
    assert not wrong, f"imports docker: {wrong}"


@pytest.mark.parametrize("path", ALL, ids=ids)
def test_no_shell_and_no_swallowed_error(path: Path) -> None:
    wrong = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.keyword) and node.arg == "shell":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                wrong.append(f"{ids(path)}:{node.value.lineno} shell=")
        elif isinstance(node, ast.ExceptHandler) and _swallows_everything(node):
            wrong.append(f"{ids(path)}:{node.lineno} swallows every error")
    assert not wrong, "\n".join(wrong)


def _swallows_everything(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
    return broad and all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in handler.body
    )


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_modules_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES, f"{ids(path)} has {lines} lines"


def test_test_modules_can_be_told_apart() -> None:
    """Two test modules of one name in folders without ``__init__.py`` cannot both be imported."""
    plain = [path for path in modules("tests") if not (path.parent / "__init__.py").exists()]
    names = Counter(path.name for path in plain if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_rules_can_fail(tmp_path: Path) -> None:
    """The checks above see what they are made to see."""
    handler = ast.parse("try:\n    f()\nexcept Exception:\n    pass\n").body[0].handlers[0]
    assert _swallows_everything(handler)
    kept = ast.parse("try:\n    f()\nexcept Exception as e:\n    log(e)\n").body[0].handlers[0]
    assert not _swallows_everything(kept)
    assert part_of("harness.pipeline.runner") == "pipeline"
    plain = {name for name, _ in imports(ROOT / "harness" / "records.py")}
    assert "harness.outcomes.Status" in plain
    relative = {name for name, _ in imports(ROOT / "harness" / "adapter" / "contract.py")}
    assert "harness.adapter.records.NormalizedTurn" in relative
    assert part_of("harness.run_eval") == "evaluation"
