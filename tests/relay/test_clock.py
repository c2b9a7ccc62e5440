"""The box's clock follows the session; everything that takes real time still takes it."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.adapter.clock import nanoseconds
from harness.adapter.records import NormalizedTurn
from harness.catalog import Catalog
from harness.outcomes import SandboxFailure
from harness.sandbox.base import BoxRequest
from harness.sandbox.client import MemoryClient
from relay.rig import BOXES, ROOT, SDK, Host, SDKBox, launcher, started

THEN = "2023-05-08T13:56:00"


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SDKBox, Host]]:
    """A box whose clock follows the session."""
    host = Host()
    with started(tmp_path_factory.mktemp("logs"), host, MEMRIG_CLOCK="session") as made:
        yield made, host


@pytest.fixture
def box(clocked: tuple[SDKBox, Host]) -> SDKBox:
    """The same, anew."""
    MemoryClient(clocked[0].box).reset()
    return clocked[0]


def turn(i: int, moment: str | None) -> NormalizedTurn:
    return NormalizedTurn("s0001", "S01", i, "user", f"turn {i}", time=moment)


def is_now(text: str) -> bool:
    return abs((datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds()) < 60


def test_the_hello_says_which_clock_it_is(box: SDKBox, tmp_path: Path) -> None:
    assert box.box.hello["clock"] == "session"
    with started(tmp_path, Host(), routes=(), OPENAI_API_KEY="none") as other:
        assert other.box.hello["clock"] == "real"
        assert is_now(other.do("clock", time=THEN)["utc"])


def test_a_question_is_asked_on_its_own_day(box: SDKBox) -> None:
    seen = box.do("clock", time=THEN)
    assert seen["now"].startswith(THEN)
    assert seen["utc"].startswith(THEN)
    assert seen["utc"].endswith("+00:00")
    assert seen["today"] == seen["strftime"] == "2023-05-08"
    assert int(seen["time"]) * 1_000_000_000 == nanoseconds(THEN)
    assert seen["gmtime"] == 2023
    since_1582 = (datetime(1970, 1, 1, tzinfo=UTC) - datetime(1582, 10, 15, tzinfo=UTC)).days
    assert abs(seen["uuid1"] / 1e7 - since_1582 * 86400 - seen["time"]) < 1


def test_each_turn_is_taken_at_its_own_time(box: SDKBox) -> None:
    client = MemoryClient(box.box)
    moments = ["2023-05-08T13:56:00", "2023-05-08T13:57:30", "2023-05-09", "2023-05-09T01:00+08:00"]
    client.ingest_turns([turn(i, moment) for i, moment in enumerate(moments)])
    seen = [record.text for record in client.snapshot_memories()]
    assert [text[:19] for text in seen] == [
        "2023-05-08T13:56:00",
        "2023-05-08T13:57:30",
        "2023-05-09T00:00:00",
        "2023-05-08T17:00:00",
    ]


def test_no_two_looks_are_alike_and_turns_of_one_time_stay_in_order(box: SDKBox) -> None:
    client = MemoryClient(box.box)
    client.ingest_turns([turn(i, THEN) for i in range(5)])
    client.ingest_turns([turn(i, THEN) for i in range(5, 8)])
    seen = [record.text for record in client.snapshot_memories()]
    assert seen == sorted(set(seen))
    assert len(seen) == 8
    assert all(text.startswith(THEN) for text in seen)


def test_a_turn_without_a_time_leaves_the_clock_where_it_is(box: SDKBox) -> None:
    client = MemoryClient(box.box)
    client.ingest_turns([turn(0, THEN), turn(1, None)])
    assert all(record.text.startswith(THEN) for record in client.snapshot_memories())
    assert box.do("clock")["now"].startswith(THEN)


def test_two_boxes_see_the_same_times(tmp_path: Path) -> None:
    seen = []
    for name in ("a", "b"):
        with started(tmp_path / name, Host(), MEMRIG_CLOCK="session") as box:
            MemoryClient(box.box).ingest_turns([turn(0, THEN)])
            box.do("chat", time="2023-06-01")
            seen.append([box.do("clock"), box.do("clock", time="2023-06-02T08:00:00")])
            time.sleep(0.01)
    for clocks in seen:
        for clock in clocks:
            del clock["uuid1"]  # holds the machine's address
    assert seen[0] == seen[1]


def test_a_reset_leads_back_to_the_real_time(box: SDKBox) -> None:
    """As a fresh box begins: a sample must not see the last one's time."""
    box.do("clock", time=THEN)
    MemoryClient(box.box).reset()
    assert is_now(box.do("clock")["utc"])


