"""Is it a reply? What an upstream sent, as a value or as a typed failure."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from harness.models.failures import UpstreamFailure
from harness.models.http_pool import HttpReply
from harness.models.policy import Admitted
from harness.models.redact import Redactor
from harness.models.routes import CHAT, EMBEDDINGS, RESPONSES
from harness.models.streams import StreamBroken, StreamError, collapse

#: What a reply must hold, by path: a list that is not empty.
_MUST_HOLD = {CHAT: "choices", EMBEDDINGS: "data", RESPONSES: "output"}
_RETRIED = {408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_SHOWN = 300


def parse_reply(request: Admitted, reply: HttpReply, redactor: Redactor) -> Any:
    """The value of a reply with a 2xx status.

    Raises:
        UpstreamFailure: MODEL_BAD_REPLY, or what an error object in the reply says.
    """
    vendor = request.route.kind == "vendor"
    if not reply.body.strip():
        if vendor:
            return {}
        _bad(request, "an empty body")
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream" and not vendor:
        value = _collapsed(request, reply, redactor)
    elif kind == "application/json" or kind.endswith("+json"):
        value = _json(request, reply.body)
    else:
        start = redactor.text(reply.body[:80].decode("utf-8", "replace"))
        _bad(request, f"the content type {kind or '(none)'!r}, beginning with {start!r}")
    if redactor.holds_secret(reply.body):
        value = redactor.known_in(value)
    if vendor:
        return value
    if not isinstance(value, dict):
        _bad(request, f"JSON that is no object but a {type(value).__name__}")
    if value.get("error") and _MUST_HOLD.get(request.path, "") not in value:
        raise _of_error(request, value["error"], redactor)
    if wrong := _not_whole(request, value):
        _bad(request, wrong)
    return value


def _not_whole(request: Admitted, value: dict[str, Any]) -> str | None:
    """What an answer of this path must hold and does not, if so."""
    needed = _MUST_HOLD.get(request.path)
    if needed is None:
        return None
    entries = value.get(needed)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return f"no list of {needed}"
    if request.path == CHAT and not all(isinstance(e.get("message"), dict) for e in entries):
        return "a choice without a message"
    if request.path == CHAT and not entries:
        return "no choices"
    if request.path == EMBEDDINGS:
        source = request.body.get("input")
        texts = isinstance(source, list) and not isinstance(source[0], int)
        wanted = len(source) if texts and isinstance(source, list) else 1
        if len(entries) != wanted:
            return f"{len(entries)} embeddings for {wanted} inputs"
    return None


def failure_of(request: Admitted, reply: HttpReply, redactor: Redactor) -> UpstreamFailure:
    """The failure that a status outside 2xx means."""
    body: Any
    try:
        body = redactor.value(json.loads(reply.body))
    except (ValueError, RecursionError):
        body = redactor.text(reply.body[:_SHOWN].decode("utf-8", "replace"))
    kind = _kind(reply.status, body)
    said = _message(body)
    if kind == "MODEL_AUTH":
        variable = request.route.auth.variable
        said += f" (the key is in {variable})" if variable else ""
    elif 300 <= reply.status < 400:
        where = redactor.text(reply.headers.get("location", "elsewhere"))
        said = f"it redirects to {where}; give that as base_url"
    return UpstreamFailure(
        kind,
        f"route {request.route.name}: HTTP {reply.status}: {said or 'no reason given'}",
        status=reply.status,
        body=body,
        retry_after_s=retry_after_s(reply.headers),
    )


def _kind(status: int, body: Any) -> str:
    inner = body.get("error") if isinstance(body, Mapping) else None
    code = inner.get("code") or inner.get("type") if isinstance(inner, Mapping) else None
    if code == "insufficient_quota" or status == 402:
        return "MODEL_QUOTA"
    if status == 429:
        return "MODEL_RATE_LIMITED"
    if status in (401, 403):
        return "MODEL_AUTH"
    if status == 404 or code == "model_not_found":
        return "MODEL_UNKNOWN"
    if status in _RETRIED or status >= 500:
        return "MODEL_UPSTREAM"
    return "MODEL_BAD_REQUEST"


def _collapsed(request: Admitted, reply: HttpReply, redactor: Redactor) -> dict[str, Any]:
    try:
        return collapse(request.path, reply.body)
    except StreamBroken as error:
        raise UpstreamFailure("MODEL_UNREACHABLE", f"route {request.route.name}: {error}") from None
    except StreamError as error:
        raise _of_error(request, error.error, redactor) from None


def _of_error(request: Admitted, error: Any, redactor: Redactor) -> UpstreamFailure:
    """An error object inside of a reply with status 200 (routers do this)."""
    body = {"error": redactor.value(error)}
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 502
    message = f"route {request.route.name}: an error in the reply: {_message(body)}"
    return UpstreamFailure(_kind(status, body), message, status=status, body=body)


def _json(request: Admitted, data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _bad(request, f"a body that is not UTF-8: {error.reason}")
    except (ValueError, RecursionError) as error:
        _bad(request, f"a body that is not JSON: {error}")
    if (b"\\ud" in data or b"\\uD" in data) and _has_half_character(value):
        _bad(request, "half a character (a lone surrogate)")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _has_half_character(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _bad(request: Admitted, what: str) -> NoReturn:
    raise UpstreamFailure("MODEL_BAD_REPLY", f"route {request.route.name} replied with {what}")


def _message(body: Any) -> str:
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, Mapping):
        inner = inner.get("message") or inner.get("detail") or inner
    return str(inner)[:_SHOWN]


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that an upstream asks to wait: ``retry-after-ms``, seconds, or an HTTP date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                date = email.utils.parsedate_to_datetime(value)
            except ValueError:
                continue
            seconds = max(date.timestamp() - (time.time() if now is None else now), 0.0)
        if 0 <= seconds < float("inf"):
            return seconds
    return None
