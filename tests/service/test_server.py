"""`cbir serve` as a process."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import httpx
import pytest

from tests.indexer.commands import without_progress
from tests.service.conftest import CBIR, COUNT, Served, cbir, problem, refusal, serving


@pytest.fixture(scope="module")
def served(indexed: Path) -> Iterator[Served]:
    with serving(indexed) as running:
        yield running


def talk(port: int, request: bytes) -> bytes:
    """Send bytes, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_search_over_the_network(served: Served, pictures: list[Path]) -> None:
    sent = httpx.post(f"{served.address}/v1/search?k=3", files={"image": pictures[-1].read_bytes()})
    assert sent.status_code == 200
    assert len(sent.json()["results"]) == 3
    assert httpx.get(f"{served.address}/readyz").json()["images"] == COUNT - 6
    assert "cbir" in httpx.get(served.address).text


def test_a_service_starts_without_what_takes_long_to_import(indexed: Path) -> None:
    start = (
        "import sys; from pathlib import Path; from cbir.settings import load; from service.app import create_app;"
        "create_app(Path(sys.argv[1]), load());"
        "print(*{'onnxruntime', 'pandas', 'scipy', 'sklearn', 'torch'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", start, indexed], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_the_line_to_try_works(served: Served, pictures: list[Path]) -> None:
    line = re.search(r"curl -F image=@FILE '(.*)'", served.printed[1])
    assert line
    sent = httpx.post(line[1], files={"image": (pictures[0].name, pictures[0].read_bytes())})
    assert len(sent.json()["results"]) == 5


def test_many_at_once(served: Served, ids: list[str]) -> None:
    def search(image_id: str) -> list[str]:
        sent = httpx.post(f"{served.address}/v1/search", json={"image_id": image_id}, timeout=60)
        return [hit["image_id"] for hit in sent.json()["results"]]

    alone = [search(image_id) for image_id in ids[:12]]
    with ThreadPoolExecutor(12) as executor:
        assert list(executor.map(search, ids[:12])) == alone


def test_chunked_body(served: Served, pictures: list[Path]) -> None:
    data = pictures[-1].read_bytes()
    parts = (data[start : start + 1000] for start in range(0, len(data), 1000))
    sent = httpx.post(f"{served.address}/v1/search", content=parts, headers={"Content-Type": "image/png"})
    assert sent.status_code == 200


def test_what_is_not_http(served: Served) -> None:
    host = b"Host: localhost\r\n"
    for request, status, why in (
        (b"GARBAGE\r\n\r\n", 400, b"not valid HTTP"),
        (b"GET / HTTP/9.9\r\n" + host + b"\r\n", 400, b"not valid HTTP"),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n" + host + b"\r\n", 414, b"the address is too long"),
        (
            b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 20_000 + b"\r\n\r\n",
            431,
            b"the headers are too long",
        ),
    ):
        head, _, body = talk(served.port, request).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status), head
        assert b"application/problem+json" in head
        assert b'"/docs/errors#' in body
        assert why in body


@pytest.mark.parametrize("kind", ["image/png", "application/json", "multipart/form-data; boundary=x"])
def test_pieces_of_a_body_that_are_none(served: Served, kind: str) -> None:
    """A problem, and nothing that follows on the connection is taken for a request."""
    host = "Host: localhost\r\n"
    head = f"POST /v1/search HTTP/1.1\r\n{host}Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    further = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for pieces in (b"zz\r\nabc\r\n0\r\n\r\n", b"-1\r\n", b"3\r\nabcdef\r\n0\r\n\r\n"):
        detail = talk(served.port, head.encode() + pieces + further)
        assert detail.startswith(b"HTTP/1.1 400 "), detail
        assert b'"/docs/errors#malformed"' in detail
        assert b'"ok"' not in detail


def test_other_hosts_name(served: Served) -> None:
    problem(httpx.get(served.address, headers={"Host": "example.org"}), 421)


def test_requests_must_name_a_host(served: Served) -> None:
    """Without one the service would have to guess, and takes its own address."""
    for head, statuses in (
        (b"Host: localhost\r\n", {200}),
        (b"", {400}),
        (b"Host:\r\n", {421}),
        (b"Host: example.org\r\n", {421}),
        (b"Host: localhost\r\nHost: example.org\r\n", {400, 421}),
        (b"Host: example.org\r\nHost: localhost\r\n", {400, 421}),
    ):
        for version in (b"1.1", b"1.0"):
            request = b"GET /healthz HTTP/%s\r\n%sConnection: close\r\n\r\n"
            answer = talk(served.port, request % (version, head))
            assert int(answer.split()[1]) in statuses, (head, version)


