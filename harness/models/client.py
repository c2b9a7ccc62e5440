"""The host's own way in: answerer and judges ask through the same gateway as the boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.models.canonical import Occurrences
from harness.models.cassette import Place
from harness.models.gateway import Gateway, Served
from harness.models.policy import Request
from harness.models.routes import CHAT, EMBEDDINGS
from harness.models.rows import Caller
from harness.models.usage import Tokens

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Completion:
    """One reply to the host.

    ``text`` is empty when the model said nothing; ``finish`` is its reason to stop (``length``: it
    was cut off). ``ms`` and ``list_usd`` are those of the first time, ``billed_usd`` of this one.
    """

    text: str
    finish: str | None
    model_reported: str | None
    tokens: Tokens
    ms: float
    list_usd: float | None
    billed_usd: float | None
    cache: str
    key: str | None
    raw: Mapping[str, Any]


class ModelClient:
    """Asks for one role. Safe from any thread.

    Args:
        gateway: of the run.
        role: ``answer``, ``judge``, ``embed`` or ``vision``.
        system: whose row pays: the baseline that is answered for or judged.

    Raises:
        UsageError: the profile names no model for the role.
    """

    def __init__(self, gateway: Gateway, role: str, system: str) -> None:
        self._gateway = gateway
        self.role, self.system = role, system
        self.model = gateway.backend.setup.role(role)
        self._route = gateway.backend.setup.route(self.model.route)

    def unit(self, sample: str, repeat: int = 0, session: str | None = None) -> ModelUnit:
        """The client for one unit of work (a question to answer, a judgement).

        Occurrences count from the unit's beginning, so a unit that is done again after a kill gets
        the replies that it got before. ``repeat`` is the repeat or vote index: with an explicit
        temperature of 0 it is the only way to another draw, for a parse retry as for a vote.
        """
        return ModelUnit(self, sample, repeat, session)

    def _ask(self, path: str, body: dict[str, Any], unit: ModelUnit) -> Served:
        caller = Caller(
            Place(self._gateway.run, self.system, unit.sample),
            unit.occurrences,
            stage=self.role,
            role=self.role,
            session=unit.session,
            repeat=unit.repeat,
        )
        return self._gateway.ask(Request(self._route.name, "POST", path, body), self._route, caller)

    def body(self, **fields: Any) -> dict[str, Any]:
        """A request body: the model, the role's settings, and over them what is given."""
        settings = {**self.model.settings, **{k: v for k, v in fields.items() if v is not None}}
        return {"model": self.model.model, **settings}

    @property
    def concurrency(self) -> int:
        """Requests that the route serves at once."""
        return self._route.concurrency


class ModelUnit:
    """See :meth:`ModelClient.unit`."""

    def __init__(
        self, client: ModelClient, sample: str, repeat: int, session: str | None = None
    ) -> None:
        self._client = client
        self.sample, self.repeat, self.session = sample, repeat, session
        self.occurrences = Occurrences()

    def chat(
        self,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Completion:
        """Ask for one completion. What is not given is as the role's settings have it.

        Raises:
            ModelFailure: typed; see :mod:`harness.models.failures`.
        """
        body = self._client.body(
            messages=[dict(message) for message in messages],
            temperature=temperature,
            max_tokens=max_tokens,
            response_format=dict(response_format) if response_format is not None else None,
            seed=seed,
        )
        served = self._client._ask(CHAT, body, self)
        choice = served.reply.body["choices"][0]
        content = choice["message"].get("content")
        return Completion(
            text=content if isinstance(content, str) else "",
            finish=choice.get("finish_reason"),
            model_reported=served.reply.model_reported,
            tokens=served.reply.tokens,
            ms=served.reply.ms,
            list_usd=served.reply.list_usd,
            billed_usd=served.row.get("billed_usd"),
            cache=served.cache,
            key=served.key,
            raw=served.reply.body,
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in their order.

        Raises:
            ModelFailure: typed; see :mod:`harness.models.failures`.
        """
        body = self._client.body(input=list(texts), encoding_format="float")
        data = self._client._ask(EMBEDDINGS, body, self).reply.body["data"]
        ordered = sorted(data, key=lambda entry: entry.get("index", 0))
        return [[float(number) for number in entry["embedding"]] for entry in ordered]
