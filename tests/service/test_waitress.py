"""`cbir serve --server waitress`: the same answers, rules and limits of searches as with gunicorn."""

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from cbir import settings
from cbir.errors import InvalidInput
from cbir.system.access_rights import Scope
from service.access.token_stores import TokenStore
from service.server.http_server import choose_server
from tests.service.conftest import Served, problem, serving

LARGEST = 300_000


@pytest.fixture(scope="module")
def served(indexed: Path) -> Iterator[Served]:
    with serving(indexed, "--server", "waitress", CBIR_MAX_UPLOAD_BYTES=str(LARGEST)) as running:
        yield running


def test_it_is_waitress_and_answers_as_gunicorn_does(
    served: Served, indexed: Path, pictures: list[Path], ids: list[str]
) -> None:
    assert "gunicorn" not in httpx.get(served.address).headers.get("Server", "")
    with serving(indexed) as other:
        answers = [
            httpx.post(f"{each.address}/v1/search?k=5", files={"image": pictures[-1].read_bytes()}).json()
            for each in (served, other)
        ]
    assert len(answers[0]["results"]) == 5
    assert answers[0]["results"] == answers[1]["results"]

    def search(image_id: str) -> int:
        return httpx.post(f"{served.address}/v1/search", json={"image_id": image_id}, timeout=60).status_code

    with ThreadPoolExecutor(8) as executor:
        assert set(executor.map(search, ids[:16])) == {200}
    chunks = (pictures[-1].read_bytes()[start : start + 1000] for start in range(0, 10**6, 1000))
    sent = httpx.post(f"{served.address}/v1/search", content=chunks, headers={"Content-Type": "image/png"})
    assert sent.status_code == 200


def test_bodies_are_limited_and_hosts_checked(served: Served) -> None:
    form = 64 * 2**10  # that a form may add
    for content in (bytes(LARGEST + form + 1), iter([bytes(LARGEST + form), b"12"])):
        sent = httpx.post(
            f"{served.address}/v1/search", content=content, headers={"Content-Type": "image/png"}
        )
        assert sent.status_code == 413
    problem(httpx.get(served.address, headers={"Host": "example.org"}), 421)
    head = f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**9}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as sender:
        sender.sendall(head.encode())  # refused before the body comes
        assert sender.recv(100).startswith(b"HTTP/1.1 413 ")


def test_tokens_are_required_and_proxies_not_believed(indexed: Path, tmp_path: Path) -> None:
    _, text = TokenStore(tmp_path).create([Scope.search])
    environment = {"CBIR_REQUIRE_TOKENS": "true", "CBIR_STATE_FOLDER": str(tmp_path)}
    with serving(indexed, "--server", "waitress", **environment) as running:
        collection = f"{running.address}/v1/collection"
        problem(httpx.get(collection), 401)
        problem(httpx.get(collection, headers={"X-Forwarded-For": "127.0.0.1"}), 403)
        assert httpx.get(collection, headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_long_searches_are_cancelled(indexed: Path, pictures: list[Path]) -> None:
    with serving(indexed, "--server", "waitress", CBIR_QUERY_SECONDS="0.001") as running:
        sent = httpx.post(f"{running.address}/v1/search", files={"image": pictures[0].read_bytes()})
        assert "query_seconds" in problem(sent, 504)


def test_a_request_without_an_end_keeps_no_thread(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as silent:
        silent.sendall(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nab")
        time.sleep(0.1)
        assert httpx.get(f"{served.address}/healthz").status_code == 200


def test_ctrl_c_ends_it(indexed: Path) -> None:
    with serving(indexed, "--server", "waitress") as running:
        code, log = running.stop()
    assert code == 0
    assert "Traceback" not in log


def test_tls_and_missing_fork_are_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_server(None, settings.load()) == "gunicorn"
    with pytest.raises(InvalidInput, match="waitress makes no TLS"):
        choose_server("waitress", settings.load(tls_certificate=tmp_path / "a", tls_key=tmp_path / "b"))
    monkeypatch.delattr(os, "fork")
    with pytest.raises(InvalidInput, match="use --server waitress"):
        choose_server("gunicorn", settings.load())
    assert choose_server(None, settings.load()) == "waitress"
