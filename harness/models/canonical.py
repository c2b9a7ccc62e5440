"""When two requests are the same request: canonical form, key, and the index of a repetition.

The key holds route, method, path, body, sample, repeat (or vote), and ``i``. Not in it: the run,
the attempt, the system, time-outs, whether the reply was streamed. So runs share what they ask
alike, and a resumed attempt finds what it paid for.

``i``: embeddings and requests with an explicit temperature of 0 are meant to give one reply, so
``i`` is 0 and equal requests that are open at once share one. Any other request is a draw. Its
``i`` counts its occurrences within the sample's attempt, so the second draw is another draw, in
replay too. A temperature that is not given is not 0: it is the upstream's default, 1.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.models.failures import Refused
from harness.models.policy import Admitted
from harness.models.routes import EMBEDDINGS, MODELS

#: Part of every key: a change of the canonical form changes all keys, so it is a new form.
FORM = 1


@dataclass(frozen=True)
class Canonical:
    """A request in canonical form.

    ``text`` is the canonical JSON of everything in the key but ``i``; ``base`` its hash.
    """

    text: str
    base: str
    deterministic: bool

    def key(self, i: int) -> str:
        """The key of the ``i``-th occurrence (64 hex digits)."""
        return hashlib.sha256(f"{self.base}:{i}".encode()).hexdigest()


def canonical(request: Admitted, sample: str, repeat: int = 0) -> Canonical:
    """The canonical form of an admitted request.

    Raises:
        Refused: the body holds what JSON in UTF-8 cannot carry (NaN, half a character).
    """
    whole = {
        "form": FORM,
        "route": request.route.name,
        "method": request.method,
        "path": request.path,
        "query": sorted(list(pair) for pair in request.query),
        "body": request.body,
        "sample": sample,
        "repeat": repeat,
    }
    try:
        text = dumps(whole)
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    except (ValueError, TypeError, RecursionError) as error:
        raise Refused("form", f"the body is no JSON in UTF-8: {error}") from None
    return Canonical(text, digest, _deterministic(request))


def _deterministic(request: Admitted) -> bool:
    if request.path in (EMBEDDINGS, MODELS):
        return True
    temperature = request.body.get("temperature")
    return (
        isinstance(temperature, int | float)
        and not isinstance(temperature, bool)
        and temperature == 0
    )


def dumps(value: Any) -> str:
    """JSON with sorted keys, without spaces, and with one spelling for each number."""
    return json.dumps(
        _plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def _plain(value: Any) -> Any:
    """Numbers that are equal become one spelling: 1.0 and 1, 0.0 and -0.0. True stays true."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


class Occurrences:
    """Counts how often each request was made since an attempt began. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def next(self, request: Canonical) -> int:
        """The index ``i`` of this occurrence."""
        if request.deterministic:
            return 0
        with self._lock:
            self._seen[request.base] += 1
            return self._seen[request.base] - 1
