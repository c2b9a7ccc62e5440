"""How boxes are made on this machine: base image, package index, CA file, wheel folder, engine.

Precedence, field by field: flag > environment (``MEMRIG_*``) > ``memrig.toml`` ``[build]`` > what
``memrig engine`` recorded for this machine > pip's own environment (``PIP_INDEX_URL``,
``PIP_EXTRA_INDEX_URL``, ``PIP_CERT``, ``PIP_FIND_LINKS``) > default. Nothing is picked up in
silence: :attr:`Settings.origins` says where each value came from.

An index address with a user or password in it is refused: build arguments stay readable in the
image's history.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.outcomes import DataError, Problem, UsageError

#: The checkout that memrig runs from.
ROOT = Path(__file__).resolve().parent.parent

#: Nobody has pinned this tag by digest here, so it is a tag, and every build records the image id
#: and the digest (or ``unknown``) that it resolved to.
DEFAULT_BASE_IMAGE = "python:3.11-slim"

#: The base image that `make engine` makes of Debian packages where no registry answers. Bookworm,
#: whatever the machine runs: its Python is the 3.11 of the default, so that one lock fits both.
LOCAL_BASE_SUITE = "bookworm"
LOCAL_BASE_IMAGE = f"memrig/base:{LOCAL_BASE_SUITE}"

#: As ``package_index``: ask no index, the wheel folder has everything.
NO_INDEX = "none"

ENGINES = ("auto", "docker", "podman")


@dataclass(frozen=True)
class Settings:
    """Options of every build.

    ``base_image``: image that has Python >= 3.9 with ``venv``. ``package_index`` and
    ``extra_index``: addresses for pip and uv, without credentials; ``none`` as the index means that
    the wheel folder has everything. ``torch_index``: address of
    PyTorch's index of CPU wheels, for machines whose wheel folder has none. ``ca_file``: PEM
    bundle to trust in builds. ``wheel_dir``: folder of wheels that are preferred over the index.
    ``build_network_host``: builds see the host's network (stated in the manifest). ``work_dir``:
    locks, logs, sources and environments.
    """

    base_image: str = DEFAULT_BASE_IMAGE
    package_index: str | None = None
    extra_index: tuple[str, ...] = ()
    torch_index: str | None = None
    ca_file: Path | None = None
    wheel_dir: Path | None = None
    build_network_host: bool = False
    engine: str = "auto"
    work_dir: Path = ROOT / ".memrig"
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        root: Path = ROOT,
    ) -> Settings:
        """Gather the settings. A flag that is ``None`` was not given.

        Raises:
            UsageError: a value that cannot be used, naming where it came from.
            DataError: ``memrig.toml`` is not TOML or has an unknown field.
        """
        env = os.environ if env is None else env
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        notes: list[str] = []
        work_dir = _work_dir(flags or {}, env, root)
        for origin, given in (
            *_flag_layer(flags or {}),
            *_env_layer(env),
            *_toml_layer(root / "memrig.toml", "memrig.toml"),
            *_toml_layer(work_dir / "engine.toml", "memrig engine"),
            *_pip_layer(env, notes),
        ):
            for name, value in given.items():
                if name not in values and value is not None:
                    values[name] = _FIELDS[name](value, f"{name} from {origin}")
                    origins[name] = origin
        values.setdefault("work_dir", work_dir)
        return cls(**values, origins=origins, notes=tuple(notes))

    def describe(self) -> list[tuple[str, str, str]]:
        """(field, value, where it came from) for every field, for people and for the manifest."""
        rows = []
        for name in _FIELDS:
            value = getattr(self, name)
            shown = (
                " ".join(value) if isinstance(value, tuple) else "" if value is None else str(value)
            )
            rows.append((name, shown or "none", self.origins.get(name, "default")))
        return rows


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{what}: must be text, not {value!r}")
    return value.strip()


def _image(value: Any, what: str) -> str:
    text = _text(value, what)
    if text.startswith("-") or any(letter.isspace() for letter in text):
        raise UsageError(f"{what}: {text!r} is not the name of an image")
    return text


def has_credentials(address: str) -> bool:
    """Whether an address has a user or a password before its host."""
    return "@" in urlsplit(address).netloc


def _index(value: Any, what: str) -> str:
    text = _text(value, what)
    parts = urlsplit(text)
    if has_credentials(text):
        raise UsageError(
            f"{what}: the address for {parts.hostname} has credentials in it, and a build argument "
            "stays readable in the image's history. Give the address without them (a mirror "
            "that asks for none), or a wheel folder: --wheel-dir DIR"
        )
    if parts.scheme not in ("https", "http", "file") or text.startswith("-"):
        raise UsageError(f"{what}: {text!r} is not an http(s) or file address")
    return text


def _main_index(value: Any, what: str) -> str:
    return NO_INDEX if value == NO_INDEX else _index(value, what)


def _indexes(value: Any, what: str) -> tuple[str, ...]:
    entries = value.split() if isinstance(value, str) else list(value)
    return tuple(_index(entry, what) for entry in entries)


def _file(value: Any, what: str) -> Path:
    path = _path(value)
    if not path.is_file():
        raise UsageError(f"{what}: there is no file {path}")
    return path


def _folder(value: Any, what: str) -> Path:
    path = _path(value)
    if not path.is_dir():
        raise UsageError(f"{what}: there is no folder {path}")
    return path


def _path(value: Any, what: str = "") -> Path:
    return Path(str(value)).expanduser().absolute()


_WORDS = {"1": True, "true": True, "yes": True, "on": True}
_WORDS |= {"0": False, "false": False, "no": False, "off": False}


def _yes_no(value: Any, what: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    raise UsageError(f"{what}: must be true or false, not {value!r}")


def _engine(value: Any, what: str) -> str:
    if value not in ENGINES:
        raise UsageError(f"{what}: {value!r} is not one of {', '.join(ENGINES)}")
    return str(value)


#: Field -> how its raw value is read and checked.
_FIELDS: dict[str, Callable[[Any, str], Any]] = {
    "base_image": _image,
    "package_index": _main_index,
    "extra_index": _indexes,
    "torch_index": _index,
    "ca_file": _file,
    "wheel_dir": _folder,
    "build_network_host": _yes_no,
    "engine": _engine,
    "work_dir": _path,
}

_Layers = list[tuple[str, dict[str, Any]]]


def env_name(name: str) -> str:
    """The environment variable of a field: ``base_image`` -> ``MEMRIG_BASE_IMAGE``."""
    return f"MEMRIG_{name.upper()}"


def flag_name(name: str) -> str:
    """The flag of a field: ``base_image`` -> ``--base-image``."""
    return f"--{name.replace('_', '-')}"


def _flag_layer(flags: Mapping[str, Any]) -> _Layers:
    unknown = set(flags) - set(_FIELDS)
    if unknown:
        raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
    return [
        (flag_name(name), {name: value})
        for name, value in flags.items()
        if value is not None and value != ()
    ]


def _env_layer(env: Mapping[str, str]) -> _Layers:
    return [
        (env_name(name), {name: env[env_name(name)]}) for name in _FIELDS if env.get(env_name(name))
    ]


def _toml_layer(path: Path, origin: str) -> _Layers:
    if not path.is_file():
        return []
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("build", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError([Problem(f"is not TOML: {error}", str(path))]) from None
    unknown = sorted(set(table) - set(_FIELDS))
    if unknown:
        known = ", ".join(_FIELDS)
        message = f"[build] has unknown fields: {', '.join(unknown)}; known: {known}"
        raise DataError([Problem(message, str(path))])
    return [(origin, {name: _relative_to(path, name, value)}) for name, value in table.items()]


def _relative_to(path: Path, name: str, value: Any) -> Any:
    """A relative path in a file means: relative to that file's folder."""
    if name in ("ca_file", "wheel_dir", "work_dir") and isinstance(value, str):
        return path.parent / Path(value).expanduser()
    return value


