"""Where settings come from, which wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.outcomes import DataError, UsageError
from harness.settings import DEFAULT_BASE_IMAGE, Settings


def load(root: Path, flags: dict[str, object] | None = None, **env: str) -> Settings:
    return Settings.load(flags, env=env, root=root)


def test_defaults_touch_nothing(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert found.base_image == DEFAULT_BASE_IMAGE
    assert (found.package_index, found.wheel_dir, found.build_network_host) == (None, None, False)
    assert found.work_dir == tmp_path / ".memrig"
    assert dict(found.origins) == {}


def test_precedence_field_by_field(tmp_path: Path) -> None:
    (tmp_path / ".memrig").mkdir()
    (tmp_path / ".memrig" / "engine.toml").write_text(
        '[build]\nbase_image = "five"\nbuild_network_host = true\n'
    )
    pip = {"PIP_INDEX_URL": "https://pip.example/simple"}
    assert load(tmp_path, **pip).package_index == "https://pip.example/simple"
    assert load(tmp_path).base_image == "five"
    (tmp_path / "memrig.toml").write_text(
        '[build]\nbase_image = "four"\npackage_index = "https://toml.example/simple"\n'
    )
    assert load(tmp_path, **pip).package_index == "https://toml.example/simple"
    assert load(tmp_path).base_image == "four"
    env = {"MEMRIG_BASE_IMAGE": "three", "MEMRIG_BUILD_NETWORK_HOST": "no"}
    third = load(tmp_path, **env)
    assert (third.base_image, third.build_network_host) == ("three", False)
    first = load(tmp_path, {"base_image": "one", "build_network_host": None}, **env)
    assert (first.base_image, first.build_network_host) == ("one", False)
    assert first.origins["base_image"] == "--base-image"
    assert first.origins["build_network_host"] == "MEMRIG_BUILD_NETWORK_HOST"
    assert first.origins["package_index"] == "memrig.toml"


def test_every_field_is_described_with_its_origin(tmp_path: Path) -> None:
    shown = {name: (value, origin) for name, value, origin in
             load(tmp_path, MEMRIG_EXTRA_INDEX="https://a/s https://b/s").describe()}  # fmt: skip
    assert shown["extra_index"] == ("https://a/s https://b/s", "MEMRIG_EXTRA_INDEX")
    assert shown["base_image"] == (DEFAULT_BASE_IMAGE, "default")
    assert shown["work_dir"] == (str(tmp_path / ".memrig"), "default")


@pytest.mark.parametrize(
    "address", ["https://me:secret@host/simple", "https://token@host/simple", "http://a:b@h"]
)
@pytest.mark.parametrize("field", ["package_index", "torch_index", "extra_index"])
def test_credentials_are_refused_and_not_repeated(tmp_path: Path, address: str, field: str) -> None:
    for settings in ({"flags": {field: address}}, {f"MEMRIG_{field.upper()}": address}):
        with pytest.raises(UsageError, match="credentials") as caught:
            load(tmp_path, **settings)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)
        assert "token" not in str(caught.value)


def test_pips_own_credentials_are_left_and_said(tmp_path: Path) -> None:
    found = load(tmp_path, PIP_INDEX_URL="https://me:secret@host/simple")
    assert found.package_index is None
    assert any("PIP_INDEX_URL" in note and "credentials" in note for note in found.notes)
    assert "secret" not in "".join(found.notes)


def test_pips_environment_is_used_where_it_fits(tmp_path: Path) -> None:
    wheels, ca = tmp_path / "wheels", tmp_path / "ca.pem"
    wheels.mkdir()
    ca.write_text("x")
    found = load(tmp_path, PIP_FIND_LINKS=f"{wheels} https://w", PIP_CERT=str(ca))
    assert (found.wheel_dir, found.ca_file) == (wheels, ca)
    assert found.origins["wheel_dir"] == "PIP_FIND_LINKS"
    assert found.notes == ("PIP_FIND_LINKS: https://w is not used for boxes",)
    assert "PIP_CERT" in load(tmp_path, PIP_CERT="/nowhere.pem").notes[0]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"ca_file": "/nowhere.pem"}, "no file"),
        ({"wheel_dir": "/nowhere"}, "no folder"),
        ({"package_index": "ftp://host/simple"}, "not an http"),
        ({"package_index": "--trusted-host"}, "not an http"),
        ({"base_image": "-v/:/host"}, "not the name"),
        ({"base_image": "a b"}, "not the name"),
        ({"engine": "lxc"}, "not one of"),
        ({"build_network_host": "maybe"}, "true or false"),
    ],
)
def test_refused(tmp_path: Path, flags: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        load(tmp_path, flags)
    assert "from --" in str(caught.value)


def test_a_toml_with_an_unknown_field_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "memrig.toml").write_text("[build]\nbase_imag = 'x'\n")
    with pytest.raises(DataError, match=r"memrig\.toml.*base_imag"):
        load(tmp_path)
    (tmp_path / "memrig.toml").write_text("[build")
    with pytest.raises(DataError, match="not TOML"):
        load(tmp_path)


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "memrig.toml").write_text("[build]\nwheel_dir = 'wheels'\nwork_dir = 'w'\n")
    found = load(tmp_path)
    assert (found.wheel_dir, found.work_dir) == (tmp_path / "wheels", tmp_path / "w")
