from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.rig import KEY
from models.scripted import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A scripted model that takes one key."""
    with ScriptedServer(key=KEY) as made:
        yield made
