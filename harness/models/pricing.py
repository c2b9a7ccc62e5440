"""What a call costs. A price that nobody has seen is unknown, and unknown is not zero."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import strict_yaml
from harness.models.routes import Route
from harness.models.usage import Tokens
from harness.outcomes import DataError

SHIPPED = Path(__file__).with_name("pricing.yaml")

_Amount = Annotated[float, Field(ge=0)] | Literal["unknown"]


class PriceEntry(BaseModel):
    """One model in the YAML file: US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid")
    input: _Amount
    output: _Amount
    cached_input: _Amount = "unknown"
    seen: str


class PriceFile(BaseModel):
    """The YAML file."""

    model_config = ConfigDict(extra="forbid")
    schema_: Literal[1] = Field(alias="schema")
    sections: dict[str, dict[str, PriceEntry]]


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens, and where that was seen."""

    input: float
    output: float
    cached_input: float
    seen: str

    def cost(self, tokens: Tokens) -> float:
        """US dollars for these tokens."""
        fresh = max(tokens.prompt - tokens.cached, 0)
        cached = min(tokens.cached, tokens.prompt)
        return (
            fresh * self.input + cached * self.cached_input + tokens.completion * self.output
        ) / 1e6


FREE = Price(0.0, 0.0, 0.0, "nobody is paid for this route")


@dataclass(frozen=True)
class PriceList:
    """Prices by section and model pattern. ``sources``: file name -> sha256, for the manifest."""

    sections: Mapping[str, Mapping[str, Price | None]]
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, user: Path | None = None) -> PriceList:
        """The shipped list under the user's own.

        Raises:
            DataError: a list that cannot be read, with file and line.
        """
        merged: dict[str, dict[str, Price | None]] = {}
        sources = {}
        for path in (SHIPPED, *([user] if user else [])):
            for name, models in _read(path).sections.items():
                # The user's patterns are looked at first.
                given = {model: _price(entry) for model, entry in models.items()}
                merged[name] = {**given, **merged.get(name, {}), **given}
            sources[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(merged, sources)

    def of(self, route: Route, model: str | None) -> Price | None:
        """The price of a model on a route; ``None`` is unknown. What nobody pays for is free."""
        if not route.paid:
            return FREE
        if model is None:
            return None
        section = self.sections.get(route.price_section, {})
        if model in section:
            return section[model]
        return next((p for pattern, p in section.items() if fnmatchcase(model, pattern)), None)


def _read(path: Path) -> PriceFile:
    value, lines = strict_yaml.load(path)
    try:
        return PriceFile.model_validate(value)
    except ValidationError as error:
        known = {"schema": "1", "sections": "prices by route"}
        raise DataError(strict_yaml.problems_of(error, path, lines, known)) from None


def _price(entry: PriceEntry) -> Price | None:
    if entry.input == "unknown" or entry.output == "unknown":
        return None
    # Without a price of their own, cached tokens are charged in full: never too little.
    cached = entry.input if entry.cached_input == "unknown" else entry.cached_input
    return Price(float(entry.input), float(entry.output), float(cached), entry.seen)
