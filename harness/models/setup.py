"""From ``memrig.toml`` and ``.env`` to a :class:`~harness.models.routes.Setup`.

::

    [models]
    prices = "prices.yaml"                 # over the shipped list

    [models.routes.openai]                 # changes a built-in route
    max_tokens = 4096

    [models.routes.house]                  # or makes one
    base_url = "https://llm.example.org/v1"
    key = "HOUSE_API_KEY"                  # the variable's name, never the key
    models = ["house-*"]

    [profiles.mine]
    base = "openai"
    system = "openai:gpt-4o-mini"
    embed = "openai:text-embedding-3-small"
    judge = "house:house-large"
    [profiles.mine.settings.judge]
    temperature = 0.0
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.models import profiles
from harness.models.cassette import Cassette
from harness.models.dotenv import Secrets, load_variables
from harness.models.routes import OPENAI_FIELDS, ROLES, Auth, RoleModel, Route, Setup, setup_of
from harness.outcomes import DataError, Problem, UnknownName, UsageError


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RouteTable(_Table):
    """``[models.routes.NAME]``. Whatever is not given stays as the built-in route has it."""

    base_url: str | None = Field(None, pattern=r"^https?://[^\s@]+$")
    key: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    key_header: str | None = Field(None, pattern=r"^[A-Za-z0-9-]+$")
    key_prefix: str | None = None
    kind: Literal["openai", "vendor"] | None = None
    methods: list[Literal["GET", "POST", "PUT", "PATCH", "DELETE"]] | None = None
    paths: list[str] | None = None
    models: list[str] | None = None
    aliases: dict[str, str] | None = None
    fields: dict[str, list[str]] | None = None
    max_tokens: int | None = Field(None, gt=0)
    max_n: int | None = Field(None, gt=0)
    headers: dict[str, str] | None = None
    concurrency: int | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)
    patience_s: float | None = Field(None, gt=0)
    retry_wait_s: float | None = Field(None, gt=0)
    stream: bool | None = None
    paid: bool | None = None
    prices: str | None = None
    force: dict[str, Any] | None = None


class ProfileTable(_Table):
    """``[profiles.NAME]``: a built-in profile to start from, and ``route:model`` for each role."""

    base: str | None = None
    system: str | None = None
    embed: str | None = None
    answer: str | None = None
    judge: str | None = None
    vision: str | None = None
    settings: dict[Literal["system", "embed", "answer", "judge", "vision"], dict[str, Any]] = {}


class ModelsTable(_Table):
    """``[models]``."""

    prices: str | None = None
    routes: dict[str, RouteTable] = {}


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    models: ModelsTable = ModelsTable()
    profiles: dict[str, ProfileTable] = {}


@dataclass(frozen=True)
class ModelsFile:
    """What ``memrig.toml`` says about models. ``prices`` is the user's own price list."""

    routes: Mapping[str, RouteTable]
    profiles: Mapping[str, ProfileTable]
    prices: Path | None = None


def read_models_file(path: Path) -> ModelsFile:
    """Read ``[models]`` and ``[profiles]``; no file is no tables.

    Raises:
        DataError: not TOML, an unknown field, a value of the wrong kind.
    """
    if not path.is_file():
        return ModelsFile({}, {})
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
        file = _File.model_validate(value)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError([Problem(f"is not TOML: {error}", str(path))]) from None
    except ValidationError as error:
        raise DataError(
            [
                # Never the input: somebody may have put the key itself where its name belongs.
                Problem(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}", str(path))
                for entry in error.errors(include_url=False, include_input=False)
            ]
        ) from None
    prices = path.parent / Path(file.models.prices).expanduser() if file.models.prices else None
    return ModelsFile(file.models.routes, file.profiles, prices)


def load_setup(
    profile: str, root: Path, *, env: Mapping[str, str] | None = None
) -> tuple[Setup, Path | None]:
    """The setup of a profile, and the user's price list if there is one.

    Raises:
        UsageError: an unknown profile or route, or a variable that is missing or wrong.
        DataError: ``memrig.toml`` or ``.env`` cannot be used.
    """
    variables = load_variables(root, env)
    file = read_models_file(root / "memrig.toml")
    return make_setup(profile, file, variables), file.prices