def test_no_date_at_all_is_left_alone_and_said(tmp_path: Path) -> None:
    with started(tmp_path, Host(), MEMRIG_CLOCK="session") as box:
        box.do("clock", time=THEN)
        assert box.do("clock", time="0001-01-01T00:00:00")["now"].startswith(THEN)
        assert box.do("clock", time="1950-01-01")["today"] == "1950-01-01"
        assert box.do("clock", time="2150-01-01")["today"] == "2150-01-01"
    assert "cannot show 0001-01-01" in next(tmp_path.glob("*.stderr")).read_text()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02", 86400),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.500000", -0.5),
        ("2023-05-08T13:56:00", 1683554160),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    assert nanoseconds(text) == int(seconds * 1_000_000_000)


# What stays real


def test_sleeping_and_waiting_take_their_time(box: SDKBox) -> None:
    for name, seconds in box.do("waits", time=THEN).items():
        assert 0.19 < seconds < 3, name


def test_a_client_s_time_out_holds(clocked: tuple[SDKBox, Host], box: SDKBox) -> None:
    host = clocked[1]
    host.answer = host.hold
    try:
        name, seconds = box.do("give_up", time=THEN, timeout=0.4)
    finally:
        host.released.set()
        host.answer = None
    assert name == "APITimeoutError"
    assert 0.3 < seconds < 5
    assert box.last.meta["degraded"] == ["client_timeout"]
    assert 300 < box.last.meta["ms"] < 5000


def test_requests_pass_while_the_clock_stands_in_another_year(
    clocked: tuple[SDKBox, Host], box: SDKBox
) -> None:
    assert box.do("many", time=THEN, n=16) == [f"you said number {i}" for i in range(16)]
    assert box.do("stream", time="1999-01-01")[0]["choices"]


def test_tls_asks_the_kernel_what_day_it_is(box: SDKBox, tmp_path: Path) -> None:
    """The certificate is valid from today on, so in 2023 it would not be valid yet."""
    with tls_server(tmp_path) as (port, ca):
        version, today = box.do("tls", time=THEN, port=port, ca=ca)
    assert version.startswith("TLSv1.")
    assert today == "2023-05-08"


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[int, str]]:
    """A server on loopback with a certificate of its own; gives its port and the certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program to make a certificate with")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            with plain, context.wrap_socket(plain, server_side=True) as secured:
                secured.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], cert.read_text()
        thread.join(5)


# Where it cannot be had


def test_a_box_without_time_machine_says_what_to_do(tmp_path: Path) -> None:
    hidden = tmp_path / "time_machine.py"
    hidden.write_text("raise ImportError('not installed')\n")
    made = launcher(PYTHONPATH=f"{tmp_path}:{ROOT}:{SDK}", MEMRIG_CLOCK="session")
    with pytest.raises(SandboxFailure, match="needs the package time-machine") as caught:
        made.start(BoxRequest("s0001", 7, {}, tmp_path / "logs"))
    assert caught.value.kind == "START_FAILED"
    assert "requirements.lock" in str(caught.value)


def test_a_version_that_moves_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "time_machine.py"
    other.write_text(
        "class travel:\n"
        "    def __init__(self, to, tick): pass\n"
        "    def start(self): return self\n"
        "    def stop(self): pass\n"
    )
    made = launcher(PYTHONPATH=f"{tmp_path}:{ROOT}:{SDK}", MEMRIG_CLOCK="session")
    with pytest.raises(SandboxFailure, match="take version 3 or newer"):
        made.start(BoxRequest("s0001", 7, {}, tmp_path / "logs"))


def test_an_unknown_clock_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailure, match="neither real nor session"):
        launcher(MEMRIG_CLOCK="stopped").start(BoxRequest("s0001", 7, {}, tmp_path))


def test_the_baseline_s_yaml_says_which_clock_its_boxes_have() -> None:
    asked = Catalog([BOXES]).get("OpenAISDK")
    assert asked.clock == "session"
    assert asked.environment == {"MEMRIG_CLOCK": "session"}
    assert Catalog().get("BM25").environment == {}
