"""What a model request may go to: routes, the five roles, and the setup of one run.

Frozen values only. Where they come from (``memrig.toml``, ``.env``, built-in profiles) is
:mod:`harness.models.setup`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from harness.models.dotenv import Secrets
from harness.outcomes import UsageError

Role = Literal["system", "embed", "answer", "judge", "vision"]
ROLES: tuple[str, ...] = get_args(Role)

CHAT = "/chat/completions"
RESPONSES = "/responses"
EMBEDDINGS = "/embeddings"
MODELS = "/models"
OPENAI_PATHS = (CHAT, RESPONSES, EMBEDDINGS, MODELS)

_SAMPLING = {"model", "temperature", "top_p", "stream", "stream_options"}
#: Fields that say nothing about the reply but would carry data or state to the upstream. They are
#: taken off every request, and the ledger names those that were.
DROPPED_FIELDS = frozenset(
    {"store", "user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier"}
)
_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}

#: The body fields that a route lets through, by path, unless its table says otherwise.
OPENAI_FIELDS: Mapping[str, frozenset[str]] = {
    CHAT: frozenset(
        _SAMPLING
        | _TOOLS
        | {"messages", "n", "max_tokens", "max_completion_tokens", "stop", "seed"}
        | {"response_format", "frequency_penalty", "presence_penalty", "logit_bias"}
        | {"logprobs", "top_logprobs", "functions", "function_call"}
        | {"reasoning_effort", "verbosity"}
    ),
    RESPONSES: frozenset(
        _SAMPLING
        | _TOOLS
        | {"input", "instructions", "max_output_tokens", "text", "reasoning", "truncation"}
        | {"top_logprobs", "max_tool_calls"}
    ),
    EMBEDDINGS: frozenset({"model", "input", "encoding_format", "dimensions"}),
    MODELS: frozenset(),
}

#: Fields that local servers understand besides; a ``local`` route lets them through.
LOCAL_FIELDS = frozenset(
    {"cache_prompt", "grammar", "top_k", "min_p", "repeat_penalty", "repetition_penalty"}
    | {"chat_template_kwargs"}
)

#: The white list of a local server's route.
LOCAL_ROUTE_FIELDS: Mapping[str, frozenset[str]] = {
    **OPENAI_FIELDS,
    CHAT: OPENAI_FIELDS[CHAT] | LOCAL_FIELDS,
}


@dataclass(frozen=True)
class Auth:
    """How a route shows its key: ``header: prefix + key``. No variable, no header."""

    variable: str | None = None
    header: str = "authorization"
    prefix: str = "Bearer "


@dataclass(frozen=True)
class Route:
    """One upstream and what may be asked of it.

    ``base_url`` is followed by the path as it stands (for OpenAI's API it ends in ``/v1``).
    ``paths`` may hold ``{name}`` for one segment. ``models``: allow-list, ``fnmatch`` patterns.
    ``aliases``: what a client asks for (pattern) -> what is sent. ``fields``: path -> white list;
    ``vendor`` routes list their own. ``max_tokens`` caps what may be asked for, and is what the
    budget reserves where nothing is asked. ``concurrency`` requests at once. ``timeout_s`` for one
    attempt, ``patience_s`` for all of them, ``retry_wait_s`` the first wait between them.
    ``stream`` asks the upstream for a stream, whatever the client asked for, and puts it together.
    ``paid``: somebody pays for it. ``prices`` names its section of the price list. ``force``: body
    fields that are set on every request.
    """

    name: str
    base_url: str
    auth: Auth = Auth()
    kind: Literal["openai", "vendor"] = "openai"
    methods: tuple[str, ...] = ("GET", "POST")
    paths: tuple[str, ...] = OPENAI_PATHS
    models: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    fields: Mapping[str, frozenset[str]] = field(default_factory=lambda: OPENAI_FIELDS)
    max_tokens: int = 16_384
    max_n: int = 8
    headers: tuple[tuple[str, str], ...] = ()
    concurrency: int = 5
    timeout_s: float = 120.0
    patience_s: float = 600.0
    retry_wait_s: float = 0.5
    stream: bool = False
    paid: bool = True
    prices: str | None = None
    force: Mapping[str, Any] = field(default_factory=dict)

    @property
    def price_section(self) -> str:
        """Under which name its models stand in the price list."""
        return self.prices or self.name

    def path_pattern(self, path: str) -> str | None:
        """The entry of ``paths`` that a path fits, or ``None``."""
        return next((entry for entry in self.paths if _fits(entry, path)), None)

    def model_for(self, asked: str) -> str | None:
        """The model that is sent when a client asks for ``asked``; ``None``: not allowed."""
        for pattern, target in self.aliases:
            if fnmatchcase(asked, pattern):
                return target
        if any(fnmatchcase(asked, pattern) for pattern in self.models):
            return asked
        return None


def _fits(pattern: str, path: str) -> bool:
    parts = re.split(r"\{[a-z_]+\}", pattern)
    return re.fullmatch("[^/?#]+".join(map(re.escape, parts)), path) is not None


@dataclass(frozen=True)
class RoleModel:
    """Which model serves a role, and with which decoding: ``route:model``.

    ``settings`` are body fields (temperature, max_tokens, seed) of the host's own calls.
    """

    route: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> RoleModel:
        """``route:model``; the model may hold more colons.

        Raises:
            UsageError: it is not of that form.
        """
        route, colon, model = text.partition(":")
        if not colon or not route or not model:
            raise UsageError(f"{text!r} is not ROUTE:MODEL, as in openai:gpt-4o-mini")
        return cls(route, model)

    def __str__(self) -> str:
        return f"{self.route}:{self.model}"


@dataclass(frozen=True)
class Setup:
    """Everything about models that one run is started with.

    ``notes`` are lines for the user: what was taken from where. ``secrets`` holds the values of
    the key variables; it shows none of them when printed.
    """

    profile: str
    routes: Mapping[str, Route]
    roles: Mapping[str, RoleModel]
    secrets: Secrets
    notes: tuple[str, ...] = ()

    @property
    def paid(self) -> bool:
        """Whether any role is served by a route that somebody pays for."""
        return any(self.routes[role.route].paid for role in self.roles.values())

    def role(self, name: str) -> RoleModel:
        """The model of a role.

        Raises:
            UsageError: the profile names none.
        """
        if name not in ROLES:
            raise UsageError(f"unknown role {name!r}; there are {', '.join(ROLES)}")
        found = self.roles.get(name)
        if found is None:
            raise UsageError(
                f"the profile {self.profile!r} names no model for the role {name!r}.\n"
                f'  memrig.toml: [profiles.{self.profile}] {name} = "ROUTE:MODEL"'
                + ("; or OPENAI_MODEL in .env" if name != "embed" else "")
            )
        return found

    def route(self, name: str) -> Route:
        """A route by name.

        Raises:
            UsageError: there is none.
        """
        if name not in self.routes:
            raise UsageError(f"unknown route {name!r}; there are {', '.join(sorted(self.routes))}")
        return self.routes[name]

    def key_of(self, route: Route) -> str | None:
        """The key that a route is opened with, or ``None``."""
        return self.secrets.get(route.auth.variable) if route.auth.variable else None

    def manifest(self) -> dict[str, Any]:
        """What the run's manifest and its cassette say about models.

        No key, no variable's value, no value of a header. :func:`setup_of` reads it back.
        """
        used = sorted({role.route for role in self.roles.values()})
        return {
            "profile": self.profile,
            "roles": {
                name: {"model": str(role), "settings": dict(role.settings)}
                for name, role in sorted(self.roles.items())
            },
            "routes": {name: _route_facts(self.routes[name]) for name in used},
        }


_KEPT = ("base_url", "kind", "max_tokens", "max_n", "stream", "paid")


def _route_facts(route: Route) -> dict[str, Any]:
    fields: Any = {path: sorted(names) for path, names in sorted(route.fields.items())}
    if route.fields in (OPENAI_FIELDS, LOCAL_ROUTE_FIELDS):
        fields = "openai" if route.fields == OPENAI_FIELDS else "local"
    return {
        **{name: getattr(route, name) for name in _KEPT},
        "methods": list(route.methods),
        "paths": list(route.paths),
        "models": list(route.models),
        "aliases": [list(pair) for pair in route.aliases],
        "headers": sorted(name for name, _ in route.headers),
        "fields": fields,
        "force": dict(route.force),
    }


def setup_of(facts: Mapping[str, Any], profile: str) -> Setup:
    """The setup that :meth:`Setup.manifest` described, without keys: for replay."""
    tables = {"openai": OPENAI_FIELDS, "local": LOCAL_ROUTE_FIELDS}
    routes = {}
    for name, known in facts["routes"].items():
        fields = known["fields"]
        routes[name] = Route(
            name,
            **{key: known[key] for key in _KEPT},
            methods=tuple(known["methods"]),
            paths=tuple(known["paths"]),
            models=tuple(known["models"]),
            aliases=tuple((pattern, target) for pattern, target in known["aliases"]),
            fields=tables[fields]
            if isinstance(fields, str)
            else {path: frozenset(names) for path, names in fields.items()},
            force=known["force"],
        )
    roles = {
        name: replace(RoleModel.parse(known["model"]), settings=known["settings"])
        for name, known in facts["roles"].items()
    }
    return Setup(profile, routes, roles, Secrets({}))
