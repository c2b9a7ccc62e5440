"""The built-in profiles: which upstreams memrig knows by name, and what each needs.

A profile is a set of routes and the models of the five roles. The addresses are the vendors'
documented ones; each may be changed in ``memrig.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from harness.models.dotenv import Secrets
from harness.models.routes import LOCAL_ROUTE_FIELDS, OPENAI_FIELDS, Auth, RoleModel, Route
from harness.outcomes import UsageError

PROFILES = ("openai", "azure", "openrouter", "vllm", "ollama", "embedded", "replay")

OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"

#: Where a model's first letters say who made it; OpenRouter wants the maker before the name.
_MAKERS = (
    (("gpt-", "o1", "o3", "o4", "chatgpt-", "text-embedding-"), "openai"),
    (("claude-",), "anthropic"),
    (("gemini-", "gemma-"), "google"),
    (("qwen",), "qwen"),
    (("deepseek-",), "deepseek"),
    (("llama-",), "meta-llama"),
    (("mistral-", "mixtral-"), "mistralai"),
)

#: The weights that the embedded provider serves (``memrig models list``).
EMBEDDED_CHAT = "qwen2.5-coder-0.5b"
EMBEDDED_EMBED = "use-multilingual"


@dataclass(frozen=True)
class Draft:
    """Routes and roles before ``memrig.toml`` has its say."""

    routes: Mapping[str, Route]
    roles: Mapping[str, RoleModel]
    notes: tuple[str, ...] = ()


def draft(profile: str, variables: Secrets) -> Draft:
    """The built-in draft of a profile.

    Raises:
        UsageError: no such profile, or a variable that it cannot do without is missing or wrong.
    """
    if profile == "openai":
        return _openai(variables)
    if profile == "openrouter":
        return _openrouter(variables, "openrouter", ())
    if profile in ("azure", "vllm", "ollama", "embedded"):
        return _simple(profile, variables)
    if profile == "replay":  # the cassette says which routes and roles there were
        return Draft({}, {})
    raise UsageError(f"unknown profile {profile!r}; built in are {', '.join(PROFILES)}")


def _openai(variables: Secrets) -> Draft:
    has_own = "OPENAI_API_KEY" in variables
    base_url = variables.get("OPENAI_BASE_URL", OPENAI_URL).rstrip("/")
    own_address = "OPENAI_BASE_URL" in variables and not _is_openai(base_url)
    if not has_own and not own_address and "OPENROUTER_API_KEY" in variables:
        model = variables.get("OPENAI_MODEL", "")
        as_what = f", {model} as {openrouter_name(model)}" if model else ""
        note = f"OPENAI_API_KEY is not set: chat and judge go through OpenRouter{as_what}"
        return _openrouter(variables, "openrouter", (note,))
    tuned = _tuning(variables, "")
    main = Route(
        "openai",
        base_url,
        Auth("OPENAI_API_KEY"),
        paid=not is_loopback(base_url),
        fields=LOCAL_ROUTE_FIELDS if is_loopback(base_url) else OPENAI_FIELDS,
        **tuned,
    )
    routes, roles = {"openai": main}, _roles(variables, "openai")
    if any(f"{name}_JUDGE" in variables for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")):
        judge_url = variables.get("OPENAI_BASE_URL_JUDGE", base_url).rstrip("/")
        key = "OPENAI_API_KEY_JUDGE" if "OPENAI_API_KEY_JUDGE" in variables else "OPENAI_API_KEY"
        routes["judge"] = Route(
            "judge",
            judge_url,
            Auth(key),
            paid=not is_loopback(judge_url),
            prices="openai",
            **{**tuned, **_tuning(variables, "_JUDGE")},
        )
        if "judge" in roles:
            roles["judge"] = RoleModel("judge", roles["judge"].model, roles["judge"].settings)
    return Draft(routes, roles)


def _openrouter(variables: Secrets, name: str, notes: tuple[str, ...]) -> Draft:
    route = Route(
        name,
        OPENROUTER_URL,
        Auth("OPENROUTER_API_KEY"),
        **_tuning(variables, ""),
    )
    roles = {
        role: RoleModel(made.route, openrouter_name(made.model), made.settings)
        for role, made in _roles(variables, name).items()
        if role != "embed"
    }
    wanted = {variables[key] for key in ("OPENAI_MODEL", "OPENAI_MODEL_JUDGE") if key in variables}
    aliases = tuple((model, openrouter_name(model)) for model in sorted(wanted) if "/" not in model)
    return Draft({name: replace(route, aliases=aliases)}, roles, notes)


def _simple(profile: str, variables: Secrets) -> Draft:
    tuned = _tuning(variables, "")
    if profile == "azure":
        endpoint = variables.get("AZURE_OPENAI_ENDPOINT")
        if not endpoint:
            raise UsageError(
                "the profile azure needs AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com) "
                "and AZURE_OPENAI_API_KEY, in the environment or in .env"
            )
        auth = Auth("AZURE_OPENAI_API_KEY", "api-key", "")
        url = endpoint.rstrip("/").removesuffix("/openai/v1") + "/openai/v1"
        return Draft(
            {"azure": Route("azure", url, auth, prices="openai", **tuned)},
            _roles(variables, "azure"),
        )
    local = {
        "vllm": ("VLLM_BASE_URL", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
        "ollama": ("OLLAMA_BASE_URL", "http://127.0.0.1:11434/v1", None),
        "embedded": ("MEMRIG_EMBEDDED_URL", "http://127.0.0.1:8765/v1", None),
    }
    variable, default, key = local[profile]
    url = variables.get(variable, default).rstrip("/")
    route = Route(profile, url, Auth(key), paid=False, fields=LOCAL_ROUTE_FIELDS, **tuned)
    if profile != "embedded":
        return Draft({profile: route}, _roles(variables, profile))
    # One slot and no prompt cache: otherwise the same request gives two texts.
    route = replace(
        route,
        concurrency=1,
        timeout_s=600.0,
        patience_s=1800.0,
        force={"cache_prompt": False},
        aliases=(("text-embedding-*", EMBEDDED_EMBED), ("gpt-*", EMBEDDED_CHAT)),
    )
    chat = RoleModel("embedded", EMBEDDED_CHAT)
    return Draft(
        {"embedded": route},
        {"system": chat, "answer": chat, "embed": RoleModel("embedded", EMBEDDED_EMBED)},
    )


def _roles(variables: Secrets, route: str) -> dict[str, RoleModel]:
    """Roles from the seed's names. No ``OPENAI_MODEL``, no roles: memrig picks no model."""
    roles: dict[str, RoleModel] = {}
    decoding = _decoding(variables, "")
    if model := variables.get("OPENAI_MODEL"):
        for role in ("system", "answer", "vision"):
            roles[role] = RoleModel(route, model, decoding if role == "answer" else {})
    if model := variables.get("OPENAI_MODEL_JUDGE", variables.get("OPENAI_MODEL")):
        judge = {**decoding, **_decoding(variables, "_JUDGE")}
        if "JUDGE_TEMPERATURE" in variables:
            judge["temperature"] = _number(variables, "JUDGE_TEMPERATURE", float)
        roles["judge"] = RoleModel(route, model, judge)
    if model := variables.get("OPENAI_EMBEDDING_MODEL"):
        roles["embed"] = RoleModel(route, model)
    return roles


