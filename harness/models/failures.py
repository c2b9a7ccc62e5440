"""Every way in which a model request can fail, as one small tree under ``ModelFailure``.

=====================  =====================================================================
kind                   meaning
=====================  =====================================================================
MODEL_REFUSED          the policy said no; ``reason`` names the rule (field, model, image, ...)
BUDGET_EXHAUSTED       the reservation does not fit; a status of the unit, never a wrong answer
PRICE_UNKNOWN          a money budget is set and nobody has told us what this model costs
REPLAY_MISS            replay mode, and the cassette does not hold this request
MODEL_AUTH             the key is missing or the upstream does not take it (401, 403)
MODEL_UNKNOWN          the upstream does not know the model or the path (404)
MODEL_BAD_REQUEST      the upstream refused the request (other 4xx)
MODEL_QUOTA            the account has no credit; waiting does not help
MODEL_RATE_LIMITED     429 until patience ran out
MODEL_UPSTREAM         5xx until patience ran out
MODEL_UNREACHABLE      no connection, or it broke in the middle of the reply
MODEL_TIMEOUT          no whole reply within the route's time
MODEL_BAD_REPLY        empty, not JSON, cut off, of another content type
MODEL_REPLY_TOO_LARGE  longer than fits on the pipe
EMBEDDING_DIMENSION    a vector of another length than this model gave before
TRUNCATED_PROMPT       the upstream counted far fewer prompt tokens than were sent
STORE_FULL             the reply cannot be recorded: no space
GATEWAY_CLOSED         the run is being stopped
=====================  =====================================================================

Only a reply with a 2xx status that is whole and makes sense is recorded; none of these ever is.
"""

from __future__ import annotations

from harness.outcomes import ModelFailure

#: What the HTTP side of a box answers its SDK for failures that never reached an upstream.
#: Upstream failures keep the upstream's own status.
HTTP_STATUS = {
    "MODEL_REFUSED": 403,
    "BUDGET_EXHAUSTED": 402,
    "PRICE_UNKNOWN": 402,
    "REPLAY_MISS": 404,
    "MODEL_AUTH": 401,
    "MODEL_TIMEOUT": 504,
    "MODEL_UNREACHABLE": 502,
    "MODEL_BAD_REPLY": 502,
    "MODEL_REPLY_TOO_LARGE": 502,
    "EMBEDDING_DIMENSION": 502,
    "TRUNCATED_PROMPT": 502,
    "STORE_FULL": 507,
    "GATEWAY_CLOSED": 503,
}


class Refused(ModelFailure):
    """The policy does not let this request out. ``reason`` is the rule, one word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__("MODEL_REFUSED", message)
        self.reason = reason


class BudgetExhausted(ModelFailure):
    """A reservation does not fit into what is left. ``scope`` is run, system or sample."""

    def __init__(self, scope: str, message: str) -> None:
        super().__init__("BUDGET_EXHAUSTED", message)
        self.scope = scope


class PriceUnknown(ModelFailure):
    """Money is budgeted and the price of the model is not known."""

    def __init__(self, message: str) -> None:
        super().__init__("PRICE_UNKNOWN", message)


class ReplayMiss(ModelFailure):
    """The cassette does not hold this request; the message shows the nearest one that it holds."""

    def __init__(self, message: str) -> None:
        super().__init__("REPLAY_MISS", message)


class StoreFull(ModelFailure):
    """There is no space left to record into. What was recorded before is kept."""

    def __init__(self, message: str) -> None:
        super().__init__("STORE_FULL", message)


class GatewayClosed(ModelFailure):
    """The run is being stopped; nothing more is asked of any model."""

    def __init__(self) -> None:
        super().__init__("GATEWAY_CLOSED", "the run is being stopped")


class UpstreamFailure(ModelFailure):
    """The upstream failed for good, after our own retries.

    Args:
        kind: one of the ``MODEL_...`` kinds, EMBEDDING_DIMENSION or TRUNCATED_PROMPT.
        message: one sentence, redacted.
        status: the upstream's HTTP status, where one came back.
        body: its error object, redacted, where it sent one.
        attempts: how often it was asked.
        retry_after_s: how long it asked us to wait, where it did.
        billed: a whole reply came back that will be paid for.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        body: object = None,
        attempts: int = 1,
        retry_after_s: float | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(kind, message)
        self.status = status
        self.body = body
        self.attempts = attempts
        self.retry_after_s = retry_after_s
        self.billed = billed
