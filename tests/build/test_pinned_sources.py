"""Pinned sources, fetched from real local repositories with the real git."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import YAML, write_baseline
from typer.testing import CliRunner

from cli.source import app
from harness.catalog import Catalog, Source
from harness.outcomes import BuildError
from harness.sandbox import sources
from harness.settings import Settings


def git(folder: Path, *argv: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *argv], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A bare repository with two commits; the head has one file more."""
    work = tmp_path / "work-tree"
    work.mkdir()
    git(work, "init", "-q", "-b", "trunk")
    (work / "pkg").mkdir()
    (work / "pkg" / "mod.py").write_bytes(b"A = 1\r\nB = '$Format:%H$'\n")
    (work / "pkg" / "run.sh").write_text("#!/bin/sh\n")
    (work / "pkg" / "run.sh").chmod(0o755)
    (work / "pkg" / "again.py").symlink_to("mod.py")
    (work / "pkg" / ".env").write_text("KEY=1")
    (work / "other.txt").write_text("not wanted")
    (work / ".gitattributes").write_text("*.py text=auto eol=lf export-subst\npkg export-ignore\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "one")
    bare = tmp_path / "Up-Stream.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    (work / "pkg" / "later.py").write_text("x")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "two")
    git(work, "push", "-q", str(bare), "trunk")
    return bare


def first_commit(upstream: Path) -> str:
    return git(upstream, "rev-list", "--max-parents=0", "trunk")


def source(upstream: Path, **changes: object) -> Source:
    wanted = Source(str(upstream), first_commit(upstream), ("pkg",), ("pkg",))
    return replace(wanted, **changes)  # type: ignore[arg-type]


def test_the_commit_asked_for_and_only_its_paths(upstream: Path, settings: Settings) -> None:
    found = sources.fetch(source(upstream), settings)
    assert found.commit == first_commit(upstream)
    assert {file.path: file.executable for file in found.files} == {
        "sources/Up-Stream/pkg/again.py": False,
        "sources/Up-Stream/pkg/mod.py": False,
        "sources/Up-Stream/pkg/run.sh": True,
    }
    assert found.python_path == ("sources/Up-Stream/pkg",)


def test_bytes_come_as_git_stores_them(upstream: Path, settings: Settings) -> None:
    """No attribute of the repository changes a byte, and a link is a copy of what it points at."""
    found = {file.path: file.read() for file in sources.fetch(source(upstream), settings).files}
    stored = git(upstream, "cat-file", "blob", f"{first_commit(upstream)}:pkg/mod.py")
    assert found["sources/Up-Stream/pkg/mod.py"].decode().strip() == stored
    assert b"$Format:%H$" in found["sources/Up-Stream/pkg/mod.py"]
    assert found["sources/Up-Stream/pkg/again.py"] == found["sources/Up-Stream/pkg/mod.py"]


def test_the_cache_serves_when_the_repository_is_gone(upstream: Path, settings: Settings) -> None:
    wanted = source(upstream)
    first = sources.fetch(wanted, settings)
    upstream.rename(upstream.with_name("moved"))
    assert sources.fetch(wanted, settings) == first


def test_a_users_mirror_applies(
    upstream: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "{upstream.parent}/"]\n\tinsteadOf = https://nowhere.invalid/me/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    wanted = source(upstream, repository="https://nowhere.invalid/me/Up-Stream.git")
    assert len(sources.fetch(wanted, settings).files) == 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"commit": "0" * 40}, "git failed|has no commit"),
        ({"paths": ("nowhere",)}, "has no 'nowhere'"),
        ({"repository": "/nowhere.git"}, "git failed"),
    ],
)
def test_refused_with_the_log(
    upstream: Path, settings: Settings, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(BuildError, match=says) as caught:
        sources.fetch(source(upstream, **changes), settings)
    assert caught.value.log is not None
    assert "$ git" in caught.value.log.read_text()


def test_a_link_out_of_the_paths_is_refused(upstream: Path, settings: Settings) -> None:
    wanted = source(upstream, paths=("pkg/again.py",))
    with pytest.raises(BuildError, match="not among the paths"):
        sources.fetch(wanted, settings)


def test_a_password_reaches_no_message_and_no_log(settings: Settings) -> None:
    wanted = Source("https://me:hunter2@nowhere.invalid/x.git", "0" * 40, ("a",))
    with pytest.raises(BuildError) as caught:
        sources.fetch(wanted, settings)
    assert caught.value.log is not None
    assert "hunter2" not in str(caught.value) + caught.value.log.read_text()
    assert sources.shown(wanted.repository) == "https://nowhere.invalid/x.git"


def test_a_build_needs_pins(upstream: Path, settings: Settings) -> None:
    with pytest.raises(BuildError, match=r"not pinned.*memrig source get"):
        sources.fetch_all((source(upstream, commit="unknown"),), settings)
    with pytest.raises(BuildError, match="two sources"):
        sources.fetch_all((source(upstream), source(upstream)), settings)


def test_source_get_records_a_commit_that_nobody_had_seen(
    upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path / "work"))
    more = (
        "sources:  # two of them\n"
        f"  - {{repository: {upstream}, commit: {first_commit(upstream)}, paths: [pkg]}}\n"
        "  - commit: unknown  # filled in by the first fetch\n"
        f"    repository: {upstream}\n"
        "    paths: [other.txt]\n"
    )
    folder = write_baseline(tmp_path / "mine", yaml=YAML + more)
    done = CliRunner().invoke(app, ["get", "Tiny", "--baselines", str(folder)])
    assert done.exit_code == 0, done.output
    head = git(upstream, "rev-parse", "trunk")
    expected = (YAML + more).replace("commit: unknown", f"commit: {head}")
    assert (folder / "baseline.yaml").read_text() == expected
    assert [s.commit for s in Catalog([folder], shipped=None).get("Tiny").sources] == [
        first_commit(upstream), head,
    ]  # fmt: skip