def _decoding(variables: Secrets, suffix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if f"OPENAI_TEMPERATURE{suffix}" in variables:
        found["temperature"] = _number(variables, f"OPENAI_TEMPERATURE{suffix}", float)
    if f"OPENAI_MAX_TOKENS{suffix}" in variables:
        found["max_tokens"] = _number(variables, f"OPENAI_MAX_TOKENS{suffix}", int)
    return found


def _tuning(variables: Secrets, suffix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if f"OPENAI_TIMEOUT{suffix}" in variables:
        found["timeout_s"] = _number(variables, f"OPENAI_TIMEOUT{suffix}", float)
    if f"LLM_MAX_CONCURRENT{suffix}" in variables:
        found["concurrency"] = _number(variables, f"LLM_MAX_CONCURRENT{suffix}", int)
    return found


def _number(variables: Secrets, name: str, kind: type[int] | type[float]) -> Any:
    try:
        value = kind(variables[name])
    except ValueError:
        raise UsageError(f"{name} must be a number, not {variables[name]!r}") from None
    lowest = 0.0 if "TEMPERATURE" in name else 1e-9
    if not lowest <= value < float("inf"):
        raise UsageError(f"{name} must be a positive number, not {variables[name]!r}")
    return value


def openrouter_name(model: str) -> str:
    """``gpt-4o`` -> ``openai/gpt-4o``; a name that has its maker, or an unknown one, stays."""
    if "/" in model:
        return model
    for starts, maker in _MAKERS:
        if model.lower().startswith(starts):
            return f"{maker}/{model}"
    return model


def _is_openai(url: str) -> bool:
    return url.startswith("https://api.openai.com")


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine, where nobody is paid."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"
