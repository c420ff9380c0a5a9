"""Slow, silent and many clients do not keep the service from answering others."""

import http.client
import json
import resource
import select
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from service.server.request_loop import SILENT_SECONDS
from tests.benches import loaded
from tests.indexer.dicomweb.small_archive import certificate
from tests.service.conftest import Served, problem, serving
from tests.service.raw_clients import (
    HALF_BODY,
    HALF_CHUNK,
    HALF_HEAD,
    HEALTH,
    HOST,
    PATIENCE_SECONDS,
    SEARCH,
    crowd,
    large_png,
    status_of_large_search,
    talk,
    timed,
    worker,
)

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"this needs 2000 open files, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def served(indexed: Path) -> Iterator[Served]:
    with serving(indexed) as running:
        yield running


@pytest.fixture(scope="module")
def encrypted(
    indexed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, ssl.SSLContext]]:
    """A service with TLS, and the context that trusts it."""
    made, key = certificate(tmp_path_factory.mktemp("tls"))
    with serving(indexed, CBIR_TLS_CERTIFICATE=str(made), CBIR_TLS_KEY=str(key)) as running:
        yield running, ssl.create_default_context(cafile=made)


@pytest.fixture(scope="module")
def impatient(indexed: Path) -> Iterator[Served]:
    """A service that gives a request a second, and answers one at a time."""
    limits = {"CBIR_REQUEST_SECONDS": "1", "CBIR_THREADS": "1", "CBIR_QUEUE": "20"}
    with serving(indexed, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def small_memory(indexed: Path) -> Iterator[Served]:
    """A service that takes bodies of a megabyte, and four of them at a time."""
    limits = {"CBIR_MAX_UPLOAD_BYTES": str(2**20), "CBIR_UPLOAD_MEMORY_BYTES": str(4 * 2**20)}
    with serving(indexed, **limits) as running:
        yield running


def assert_answers(running: Served, picture: Path) -> None:
    """Searches and health checks are answered before silent clients are sent away, each on its own connection."""
    data, kind = picture.read_bytes(), {"Content-Type": "image/png"}
    for _ in range(3):
        search = lambda: httpx.post(f"{running.address}/v1/search", content=data, headers=kind, timeout=20)  # noqa: E731
        assert timed(search) < SILENT_SECONDS
        assert timed(lambda: httpx.get(f"{running.address}/healthz", timeout=20)) < SILENT_SECONDS


@pytest.mark.parametrize(
    ("count", "sent"),
    [(1100, b""), (300, HALF_HEAD), (300, HALF_BODY), (90, HALF_CHUNK)],
    ids=["silent", "heads", "bodies", "chunks"],
)
def test_unfinished_requests_keep_nobody_waiting(
    served: Served, pictures: list[Path], count: int, sent: bytes
) -> None:
    before = worker(served).pid
    with crowd(served.port, count, sent):
        assert_answers(served, pictures[0])
    assert worker(served).pid == before


@needs_openssl
def test_stalled_handshakes_keep_nobody_waiting(encrypted: tuple[Served, ssl.SSLContext]) -> None:
    running, context = encrypted
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
        with crowd(running.port, 90, sent):
            ready = f"https://127.0.0.1:{running.port}/readyz"
            assert timed(lambda: httpx.get(ready, verify=context, timeout=20)) < SILENT_SECONDS  # noqa: B023


@needs_openssl
def test_large_uploads_and_many_requests_over_tls(
    encrypted: tuple[Served, ssl.SSLContext], pictures: list[Path]
) -> None:
    running, context = encrypted
    kind, small, large = {"Content-Type": "image/png"}, pictures[0].read_bytes(), large_png()
    with httpx.Client(base_url=f"https://127.0.0.1:{running.port}", verify=context, timeout=30) as client:
        for _ in range(2):
            assert client.post("/v1/search", content=small, headers=kind).status_code == 200
            assert client.post("/v1/render", content=large, headers=kind).status_code == 200
            problem(client.post("/v1/search", content=bytes(70 * 2**20), headers=kind), 413)
    headers = httpx.get(f"https://127.0.0.1:{running.port}/healthz", verify=context).headers
    assert "Strict-Transport-Security" not in headers  # for loopback, it would bind other services too
    assert headers["Connection"] == "keep-alive"


def test_health_while_all_slots_are_busy(impatient: Served) -> None:
    with ThreadPoolExecutor(40) as executor:
        busy = [executor.submit(status_of_large_search, impatient.address) for _ in range(40)]
        for _ in range(5):
            assert timed(lambda: httpx.get(f"{impatient.address}/healthz", timeout=20)) < SILENT_SECONDS
            time.sleep(0.1)
        assert {task.result() for task in busy} <= {0, 200, 408, 429}


def test_many_connections_of_many_requests(served: Served) -> None:
    """More connections than there is room for, all kept alive: those idle longest make room."""
    with ExitStack() as stack:
        for number in range(1200):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS)
            )
            connection.sendall(HEALTH + b"\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 "), number
    assert len(worker(served).net_connections("tcp")) < 1100


