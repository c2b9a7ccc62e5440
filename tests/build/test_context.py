"""The tree and its hash: equal for equal content, whatever the disk says about it."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import write_baseline

from harness.outcomes import BuildError
from harness.sandbox.context import (
    File,
    box_tree,
    content_hash,
    files_of,
    is_secret,
    write_folder,
    write_tar,
)


def hash_of(folder: Path) -> str:
    return content_hash(files_of(folder, "x"), {"base": "b"})


def write(folder: Path, files: dict[str, str], order: int = 1) -> Path:
    for path, text in list(files.items())[::order]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


FILES = {"a.py": "one", "sub/b.txt": "two", "sub/é.txt": "three"}


def test_the_hash_does_not_see_mode_time_or_order(tmp_path: Path) -> None:
    first = write(tmp_path / "first", FILES)
    second = write(tmp_path / "second", FILES, order=-1)
    for path in second.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            os.utime(path, (1, 1))
    (second / "sub").chmod(0o700)
    assert hash_of(first) == hash_of(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.py").write_text("One"),
        lambda folder: (folder / "a.py").rename(folder / "c.py"),
        lambda folder: (folder / "a.py").chmod(0o755),
        lambda folder: (folder / "new").write_text(""),
        lambda folder: (folder / "a.py").unlink(),
    ],
)
def test_the_hash_sees_content_path_and_the_executable_bit(tmp_path: Path, change: object) -> None:
    folder = write(tmp_path / "x", FILES)
    before = hash_of(folder)
    change(folder)  # type: ignore[operator]
    assert hash_of(folder) != before


def test_the_hash_sees_what_else_the_result_depends_on() -> None:
    files = [File("a", b"x")]
    hashes = {content_hash(files, facts) for facts in ({}, {"base": "1"}, {"base": "2"})}
    assert len(hashes) == 3


def test_no_two_contexts_run_together() -> None:
    """Borders between path, mode and bytes are part of the hash."""
    one = content_hash([File("a", b"bc")], {})
    other = content_hash([File("ab", b"c")], {})
    assert one != other


contexts = st.dictionaries(
    st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4}){0,2}", fullmatch=True),
    st.tuples(st.binary(max_size=40), st.booleans()),
    max_size=6,
)


@given(files=contexts, data=st.data())
def test_tar_and_hash_do_not_depend_on_the_order_given(
    files: dict[str, tuple[bytes, bool]], data: st.DataObject
) -> None:
    listed = [File(path, content, None, run) for path, (content, run) in files.items()]
    shuffled = data.draw(st.permutations(listed))
    one, other = io.BytesIO(), io.BytesIO()
    write_tar(listed, one)
    write_tar(shuffled, other)
    assert one.getvalue() == other.getvalue()
    assert content_hash(listed, {}) == content_hash(shuffled, {})
    one.seek(0)
    with tarfile.open(fileobj=one) as archive:
        assert [m.name for m in archive] == sorted(files)
        for member in archive:
            content, run = files[member.name]
            assert archive.extractfile(member).read() == content  # type: ignore[union-attr]
            assert (member.mode, member.mtime, member.uid, member.gid) == (
                0o755 if run else 0o644, 0, 0, 0,
            )  # fmt: skip


@pytest.mark.parametrize("name", [".env", ".env.local", "prod.env", ".envrc", "sub/.env"])
def test_secrets_and_caches_never_enter(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "x", {**FILES, name: "KEY=1", "__pycache__/a.pyc": "", ".git/x": ""})
    assert [file.path for file in files_of(folder, "b")] == sorted(f"b/{path}" for path in FILES)
    assert hash_of(folder) == hash_of(write(tmp_path / "y", FILES))
    assert not is_secret("environment.py")


def test_a_link_cannot_carry_a_secret_in(tmp_path: Path) -> None:
    folder = write(tmp_path / "x", {**FILES, ".env": "KEY=1"})
    (folder / "settings.txt").symlink_to(folder / ".env")
    assert "x/settings.txt" not in [file.path for file in files_of(folder, "x")]
    (folder / "inside.txt").symlink_to("a.py")
    assert next(f for f in files_of(folder, "x") if f.path == "x/inside.txt").read() == b"one"
    (tmp_path / "outside").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "outside")
    with pytest.raises(BuildError, match="outside of"):
        files_of(folder, "x")


def test_a_linked_folder_cannot_lead_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "x", FILES)
    (folder / "home").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(BuildError, match="outside of"):
        files_of(folder, "x")


def test_the_tree_of_a_box(tmp_path: Path) -> None:
    tree = box_tree(write_baseline(tmp_path), [File("sources/s/a.py", b"x")])
    paths = [file.path for file in tree]
    assert paths == sorted(paths)
    assert {"harness/__init__.py", "harness/adapter/serve.py", "baseline/adapter.py"} <= set(paths)
    assert "sources/s/a.py" in paths
    assert all(path.startswith(("harness/adapter/", "baseline/", "sources/")) for path in paths
               if path != "harness/__init__.py")  # fmt: skip
    write_folder(tree, tmp_path / "out")
    assert content_hash(files_of(tmp_path / "out", ""), {}) == content_hash(
        [File(f"{file.path}", file.read(), None, file.executable) for file in tree], {}
    )