def test_large_body_is_refused(served: Served) -> None:
    sent = httpx.post(
        f"{served.address}/v1/search", content=bytes(70 * 2**20), headers={"Content-Type": "image/png"}
    )
    problem(sent, 413)


def test_changes_by_another_process(writable: Path, pictures: list[Path]) -> None:
    with serving(writable) as running:
        cbir("index", *pictures[-6:], "--collection", writable, "--jobs", "1")
        assert httpx.get(f"{running.address}/readyz").json()["images"] == COUNT


def test_bound_on_requests_under_way(indexed: Path, ids: list[str], pictures: list[Path]) -> None:
    with serving(indexed, CBIR_THREADS="1", CBIR_QUEUE="0") as running, ThreadPoolExecutor(12) as executor:
        url, body, files = (
            f"{running.address}/v1/search",
            {"image_id": ids[0]},
            {"image": pictures[0].read_bytes()},
        )
        answers = list(executor.map(lambda _: httpx.post(url, files=files, timeout=60), range(48)))
        too_many = next(answer for answer in answers if answer.status_code == 429)
        problem(too_many, 429)
        assert int(too_many.headers["Retry-After"]) >= 1
        assert httpx.get(f"{running.address}/healthz").status_code == 200
        assert httpx.post(url, json=body).status_code == 200


def test_log_has_nothing_of_a_query(indexed: Path, pictures: list[Path]) -> None:
    with serving(indexed) as running:
        for data in (pictures[0].read_bytes(), b"a text"):
            files = {"image": ("Doe_Jane_1960.png", data)}
            for where in (
                {"data": {"exclude_patient": "Doe-Jane"}},
                {"params": {"exclude_patient": "Doe-Jane"}},
            ):
                httpx.post(f"{running.address}/v1/search", files=files, **where)
        assert "Doe" not in running.stop()[1]


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_ctrl_c_ends_it_quietly_on_every_name_of_loopback(indexed: Path, host: str) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    with serving(indexed, "--host", host) as running:
        assert httpx.get(f"{running.address}/healthz").status_code == 200
        status, printed = running.stop()
    printed = without_progress(printed)
    # The collection has the profile huang2012, on purpose: the line at the start tells of that of new collections.
    assert (status, printed.count("\n")) == (0, 1), printed
    assert printed.startswith("the profile of ")


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


WITH_AN_EARLY_SIGNAL = """
import os, signal
from cbir.api.main import main
from service.server.gunicorn_server import ServiceWorker

start = ServiceWorker.init_process

def start_later(worker):
    if worker.age == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        print("another worker", flush=True)
    start(worker)

ServiceWorker.init_process = start_later
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="gunicorn needs fork")
def test_a_signal_to_a_worker_that_starts_is_not_lost(indexed: Path) -> None:
    command = [
        sys.executable,
        "-c",
        WITH_AN_EARLY_SIGNAL,
        "serve",
        "--collection",
        str(indexed),
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    timer = Timer(60, process.kill)  # else it would be read from for ever
    timer.start()
    assert process.stdout
    try:
        printed = [line for line in (process.stdout.readline() for _ in range(4)) if line]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
        timer.cancel()
    assert printed[-1] == "another worker\n"


def test_hosts_that_others_reach_are_refused(indexed: Path) -> None:
    assert "loopback" in refusal("serve", "--collection", indexed, "--host", "0.0.0.0")


def test_port_in_use(indexed: Path) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = str(used.getsockname()[1])
        command = [*CBIR, "serve", "--collection", str(indexed), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert port in done.stderr
    assert "in use" in done.stderr


def test_missing_collection(tmp_path: Path) -> None:
    assert "no collection" in refusal("serve", "--collection", tmp_path)


def test_setting_that_does_not_fit(indexed: Path) -> None:
    assert "port" in refusal("serve", "--collection", indexed, "--port", "99999")


def test_credentials_in_the_clear_are_refused_at_the_start(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_ARCHIVE_URL", "http://archive.invalid:8042/dicom-web")
    monkeypatch.setenv("CBIR_DICOMWEB_TOKEN", "geheim")
    said = refusal("serve", "--collection", indexed, "--port", "0")
    assert "http://archive.invalid:8042/dicom-web must begin with https://" in said
    assert "geheim" not in said
