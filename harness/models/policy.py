"""What may leave: the rules that keep the model port from being a way out of the box.

Only declared routes, methods and paths; only white-listed body fields; only allowed models; images
only as data URLs; no tools that the upstream would run; no files; no state at the upstream; caps on
tokens and on ``n``. A request that breaks a rule is refused by name. Nothing is repaired in
silence: the few fields that are taken off stand in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.models.failures import Refused
from harness.models.routes import CHAT, DROPPED_FIELDS, EMBEDDINGS, MODELS, RESPONSES, Route

#: Fields that keep state at the upstream or fetch what was put there. ``background`` that is false
#: asks for nothing and is only taken off.
_STATE_FIELDS = {
    "previous_response_id": "the upstream would have to keep earlier replies",
    "conversation": "the upstream would have to keep the conversation",
    "background": "the reply would have to be fetched later",
    "prompt": "the prompt would be taken from the upstream's store",
}
_TOKEN_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CHAT_PARTS = {"text", "image_url", "refusal"}
_RESPONSE_PARTS = {"input_text", "output_text", "input_image", "refusal", "summary_text"}
_RESPONSE_ITEMS = {"message", "function_call", "function_call_output", "reasoning"}
_CLIENT_TOOLS = {"function", "custom"}


@dataclass(frozen=True)
class Request:
    """A request as a client made it: ``params`` of ``model.call`` or of the host's own client.

    ``path`` is below ``base_url`` and starts with ``/``; ``query`` holds what stood behind ``?``.
    """

    route: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Request:
        """Read the parameters of ``model.call``; headers are never looked at.

        Raises:
            Refused: they are none.
        """
        route, method, path = (params.get(key, "") for key in ("route", "method", "path"))
        body = params.get("body")
        if not all(isinstance(value, str) for value in (route, method, path)):
            raise Refused("form", "route, method and path must be text")
        if body is not None and not isinstance(body, Mapping):
            raise Refused("form", f"the body must be a JSON object, not {type(body).__name__}")
        if not path.startswith("/") or "#" in path or "\\" in path:
            raise Refused("path", f"{path[:200]!r} is no path")
        split = urlsplit("http://box" + path)
        return cls(route, method.upper(), split.path, body, tuple(parse_qsl(split.query, True)))


@dataclass(frozen=True)
class Admitted:
    """A request that may leave. ``body`` is what goes into the key and, but for what the model
    cannot take, upstream. ``asked`` is the model the client named; ``dropped`` what was taken off.
    """

    route: Route
    method: str
    path: str
    body: dict[str, Any]
    asked: str | None
    model: str | None
    query: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    wants_stream: bool = False


def admit(request: Request, route: Route) -> Admitted:
    """Hold a request to the rules of its route.

    Raises:
        Refused: it breaks one; the message says which, and what would be allowed.
    """
    path = _path(request, route)
    pattern = route.path_pattern(path)
    if pattern is None:
        raise Refused("path", f"route {route.name}: {path!r} is not in {', '.join(route.paths)}")
    if request.method not in route.methods:
        allowed = ", ".join(route.methods)
        raise Refused("method", f"route {route.name}: {request.method!r} is not in {allowed}")
    body = dict(request.body or {})
    if request.method in ("GET", "HEAD") and body:
        raise Refused("form", f"{request.method} {path} has no body")
    dropped = tuple(sorted(name for name in DROPPED_FIELDS & body.keys()))
    if route.kind == "vendor":
        dropped = ()
    for name in dropped:
        del body[name]
    body = {name: value for name, value in body.items() if value is not None}
    if route.kind == "openai":
        _no_state(body)
    _white_list(body, request.query, route, pattern)
    wants_stream = bool(body.pop("stream", False))
    body.pop("stream_options", None)
    asked = model = None
    if route.kind == "openai" and pattern != MODELS:
        asked, model = _model(body, route)
        body["model"] = model
        _caps(body, route)
        _no_way_out(body, pattern)
        allowed_here = route.fields.get(pattern, frozenset())
        body.update({name: value for name, value in route.force.items() if name in allowed_here})
    return Admitted(
        route, request.method, path, body, asked, model, request.query, dropped, wants_stream
    )


def _path(request: Request, route: Route) -> str:
    path = request.path.rstrip("/") or "/"
    if route.kind == "openai":
        path = path.removeprefix("/v1") or "/"
    if any(part in (".", "..") for part in path.split("/")) or "%" in path or "//" in path:
        raise Refused("path", f"{path[:200]!r} is no plain path")
    return path


def _no_state(body: dict[str, Any]) -> None:
    if body.get("background") is False:
        del body["background"]
    for name, why in _STATE_FIELDS.items():
        if name in body:
            raise Refused("state", f"{name}: {why}; send the whole conversation instead")


def _white_list(
    body: Mapping[str, Any], query: tuple[tuple[str, str], ...], route: Route, pattern: str
) -> None:
    allowed = route.fields.get(pattern, frozenset())
    extra = sorted({*body, *(name for name, _ in query)} - allowed)
    if extra and "*" not in allowed:
        raise Refused(
            "field",
            f"route {route.name} {pattern}: the fields {', '.join(extra)} are not let through; "
            f"allowed: {', '.join(sorted(allowed)) or 'none'}",
        )


def _model(body: Mapping[str, Any], route: Route) -> tuple[str, str]:
    asked = body.get("model")
    if not isinstance(asked, str) or not asked:
        raise Refused("model", "the request names no model")
    model = route.model_for(asked)
    if model is None:
        allowed = [*route.models, *(name for name, _ in route.aliases)]
        raise Refused(
            "model",
            f"route {route.name}: the model {asked!r} is not allowed; allowed: "
            f"{', '.join(allowed) or 'none'}. An alias makes it one of these: "
            f'[models.routes.{route.name}] aliases = {{ "{asked}" = "MODEL" }}',
        )
    return asked, model


def _caps(body: Mapping[str, Any], route: Route) -> None:
    for name in _TOKEN_FIELDS:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Refused("cap", f"{name} must be a whole number above 0")
        if value > route.max_tokens:
            raise Refused(
                "cap", f"{name} is {value}; route {route.name} ends at {route.max_tokens}"
            )
    n = body.get("n", 1)
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= route.max_n:
        raise Refused("cap", f"n is {n!r}; route {route.name} takes 1 to {route.max_n}")


def _no_way_out(body: Mapping[str, Any], pattern: str) -> None:
    _only_client_tools(body)
    if pattern == CHAT:
        for message in _objects(body.get("messages"), "messages"):
            if "audio" in message:
                raise Refused("part", "messages that refer to audio are not let through")
            _content(message.get("content"), _CHAT_PARTS)
    elif pattern == RESPONSES:
        source = body.get("input")
        if isinstance(source, str):
            return
        for item in _objects(source, "input"):
            kind = item.get("type", "message")
            if kind not in _RESPONSE_ITEMS:
                raise Refused("part", f"input items of the type {kind!r} are not let through")
            _content(item.get("content"), _RESPONSE_PARTS)
            if kind == "function_call_output":
                _content(item.get("output"), _RESPONSE_PARTS)
    elif pattern == EMBEDDINGS:
        _embedding_input(body.get("input"))


def _only_client_tools(body: Mapping[str, Any]) -> None:
    """Tools that the client runs itself are plain text to the upstream; all others act there."""
    for tool in _objects(body.get("tools") or [], "tools"):
        if tool.get("type") not in _CLIENT_TOOLS:
            raise Refused("tool", f"tools that the upstream runs are refused: {tool.get('type')!r}")
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") not in {*_CLIENT_TOOLS, "allowed_tools"}:
        raise Refused("tool", f"tool_choice names a tool of the upstream: {choice.get('type')!r}")


def _content(content: Any, allowed: set[str]) -> None:
    if content is None or isinstance(content, str):
        return
    for part in _objects(content, "content"):
        kind = part.get("type")
        if kind not in allowed:
            raise Refused("part", f"content of the type {kind!r} is not let through")
        if kind in ("image_url", "input_image"):
            _image(part)


def _image(part: Mapping[str, Any]) -> None:
    if part.get("file_id") is not None:
        raise Refused(
            "file", "files kept at the upstream are refused: send the image as a data URL"
        )
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else image
    if not isinstance(url, str) or not url.lower().startswith("data:image/"):
        raise Refused("image", "an image must be a data URL: the upstream fetches no addresses")


def _embedding_input(source: Any) -> None:
    entries = source if isinstance(source, list) else [source]
    plain = all(
        isinstance(entry, str | int) or (isinstance(entry, list) and all(map(_is_int, entry)))
        for entry in entries
    )
    if not entries or not plain or source is None:
        raise Refused("form", "the input of an embedding must be texts or tokens")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _objects(value: Any, what: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise Refused("form", f"{what} must be a list")
    for entry in value:
        if not isinstance(entry, Mapping):
            raise Refused("form", f"{what} must be a list of objects")
        yield entry
