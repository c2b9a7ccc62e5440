"""What every test shares: what this machine can run, and a report of what it could not.

Tests that need an engine (``docker``), outside data (``data``) or a build of a real third-party
system (``systems``) say so with a marker. Where the need is not met they are skipped and named at
the end; ``--require-all`` makes any skip a failure, which is how CI runs. ``systems`` tests run
only with ``--systems``, and then alone: they take minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ENGINE_ANSWER_S = 20
DATA_VARIABLE = "MEMRIG_TEST_DATA"

#: Why a test of this marker is not run, and what would make it run.
REMEDIES = {
    "docker": "no container engine answers: make engine",
    "data": f"no outside data: set {DATA_VARIABLE} to its folder",
    "systems": "builds real third-party systems: make test-systems",
}


@cache
def engine_answers() -> bool:
    """Whether docker or podman answers. Asked without the code under test, on purpose."""
    for name in ("docker", "podman"):
        if shutil.which(name) is None:
            continue
        try:
            answer = subprocess.run(
                [name, "info"], capture_output=True, timeout=ENGINE_ANSWER_S, check=False
            )
        except subprocess.TimeoutExpired:
            continue
        if answer.returncode == 0:
            return True
    return False


@cache
def data_folder() -> Path | None:
    """The folder of outside data, if the variable names one."""
    name = os.environ.get(DATA_VARIABLE)
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise pytest.UsageError(f"{DATA_VARIABLE} names {name}, which is no folder")
    return folder.resolve()


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of outside data; the test carries ``@pytest.mark.data``."""
    folder = data_folder()
    if folder is None:
        pytest.skip(REMEDIES["data"])
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--systems", action="store_true", help="run the tests of real systems, alone")
    parser.addoption("--require-all", action="store_true", help="a test that is skipped has failed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--systems")
    taken = [item for item in items if _has(item, "systems") == wanted]
    left = [item for item in items if _has(item, "systems") != wanted]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = taken
    for item in taken:
        if _has(item, "docker") and not _has(item, "xdist_group"):
            # One after another: any start of a container reaps what dead hosts left, and a test
            # about such leftovers must not lose them to its neighbour.
            item.add_marker(pytest.mark.xdist_group("engine"))
        if (_has(item, "docker") or wanted) and not engine_answers():
            item.add_marker(pytest.mark.skip(reason=REMEDIES["docker"]))
        elif _has(item, "data") and data_folder() is None:
            item.add_marker(pytest.mark.skip(reason=REMEDIES["data"]))


def _has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``--require-all`` a run that skipped anything fails."""
    config = session.config
    if hasattr(config, "workerinput") or not config.getoption("--require-all"):
        return
    if _skipped(config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    not_run = _skipped(config)
    if not config.getoption("--systems"):
        terminalreporter.write_line(f"not run: tests of real systems ({REMEDIES['systems']})")
    for reason, count in sorted(not_run.items()):
        terminalreporter.write_line(f"not run: {count} ({reason})")
    if not_run and config.getoption("--require-all"):
        terminalreporter.write_line(
            f"FAILED: {sum(not_run.values())} not run, and --require-all was given", red=True
        )


def _skipped(config: pytest.Config) -> Counter[str]:
    """How many tests were skipped, by reason. ``longrepr`` of a skip is (file, line, reason)."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return Counter(_reason(report) for report in reports)


def _reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
