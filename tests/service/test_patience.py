"""Slow clients are cut off, and nobody works for one that has left."""

import select
import socket
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from service.patience import has_left
from tests.service.conftest import serving

HEAD = (
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 999\r\n\r\n"
)


def cut_off_after(port: int, parts: list[bytes], patience: float = 20) -> float:
    """Seconds until the service closes a connection on which the parts are sent, one every 0.2 seconds."""
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for part in parts:
            if select.select([connection], [], [], 0.2)[0]:
                break
            try:
                connection.sendall(part)
            except OSError:
                break
        connection.settimeout(patience)
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass
    return time.monotonic() - started


@pytest.mark.parametrize(
    "parts",
    [
        [HEAD[:1]],
        [HEAD[:20]],
        [HEAD, b"half"],
        [bytes([byte]) for byte in HEAD],
        [HEAD, *[b"x"] * 900],
    ],
    ids=["one byte", "half a line", "half a body", "a head byte by byte", "a body byte by byte"],
)
def test_a_slow_sender_is_cut_off(indexed: Path, parts: list[bytes]) -> None:
    with serving(indexed, CBIR_REQUEST_SECONDS="1.5") as running:
        assert cut_off_after(running.port, parts) < 5
        assert httpx.get(f"{running.address}/healthz").status_code == 200


def test_a_slow_reader_is_cut_off(indexed: Path, pictures: list[Path]) -> None:
    with serving(indexed, CBIR_REQUEST_SECONDS="1.5", CBIR_THREADS="1", CBIR_QUEUE="0") as running:
        body = pictures[0].read_bytes()
        head = HEAD.replace(b"/v1/search", b"/v1/render").replace(b"999", str(len(body)).encode())
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            reader.connect(("127.0.0.1", running.port))
            for _ in range(200):  # many answers, none of which is read
                try:
                    reader.sendall(head + body)
                except OSError:
                    break
                if not select.select([], [reader], [], 3)[1]:
                    break
            time.sleep(3)
            assert httpx.get(f"{running.address}/healthz").status_code == 200
            sent = httpx.post(f"{running.address}/v1/search", files={"image": body}, timeout=20)
            assert sent.status_code == 200


def test_those_that_keep_the_time_are_served(indexed: Path, pictures: list[Path]) -> None:
    with serving(indexed, CBIR_REQUEST_SECONDS="1.5") as running, httpx.Client() as client:
        for _ in range(5):  # one connection, older than a request may be
            sent = client.post(f"{running.address}/v1/search", files={"image": pictures[0].read_bytes()})
            assert sent.status_code == 200
            time.sleep(0.5)


def test_leaving_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not has_left(ours)
        theirs.sendall(b"the next request")
        assert not has_left(ours)
        theirs.close()
        assert has_left(ours)
    assert has_left(ours)


def test_work_for_a_client_that_left_is_not_begun(
    indexed: Path, pictures: list[Path], ids: list[str]
) -> None:
    """Twenty large images are sent and abandoned: the next question does not wait for them."""
    large = np.random.default_rng(0).integers(0, 256, (3000, 3000), np.uint8)
    body = _png(large)
    with serving(indexed, CBIR_THREADS="1") as running:
        search = f"{running.address}/v1/search"
        started = time.monotonic()
        assert httpx.post(search, content=body, headers={"Content-Type": "image/png"}, timeout=60).is_success
        alone = time.monotonic() - started
        head = HEAD.replace(b"999", str(len(body)).encode())
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", running.port)) as leaving:
                leaving.sendall(head + body)
        started = time.monotonic()
        assert httpx.post(search, json={"image_id": ids[0]}, timeout=60).is_success
        assert time.monotonic() - started < 10 * alone


def _png(pixels: np.ndarray) -> bytes:
    import cv2

    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1])