def _work_dir(flags: Mapping[str, Any], env: Mapping[str, str], root: Path) -> Path:
    """``work_dir`` comes first: it holds one of the layers. The usual precedence, by hand."""
    layers = [*_flag_layer(flags), *_env_layer(env), *_toml_layer(root / "memrig.toml", "")]
    for _, given in layers:
        if given.get("work_dir") is not None:
            return _path(given["work_dir"])
    return root / ".memrig"


def _pip_layer(env: Mapping[str, str], notes: list[str]) -> _Layers:
    """What pip would use. Taken where it fits a box's build; what does not is noted, not used."""
    layers: _Layers = []
    for variable, name in (
        ("PIP_INDEX_URL", "package_index"),
        ("PIP_EXTRA_INDEX_URL", "extra_index"),
    ):
        value = env.get(variable)
        if value and any(has_credentials(entry) for entry in value.split()):
            notes.append(
                f"{variable} is not used for boxes: it has credentials in it, which would stay in "
                f"the image's history; give {env_name(name)} an address without them"
            )
        elif value:
            layers.append((variable, {name: value}))
    certificate = env.get("PIP_CERT")
    if certificate and Path(certificate).is_file():
        layers.append(("PIP_CERT", {"ca_file": certificate}))
    elif certificate:
        notes.append(f"PIP_CERT is not used: there is no file {certificate}")
    links = env.get("PIP_FIND_LINKS", "").split()
    local = [link for link in links if Path(link).is_dir()]
    if local:
        layers.append(("PIP_FIND_LINKS", {"wheel_dir": local[0]}))
    notes += [
        f"PIP_FIND_LINKS: {link} is not used for boxes" for link in links if link not in local[:1]
    ]
    return layers