def test_the_limit_of_files_is_lowered_meanwhile(indexed: Path, pictures: list[Path]) -> None:
    data, kind = pictures[0].read_bytes(), {"Content-Type": "image/png"}
    with serving(indexed) as running, ThreadPoolExecutor(8) as executor:
        process, url = worker(running), f"{running.address}/v1/search"
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        with crowd(running.port, 200):
            while process.num_fds() < 200:
                time.sleep(0.05)
            busy = [
                executor.submit(httpx.post, url, content=data, headers=kind, timeout=60) for _ in range(30)
            ]
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (process.num_fds() - 50, hard))
            answers = [task.result() for task in busy]
            assert any(answer.status_code == 200 for answer in answers)
            for answer in answers:
                if answer.status_code != 200:
                    assert "more files" in problem(answer, 503)
                    assert answer.json()["type"].endswith("#no-resources")
            assert_answers(running, pictures[0])
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (8, hard))  # not even one more can be opened
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{running.address}/healthz", timeout=1)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, hard))
        assert_answers(running, pictures[0])
        assert worker(running).pid == process.pid
        assert "more files can be opened" in running.stop()[1]


@pytest.mark.parametrize("sent", [HALF_HEAD, HALF_BODY, HALF_CHUNK], ids=["head", "body", "chunk"])
def test_a_slow_request_is_told_so(impatient: Served, sent: bytes) -> None:
    head, _, body = talk(impatient.port, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"Connection: close" in head
    assert json.loads(body)["type"] == "/docs/errors#too-slow"
    assert "request_seconds (1 s)" in json.loads(body)["detail"]


def test_a_request_that_is_worked_on_too_long_is_told_so(impatient: Served) -> None:
    statuses: set[int] = set()
    with ThreadPoolExecutor(20) as executor:
        while 408 not in statuses:  # a fast machine may do with the first 20 in time
            statuses |= set(executor.map(status_of_large_search, [impatient.address] * 20))
            assert statuses <= {0, 200, 408, 429}
    while (status := httpx.get(f"{impatient.address}/healthz", timeout=60).status_code) != 200:
        assert status == 408  # a slow machine


@pytest.mark.parametrize(
    ("count", "part"),
    [
        (12, SEARCH + b"Content-Length: 1048576\r\n\r\n" + bytes(2**20 - 1)),
        (60, HEALTH + (b"X: " + b"a" * 8000 + b"\r\n") * 6),
    ],
    ids=["bodies", "heads"],
)
def test_requests_have_one_memory_together(
    small_memory: Served, pictures: list[Path], count: int, part: bytes
) -> None:
    with crowd(small_memory.port, count, part) as uploads:
        waiting, refused = list(uploads), []
        while len(refused) < 8 and waiting:
            answered = select.select(waiting, [], [], PATIENCE_SECONDS)[0]
            assert answered, f"{len(refused)} refused"
            refused += [upload.recv(65536) for upload in answered]
            waiting = [upload for upload in waiting if upload not in answered]
        for answer in refused:
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"Retry-After: 1" in answer
        assert_answers(small_memory, pictures[0])


@pytest.mark.parametrize("path", ["/healthz", "/v1/collection", "/none-such", "/v1/search"])
@pytest.mark.parametrize("size", [100_000, 2_000_000])
def test_after_a_body_that_is_not_read_the_next_request_succeeds(
    served: Served, path: str, size: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
    for _ in range(5):
        connection.request("POST", path, bytes(size), {"Content-Type": "text/plain"})
        answer = connection.getresponse()
        assert answer.status in (404, 405, 415)
        answer.read()
        if answer.headers["Connection"] == "close":
            connection.close()
        else:
            assert connection.sock is not None
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
    connection.close()


def test_a_body_that_is_too_large_closes_the_connection_and_says_so(served: Served) -> None:
    request = SEARCH + b"Content-Length: 100000000\r\n\r\n" + bytes(1000)
    answer = talk(served.port, request)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in answer


def test_requests_that_come_together_are_answered_in_order(served: Served) -> None:
    body = b"POST /none-such HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello"
    chunks = (
        b"POST /none-such HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    answer = talk(
        served.port, body + chunks + HEALTH + b"\r\n" + body + HEALTH + b"Connection: close\r\n\r\n"
    )
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [404, 404, 200, 404, 200]


def test_a_client_that_asks_first_is_told_to_continue(served: Served, pictures: list[Path]) -> None:
    data = pictures[0].read_bytes()
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(SEARCH + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(data))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(data)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_finishes_sending_is_answered(served: Served, pictures: list[Path]) -> None:
    data = pictures[0].read_bytes()
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS) as connection:
        # The last part leaves together with the end, so that no search comes between.
        if hasattr(socket, "TCP_CORK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(SEARCH + b"Content-Length: %d\r\n\r\n" % len(data) + data)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    interim, _, final = answer.partition(b"\r\n\r\n")
    assert interim == b"HTTP/1.1 102 Processing"
    assert final.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "codings", [b"gzip, chunked", b"identity, chunked", b"gzip\r\nTransfer-Encoding: chunked"]
)
def test_only_the_coding_chunked_is_accepted(served: Served, codings: bytes) -> None:
    body = b"\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    head, _, text = talk(served.port, SEARCH + b"Transfer-Encoding: " + codings + body).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "Transfer-Encoding: chunked" in json.loads(text)["detail"]


@needs_openssl
def test_answers_over_tls_end_with_close_notify(encrypted: tuple[Served, ssl.SSLContext]) -> None:
    running, context = encrypted
    plain = socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_SECONDS)
    # Without suppress_ragged_eofs, a connection that ends without close_notify raises SSLEOFError.
    with context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as connection:
        connection.sendall(HEALTH + b"Connection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_body_too_large_is_refused_before_it_is_sent(served: Served) -> None:
    request = SEARCH + b"Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n"
    assert talk(served.port, request).startswith(b"HTTP/1.1 413 ")


def test_heads_of_any_length_are_answered(served: Served) -> None:
    for size in (4000, 9000, 70_000, 1_000_000):
        answer = talk(served.port, HEALTH + b"X: " + b"a" * size + b"\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 " if size < 8000 else b"HTTP/1.1 431 "), size


def test_small_chunks_do_not_stop_others(served: Served) -> None:
    answer = talk(served.port, SEARCH + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"small chunks" in answer


def test_many_slow_readers_do_not_stop_others(served: Served, pictures: list[Path]) -> None:
    """A hundred clients ask for long answers, again and again, and read nothing."""
    request = b"GET /v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    with ExitStack() as stack:
        for _ in range(100):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            reader.connect(("127.0.0.1", served.port))
            reader.sendall(request * 20)
        time.sleep(1)
        assert_answers(served, pictures[0])


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="counts open files in /proc")
def test_no_file_stays_open(served: Served) -> None:
    process = worker(served)
    httpx.get(f"{served.address}/healthz")
    before = process.num_fds()
    with crowd(served.port, 50, HALF_BODY):
        pass
    for _ in range(50):
        talk(served.port, b"GARBAGE\r\n\r\n")
    end = time.monotonic() + PATIENCE_SECONDS
    while process.num_fds() > before + 2 and time.monotonic() < end:
        time.sleep(0.2)
    assert process.num_fds() <= before + 2


def test_the_bench_measures_what_this_file_asserts(indexed: Path, pictures: list[Path]) -> None:
    bench = loaded("connections")
    case = bench.Case("half a body", 100, HALF_BODY)
    result = bench.measure(case, indexed, pictures[0].read_bytes(), seconds=0.5)
    assert result["survived"]
    assert result["failed"] == 0
    for name, most in bench.TARGETS.items():
        assert result[name] < most