def replay_setup(cassette: Cassette) -> Setup:
    """The profile ``replay``: routes and roles are those of the cassette's latest recording.

    Raises:
        UsageError: nothing was recorded into it.
    """
    known = cassette.setups()
    if not known:
        raise UsageError(f"{cassette.path} holds no recording; record one with another profile")
    return setup_of(known[-1], "replay")


def make_setup(profile: str, file: ModelsFile, variables: Secrets) -> Setup:
    """Put profile, file and variables together; see :func:`load_setup`."""
    table = file.profiles.get(profile)
    if table is None and profile not in profiles.PROFILES:
        raise UnknownName("profile", profile, {*profiles.PROFILES, *file.profiles})
    base = table.base if table and table.base else profile
    drafted = (
        profiles.draft(base, variables) if base in profiles.PROFILES else _no_draft(profile, base)
    )
    routes = dict(drafted.routes)
    for name, changes in file.routes.items():
        routes[name] = _changed(name, routes.get(name), changes)
    roles = dict(drafted.roles)
    for role in ROLES:
        given = getattr(table, role) if table else None
        if given:
            old = roles.get(role)
            roles[role] = replace(RoleModel.parse(given), settings=old.settings if old else {})
        extra = table.settings.get(role) if table else None  # type: ignore[call-overload]
        if extra and role in roles:
            roles[role] = replace(roles[role], settings={**roles[role].settings, **extra})
    for role, made in roles.items():
        if made.route not in routes:
            raise UsageError(
                f"profile {profile!r}: {role} names the route {made.route!r}; "
                f"there are {', '.join(sorted(routes))}"
            )
        routes[made.route] = _with_model(routes[made.route], made.model)
    return Setup(profile, routes, roles, variables, drafted.notes)


def _no_draft(profile: str, base: str) -> profiles.Draft:
    if base == profile:
        return profiles.Draft({}, {})
    raise UnknownName("profile to start from", base, profiles.PROFILES)


def _with_model(route: Route, model: str) -> Route:
    """A role's model is allowed on its route, whatever the table lists."""
    return route if model in route.models else replace(route, models=(*route.models, model))


def _changed(name: str, route: Route | None, table: RouteTable) -> Route:
    given = table.model_dump(exclude_none=True)
    if route is None:
        if table.base_url is None:
            raise UsageError(f"[models.routes.{name}] needs base_url: no built-in has that name")
        loopback = profiles.is_loopback(table.base_url)
        route = Route(name, table.base_url.rstrip("/"), Auth(), paid=not loopback)
        if table.kind == "vendor" and not (table.paths and table.fields):
            raise UsageError(f"[models.routes.{name}] is a vendor's: it needs paths and fields")
    changes: dict[str, Any] = {}
    for key in (
        "kind",
        "max_tokens",
        "max_n",
        "concurrency",
        "timeout_s",
        "patience_s",
        "retry_wait_s",
    ):
        if key in given:
            changes[key] = given[key]
    for key in ("stream", "paid", "prices", "force"):
        if key in given:
            changes[key] = given[key]
    for key in ("methods", "paths", "models"):
        if key in given:
            changes[key] = tuple(given[key])
    for key in ("aliases", "headers"):
        if key in given:
            changes[key] = tuple(given[key].items())
    if table.base_url:
        changes["base_url"] = table.base_url.rstrip("/")
    if table.fields is not None:
        own = {path: frozenset(names) for path, names in table.fields.items()}
        kept = {} if table.kind == "vendor" else {**OPENAI_FIELDS, **route.fields}
        changes["fields"] = {**kept, **own}
    changes["auth"] = replace(
        route.auth,
        **{
            field: given[key]
            for key, field in (
                ("key", "variable"),
                ("key_header", "header"),
                ("key_prefix", "prefix"),
            )
            if key in given
        },
    )
    return replace(route, **changes)
