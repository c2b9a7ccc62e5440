"""Images with a real engine: built once, found at once, verified, and nothing left behind."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import YAML, write_baseline
from typer.testing import CliRunner

from harness.catalog import Baseline, Catalog
from harness.config import EvalConfig
from harness.outcomes import BuildError
from harness.sandbox.base import BoxRequest
from harness.sandbox.client import MemoryClient
from harness.sandbox.engine import Engine
from harness.sandbox.factory import make_launcher
from harness.sandbox.image import Built, ImageBuilder, labels_of, old_images
from harness.sandbox.recipe import HASH, STAGE
from harness.settings import NO_INDEX, Settings

pytestmark = pytest.mark.docker


@pytest.fixture
def offline(settings: Settings) -> Settings:
    return replace(settings, package_index=NO_INDEX, extra_index=())


def files_in(engine: Engine, image: str) -> set[str]:
    """Every path in an image's layers, those included that a later layer hides."""
    found: set[str] = set()
    stream = io.BytesIO(b"".join(engine._api.get_image(image)))
    with tarfile.open(fileobj=stream) as saved:
        for member in saved:
            if member.name.endswith("layer.tar") or ("blobs/" in member.name and member.isfile()):
                content = saved.extractfile(member)
                assert content is not None
                try:
                    with tarfile.open(fileobj=content) as layer:
                        found |= {entry.name for entry in layer}
                except tarfile.ReadError:
                    continue  # a blob that is no layer
    return found


def containers(engine: Engine) -> set[str]:
    return {entry["Id"] for entry in engine._api.containers(all=True)}


def test_from_folder_to_a_box_that_answers(
    tiny: Baseline, offline: Settings, engine: Engine, tmp_path: Path
) -> None:
    """With its wheel out of the wheel folder, and no index asked."""
    (tiny.home / ".env").write_text("MY_API_KEY=secret")
    config = EvalConfig(Path("data"), "Tiny", tmp_path, sandbox="container")
    launcher = make_launcher(tiny, config, offline)
    prepared = launcher.prepare()
    image = engine.inspect_image(prepared["image"])
    assert image is not None
    assert image["Id"] == prepared["image_id"]
    assert labels_of(image)[HASH] == prepared["image_hash"]
    assert prepared["image"] == f"memrig-tiny:{prepared['image_hash'][:12]}"
    assert prepared["base_image"] == offline.base_image
    paths = files_in(engine, prepared["image"])
    assert "opt/memrig/baseline/adapter.py" in paths
    assert not [path for path in paths if "memrig_tiny_dep-1.0-py3" in path or ".env" in path]
    assert engine.images({STAGE: prepared["image_hash"]}) == []
    box = launcher.start(BoxRequest("s0001", 0, {}, tmp_path / "logs"))
    try:
        client = MemoryClient(box)
        client.reset()
        seen = {record.memory_id: record.text for record in client.snapshot_memories()}
    finally:
        box.close()
    assert seen["dep"] == "forty-two"
    assert seen["interfaces"] == "lo"
    assert seen["loopback"] == "reached"


def test_an_unchanged_baseline_is_found_in_under_two_seconds(
    tiny: Baseline, offline: Settings, engine: Engine
) -> None:
    first = ImageBuilder(engine, offline).ensure(tiny)
    assert first.built
    for path in tiny.home.iterdir():
        path.touch()
        path.chmod(0o600)
    started = time.monotonic()
    with Engine.detect() or engine as fresh:
        second = ImageBuilder(fresh, offline).ensure(tiny)
    assert time.monotonic() - started < 2
    assert (second.built, second.image_id) == (False, first.image_id)
    (tiny.home / "adapter.py").write_text((tiny.home / "adapter.py").read_text() + "# more\n")
    third = ImageBuilder(engine, offline).ensure(tiny)
    assert third.built
    assert third.tag != first.tag
    again = ImageBuilder(engine, offline).ensure(tiny, no_cache=True)
    assert again.built
    assert again.tag == third.tag


def test_two_builds_at_a_time_make_one_image(
    tiny: Baseline, offline: Settings, engine: Engine
) -> None:
    made: list[Built] = []

    def build() -> None:
        with Engine.detect() or engine as mine:
            made.append(ImageBuilder(mine, offline).ensure(tiny))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built.built for built in made) == [False, False, True]
    assert len({built.image_id for built in made}) == 1


