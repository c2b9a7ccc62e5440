"""Asking an upstream, with the only retries there are: 429, 5xx, broken connections.

``Retry-After`` is honoured up to a minute; otherwise waits double from half a second, with jitter.
After a 429 they grow with the time since the route's last success instead: where others get
through, the limit is one of rate, and a request that was unlucky twice need not wait for minutes.
A request waits outside the route's lane, so others may be served meanwhile.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tenacity import RetryCallState, Retrying, retry_if_exception

from harness.models.failures import GatewayClosed, UpstreamFailure
from harness.models.http_pool import HttpError, HttpPool, HttpReply
from harness.models.lanes import Lanes
from harness.models.openai_compat import Compat
from harness.models.policy import Admitted
from harness.models.redact import Redactor
from harness.models.replies import failure_of, parse_reply
from harness.models.routes import CHAT, RESPONSES, Route, Setup

#: Longer replies would not fit on the pipe (64 MiB a line).
MAX_REPLY_BYTES = 60 * 1024 * 1024

MAX_WAIT_S = 60.0

#: How often a request is sent at most, by kind of failure. A rate limit is waited out for as long
#: as the route's patience lasts; what is not named here is final.
ATTEMPTS = {
    "MODEL_RATE_LIMITED": 1_000,
    "MODEL_UPSTREAM": 6,
    "MODEL_UNREACHABLE": 5,
    "MODEL_BAD_REPLY": 3,
    "MODEL_TIMEOUT": 2,
}

_KINDS = {
    "UNREACHABLE": "MODEL_UNREACHABLE",
    "BROKEN": "MODEL_UNREACHABLE",
    "TIMEOUT": "MODEL_TIMEOUT",
    "TOO_LARGE": "MODEL_REPLY_TOO_LARGE",
}


@dataclass(frozen=True)
class Answer:
    """A whole reply. ``ms`` of the attempt that brought it; ``queue_ms`` for a free lane."""

    status: int
    body: Any
    ms: float
    queue_ms: float
    attempts: int
    rewrites: tuple[str, ...] = ()


class Upstream:
    """All upstreams of one setup. Safe from any thread.

    Args:
        setup: routes and keys.
        redactor: goes over every message and error body.
        lanes: the concurrency limit of each route.
        compat: what models cannot take.
        http: the client; a default one when not given.
    """

    def __init__(
        self,
        setup: Setup,
        redactor: Redactor,
        lanes: Lanes,
        compat: Compat,
        http: HttpPool | None = None,
    ) -> None:
        self._setup = setup
        self._redactor = redactor
        self._lanes = lanes
        self._compat = compat
        self._http = http or HttpPool()
        self._closing = threading.Event()
        self._last_success: dict[str, float] = {}

    def ask(self, request: Admitted) -> Answer:
        """Get the reply to a request.

        Raises:
            UpstreamFailure: for good. GatewayClosed: the run is being stopped.
        """
        key = self._setup.key_of(request.route)
        if key is None and request.route.paid:
            variable = request.route.auth.variable
            raise UpstreamFailure(
                "MODEL_AUTH",
                f"route {request.route.name}: {variable or 'its key variable'} is not set; put it "
                "into the environment or into .env",
                attempts=0,
            )
        queued = [0.0]
        self._last_success.setdefault(request.route.name, time.monotonic())
        retrying = Retrying(
            retry=retry_if_exception(_worth_another),
            wait=lambda state: self._wait(state, request.route),
            stop=lambda state: _stop(state, request.route.patience_s + queued[0] / 1000),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    number = attempt.retry_state.attempt_number
                    return self._attempt(request, key, number, queued)
        except UpstreamFailure as failure:
            failure.attempts = retrying.statistics.get("attempt_number", 1)
            raise
        raise AssertionError("tenacity returned without a result")

    def _attempt(
        self, request: Admitted, key: str | None, number: int, queued: list[float]
    ) -> Answer:
        while True:
            body, rewrites = self._compat.adapt(request, _wire_body(request))
            with self._lanes.lane(request.route) as waited_ms:
                queued[0] += waited_ms
                if self._closing.is_set():
                    raise GatewayClosed
                began = time.perf_counter()
                reply = self._send(request, key, body)
                ms = (time.perf_counter() - began) * 1000
            if not 200 <= reply.status < 300:
                failure = failure_of(request, reply, self._redactor)
                learnt = reply.status in (400, 422) and self._compat.learn(
                    request, body, failure.body or failure.message
                )
                if learnt:
                    continue
                raise failure
            value = parse_reply(request, reply, self._redactor)
            self._last_success[request.route.name] = time.monotonic()
            return Answer(reply.status, value, ms, queued[0], number, tuple(rewrites))

    def _send(self, request: Admitted, key: str | None, body: Mapping[str, Any]) -> HttpReply:
        route = request.route
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        headers |= {"user-agent": "memrig", **dict(route.headers)}
        if key is not None:
            headers[route.auth.header] = route.auth.prefix + key
        data = None
        if request.method not in ("GET", "HEAD"):
            data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
            headers["content-type"] = "application/json"
        if body.get("stream"):
            headers["accept"] = "text/event-stream"
        url = route.base_url + request.path
        if request.query:
            url += "?" + urlencode(request.query)
        try:
            return self._http.ask(
                request.method,
                url,
                headers,
                data,
                timeout_s=route.timeout_s,
                max_bytes=MAX_REPLY_BYTES,
            )
        except HttpError as error:
            if error.kind == "CLOSED":
                raise GatewayClosed from None
            what = f"route {route.name} ({route.base_url}): {error}"
            if error.kind == "TIMEOUT":
                what += f" ({route.timeout_s:g} s)"
            raise UpstreamFailure(_KINDS[error.kind], self._redactor.text(what)) from None

    def _wait(self, state: RetryCallState, route: Route) -> float:
        """Seconds until the next attempt."""
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, UpstreamFailure) else None
        if asked is not None:
            # A little later than asked, and not all at once.
            asked = min(asked, MAX_WAIT_S)
            return asked + random.uniform(0, 0.05 + 0.05 * asked)
        longest = route.retry_wait_s * 2.0 ** min(state.attempt_number - 1, 16)
        if isinstance(error, UpstreamFailure) and error.kind == "MODEL_RATE_LIMITED":
            dry_s = time.monotonic() - self._last_success[route.name]
            longest = max(route.retry_wait_s, dry_s)
        longest = min(longest, MAX_WAIT_S)
        return random.uniform(longest / 2, longest)

    def _sleep(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise GatewayClosed

    def close(self) -> None:
        """Stop waiting, end what is open."""
        self._closing.set()
        self._http.close()


def _wire_body(request: Admitted) -> dict[str, Any]:
    body = dict(request.body)
    if request.route.stream and request.path in (CHAT, RESPONSES):
        body["stream"] = True
        if request.path == CHAT:
            body["stream_options"] = {"include_usage": True}
    return body


def _worth_another(error: BaseException) -> bool:
    return isinstance(error, UpstreamFailure) and error.kind in ATTEMPTS


def _stop(state: RetryCallState, patience_s: float) -> bool:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, UpstreamFailure):
        return True
    if (state.seconds_since_start or 0.0) + state.upcoming_sleep > patience_s:
        return True
    return state.attempt_number >= ATTEMPTS.get(error.kind, 1)
