"""Look, lock, look again, build, verify: over an engine that is a dictionary."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import pytest

from harness.catalog import Baseline
from harness.outcomes import BuildError, EngineError
from harness.sandbox.image import ImageBuilder, digest_of
from harness.settings import Settings


@dataclass
class DictEngine:
    """Images by tag. ``forgets`` makes a build that ends well and leaves nothing."""

    found: dict[str, dict[str, Any]]
    arch: str = "linux/amd64"
    forgets: bool = False
    builds: list[dict[str, Any]] = field(default_factory=list)

    def platform(self) -> str:
        return self.arch

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        return self.found.get(reference)

    def pull(self, reference: str) -> None:
        raise EngineError("no route to the registry")

    def build(
        self,
        context: IO[bytes],
        *,
        tag: str,
        labels: Mapping[str, str],
        build_args: Mapping[str, str],
        network: str | None,
        no_cache: bool,
        log: Path,
    ) -> str:
        with tarfile.open(fileobj=context) as archive:
            names = archive.getnames()
        self.builds.append({"tag": tag, "args": dict(build_args), "network": network, "in": names})
        if not self.forgets:
            self.found[tag] = {"Id": f"id-{len(self.builds)}", "Config": {"Labels": dict(labels)}}
        return tag

    def images(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        return []

    def remove_image(self, reference: str) -> None:
        del self.found[reference]


@pytest.fixture
def base(settings: Settings) -> dict[str, dict[str, Any]]:
    return {settings.base_image: {"Id": "sha256:base", "RepoDigests": ["x@sha256:d"]}}


def test_layer_then_image_then_nothing(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]]
) -> None:
    engine = DictEngine(base)
    first = ImageBuilder(engine, settings).ensure(tiny)
    layer, image = engine.builds
    assert image["args"]["BASE_IMAGE"] == layer["tag"] == first.facts["layer"]
    assert layer["args"]["BASE_IMAGE"] == settings.base_image
    assert "box/baseline/adapter.py" in image["in"]
    assert "build/wheels/memrig_tiny_dep-1.0-py3-none-any.whl" in image["in"]
    assert first.facts["base_image_digest"] == "sha256:d"
    assert not ImageBuilder(engine, settings).ensure(tiny).built
    assert len(engine.builds) == 2


def test_what_names_an_image(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Base image, platform, index and content do; the CA file and the network do not."""
    ca = tmp_path / "ca.pem"
    ca.write_text("PEM")

    def tag(settings: Settings = settings, **engine: Any) -> str:
        return ImageBuilder(DictEngine(dict(base), **engine), settings).ensure(tiny).tag

    plain = tag()
    assert plain == tag() == tag(replace(settings, build_network_host=True))
    other = ca.with_name("other.pem")
    other.write_text("OTHER")
    assert tag(replace(settings, ca_file=ca)) == tag(replace(settings, ca_file=other))
    tags = {plain, tag(arch="linux/arm64")}
    tags.add(tag(replace(settings, package_index="https://mirror.example/simple")))
    base[settings.base_image] = {"Id": "sha256:other"}
    tags.add(tag())
    assert len(tags) == 4


def test_the_network_of_the_build_is_read_off_the_image(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]]
) -> None:
    engine = DictEngine(base)
    made = ImageBuilder(engine, replace(settings, build_network_host=True)).ensure(tiny)
    assert engine.builds[-1]["network"] == "host"
    found = ImageBuilder(engine, replace(settings, build_network_host=False)).ensure(tiny)
    assert made.facts["build_network"] == found.facts["build_network"] == "host"


def test_twelve_digits_that_clash_are_not_the_image(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]]
) -> None:
    engine = DictEngine(base)
    tag = ImageBuilder(engine, settings).ensure(tiny).tag
    engine.found[tag]["Config"]["Labels"]["memrig.hash"] = "another"
    assert ImageBuilder(engine, settings).ensure(tiny).built


def test_a_build_that_leaves_nothing_is_an_error(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]]
) -> None:
    with pytest.raises(BuildError, match="yet is not there"):
        ImageBuilder(DictEngine(base, forgets=True), settings).ensure(tiny)


def test_no_base_image(tiny: Baseline, settings: Settings) -> None:
    with pytest.raises(BuildError, match=r"no route to the registry(.|\n)*make engine"):
        ImageBuilder(DictEngine({}), settings).ensure(tiny)


def test_a_folder_of_this_machine_is_no_index_for_an_image(
    tiny: Baseline, settings: Settings, base: dict[str, dict[str, Any]]
) -> None:
    with pytest.raises(BuildError, match="--wheel-dir"):
        ImageBuilder(DictEngine(base), replace(settings, package_index="file:///x")).ensure(tiny)


def test_an_image_without_a_registry_has_no_known_digest() -> None:
    assert digest_of({"Id": "x", "RepoDigests": []}) == "unknown"
