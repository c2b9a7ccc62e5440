"""The HTTP client: TLS, proxies, kept connections, and an end to everything."""

from __future__ import annotations

import base64
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.models.http_pool import HttpError, HttpPool, HttpReply


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: set[object]

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        self.connections.add(self.client_address)
        if data == b"bye":
            self.close_connection = True  # without a word in the headers
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.send_header("x-path", self.path)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def _serve(tls: ssl.SSLContext | None = None) -> Iterator[_Quiet]:
    server = _Quiet(("127.0.0.1", 0), type("Echo", (_Echo,), {"connections": set()}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def plain() -> Iterator[_Quiet]:
    yield from _serve()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    request += ["-subj", "/CN=model.test"]
    names = ["-addext", "subjectAltName=DNS:model.test,DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*request, *names, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def tls(certificate: Path) -> Iterator[_Quiet]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    yield from _serve(context)


class _Proxy(socketserver.StreamRequestHandler):
    """CONNECT to anywhere ends at one port of this machine."""

    target: int
    heard: list[str]

    def handle(self) -> None:
        lines = []
        while (line := self.rfile.readline().decode().strip()) != "":
            lines.append(line)
        self.heard += lines
        with socket.create_connection(("127.0.0.1", self.target)) as far:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            pumps = [
                threading.Thread(target=_pump, args=(self.connection, far)),
                threading.Thread(target=_pump, args=(far, self.connection)),
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction ended the connection


def post(pool: HttpPool, url: str, body: bytes = b"hello", timeout_s: float = 5.0) -> HttpReply:
    return pool.ask("POST", url, {}, body, timeout_s=timeout_s, max_bytes=1_000_000)


def test_one_connection_serves_many_requests(plain: _Quiet) -> None:
    pool = HttpPool(proxies={})
    url = f"http://127.0.0.1:{plain.server_port}/v1/x?y=1"
    replies = [post(pool, url, f"{n}".encode()) for n in range(20)]
    assert [reply.body for reply in replies] == [f"{n}".encode() for n in range(20)]
    assert replies[0].headers["x-path"] == "/v1/x?y=1"
    assert len(plain.RequestHandlerClass.connections) == 1  # type: ignore[attr-defined]
    pool.close()


def test_connections_that_the_server_closed_are_not_used(plain: _Quiet) -> None:
    pool = HttpPool(proxies={})
    url = f"http://127.0.0.1:{plain.server_port}/"
    for n in range(10):
        assert post(pool, url, b"bye").body == b"bye", n
    pool.close()


def test_many_threads(plain: _Quiet) -> None:
    pool = HttpPool(proxies={})
    url = f"http://127.0.0.1:{plain.server_port}/"
    bodies = [f"{n}".encode() * 1000 for n in range(400)]
    with ThreadPoolExecutor(32) as threads:
        replies = list(threads.map(lambda body: post(pool, url, body).body, bodies))
    assert replies == bodies
    assert len(plain.RequestHandlerClass.connections) <= 32  # type: ignore[attr-defined]
    pool.close()


def test_tls_trusts_a_given_authority_and_no_other(tls: _Quiet, certificate: Path) -> None:
    url = f"https://localhost:{tls.server_port}/"
    trusting = HttpPool(certificate / "cert.pem", proxies={})
    assert post(trusting, url).body == b"hello"
    assert post(trusting, url).body == b"hello"
    trusting.close()
    other = HttpPool(proxies={})
    with pytest.raises(HttpError, match="certificate verify failed"):
        post(other, url)
    other.close()


def test_tls_through_a_proxy_with_a_login(tls: _Quiet, certificate: Path) -> None:
    heard: list[str] = []
    handler = type("Proxy", (_Proxy,), {"target": tls.server_port, "heard": heard})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        address = f"http://user:p%40ss@127.0.0.1:{proxy.server_address[1]}"
        pool = HttpPool(certificate / "cert.pem", proxies={"https": address})
        assert post(pool, "https://model.test/v1/x").body == b"hello"
        assert post(pool, "https://model.test/v1/x").headers["x-path"] == "/v1/x"
        pool.close()
        proxy.shutdown()
        thread.join()
    assert heard[0].startswith("CONNECT model.test:443")
    login = base64.b64encode(b"user:p@ss").decode()
    assert f"Proxy-Authorization: Basic {login}" in heard
    assert sum(line.startswith("CONNECT") for line in heard) == 1, "the tunnel is kept"


def test_this_machine_is_never_asked_for_through_a_proxy(plain: _Quiet) -> None:
    pool = HttpPool(proxies={"http": "http://127.0.0.1:9"})
    assert post(pool, f"http://127.0.0.1:{plain.server_port}/").body == b"hello"
    with pytest.raises(HttpError) as unreachable:
        post(pool, "http://model.test/")
    assert unreachable.value.kind == "UNREACHABLE"
    pool.close()


def test_nothing_is_asked_for_after_the_end(plain: _Quiet) -> None:
    pool = HttpPool(proxies={})
    pool.close()
    pool.close()
    with pytest.raises(HttpError) as closed:
        post(pool, f"http://127.0.0.1:{plain.server_port}/")
    assert closed.value.kind == "CLOSED"