def test_a_failing_build_leaves_its_log_and_nothing_else(
    offline: Settings, engine: Engine, tmp_path: Path
) -> None:
    folder = write_baseline(tmp_path / "mine")
    (folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN echo before-the-end && exit 3\n"
    )
    row = Catalog([folder], shipped=None).get("Tiny")
    before = containers(engine)
    with pytest.raises(BuildError, match="failed") as caught:
        ImageBuilder(engine, offline).ensure(row)
    assert caught.value.log is not None
    assert "before-the-end" in caught.value.log.read_text()
    assert str(caught.value.log) in str(caught.value)
    assert not [i for i in containers(engine) - before if _is_of(engine, i, "before-the-end")]
    assert ImageBuilder(engine, offline).current(row) is None


def _is_of(engine: Engine, container: str, word: str) -> bool:
    found = engine.inspect(container)
    return found is not None and word in str(found["Config"].get("Cmd"))


def test_a_box_that_is_not_whole_is_not_built(
    offline: Settings, engine: Engine, tmp_path: Path
) -> None:
    folder = write_baseline(tmp_path / "mine")
    (folder / "adapter.py").write_text("class Adapter(:\n")
    row = Catalog([folder], shipped=None).get("Tiny")
    with pytest.raises(BuildError) as caught:
        ImageBuilder(engine, offline).ensure(row)
    assert caught.value.log is not None
    assert "boxcheck: /opt/memrig/baseline/adapter.py, line 1" in caught.value.log.read_text()


def test_own_dockerfile_and_its_files(offline: Settings, engine: Engine, tmp_path: Path) -> None:
    folder = write_baseline(tmp_path / "mine")
    (folder / "extra.txt").write_text("hello")
    (folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY box/baseline/extra.txt /srv/extra.txt\n"
    )
    row = Catalog([folder], shipped=None).get("Tiny")
    built = ImageBuilder(engine, offline).ensure(row)
    state, said = engine.run(built.tag, ["cat", "/srv/extra.txt"])
    assert (state.exit_code, said) == (0, "hello")
    state, said = engine.run(built.tag, ["id", "-u"])
    assert said.strip() == "10001"


def test_old_images_are_told_from_current_ones(
    tiny: Baseline, offline: Settings, engine: Engine
) -> None:
    builder = ImageBuilder(engine, offline)
    old = builder.ensure(tiny)
    (tiny.home / "notes.txt").write_text("changed")
    new = builder.ensure(tiny)
    mine = {tag for image in old_images(engine, builder, [tiny]) for tag in image["RepoTags"]}
    assert old.tag in mine
    assert new.tag not in mine
    others = {tag for image in old_images(engine, builder, []) for tag in image["RepoTags"] or ()}
    assert not {old.tag, new.tag} & others


def test_a_missing_base_image_says_what_mends_it(
    tiny: Baseline, offline: Settings, engine: Engine
) -> None:
    nowhere = replace(offline, base_image="localhost:9/memrig-test/nowhere:1")
    with pytest.raises(BuildError, match="make engine"):
        ImageBuilder(engine, nowhere).ensure(tiny)


def test_memrig_build(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    from typer import Typer

    from cli.build import build

    monkeypatch.setenv("MEMRIG_BASE_IMAGE", settings.base_image)
    monkeypatch.setenv("MEMRIG_WORK_DIR", str(tmp_path / "work"))
    yaml = YAML + "variants: {Tiny-A: {}, Tiny-B: {}}\n"
    folder = write_baseline(tmp_path / "mine", yaml=yaml)
    app = Typer()
    app.command()(build)
    argv = ["Tiny", "Tiny-A", "--baselines", str(folder)]
    first = CliRunner().invoke(app, argv)
    assert first.exit_code == 0, first.output
    assert first.stdout.count("\n") == 1, "variants share an image"
    assert "memrig-tiny:" in first.stdout
    assert " built " in first.stdout
    assert " unchanged " in CliRunner().invoke(app, argv).stdout
    (folder / "requirements.lock").write_text(f"nowhere==1 --hash=sha256:{'0' * 64}\n")
    failed = CliRunner(env={"MEMRIG_PACKAGE_INDEX": NO_INDEX}).invoke(app, argv)
    assert failed.exit_code == 1
    assert "log:" in failed.stderr
