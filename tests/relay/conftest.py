from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.rig import Host, SDKBox, started


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SDKBox, Host]]:
    """One box for all tests that leave it as it was: it takes a second to import the SDK."""
    host = Host()
    with started(tmp_path_factory.mktemp("logs"), host) as made:
        yield made, host


@pytest.fixture
def sdk(shared: tuple[SDKBox, Host]) -> SDKBox:
    return shared[0]


@pytest.fixture
def host(shared: tuple[SDKBox, Host]) -> Host:
    shared[1].answer = None
    shared[1].asked.clear()
    shared[1].released.clear()
    return shared[1]
