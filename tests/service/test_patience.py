"""Slow clients are cut off, and nobody works for one that has left."""

import io
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import PIL.Image
import pytest

from tests.service.conftest import Served, cbir, serving

HEAD = (
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 999\r\n\r\n"
)


@pytest.fixture(scope="module")
def impatient(indexed: Path) -> Iterator[Served]:
    """A service that gives a request a second, and answers one at a time."""
    with serving(indexed, CBIR_REQUEST_SECONDS="1", CBIR_THREADS="1", CBIR_QUEUE="0") as running:
        yield running


@pytest.fixture(scope="module")
def one_thread(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that answers one request at a time, also of the collection `large` with one large picture."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "large.png").write_bytes(large_png())
    cbir(
        "index",
        folder / "large.png",
        "--collection",
        folder / "large",
        "--jobs",
        "1",
        "--profile",
        "huang2012",
    )
    with serving(indexed, "--collection", str(folder / "large"), CBIR_THREADS="1") as running:
        yield running


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
        with suppress(ConnectionError):
            while connection.recv(65536):
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
def test_a_slow_sender_is_cut_off(impatient: Served, parts: list[bytes]) -> None:
    assert cut_off_after(impatient.port, parts) < 10
    assert httpx.get(f"{impatient.address}/healthz").status_code == 200


def test_a_slow_reader_is_cut_off(impatient: Served, pictures: list[Path]) -> None:
    body = pictures[0].read_bytes()
    head = HEAD.replace(b"/v1/search", b"/v1/render").replace(b"999", str(len(body)).encode())
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        reader.connect(("127.0.0.1", impatient.port))
        for _ in range(200):  # many answers, none of which is read
            try:
                reader.sendall(head + body)
            except OSError:
                break
            if not select.select([], [reader], [], 3)[1]:
                break
        reader.settimeout(20)
        with suppress(ConnectionError):
            while reader.recv(65536):
                pass
        until = time.monotonic() + 20
        while httpx.post(f"{impatient.address}/v1/search", files={"image": body}).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert httpx.get(f"{impatient.address}/healthz").status_code == 200


def test_those_that_keep_the_time_are_served(impatient: Served, pictures: list[Path]) -> None:
    with httpx.Client() as client:
        for _ in range(4):  # one connection, older than a request may be
            sent = client.post(f"{impatient.address}/v1/search", files={"image": pictures[0].read_bytes()})
            assert sent.status_code == 200
            time.sleep(0.4)


def leave(port: int, request: bytes, times: int) -> None:
    """Send a request and go away without waiting for the answer, several times."""
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", port)) as leaving:
            leaving.sendall(request)


def seconds(**request: Any) -> float:
    """How long a request takes that succeeds."""
    started = time.monotonic()
    answer = httpx.request(**request, timeout=60)
    assert answer.is_success, answer.text
    return time.monotonic() - started


@pytest.mark.parametrize("what", ["search", "render"])
def test_work_for_a_client_that_left_is_not_begun(one_thread: Served, ids: list[str], what: str) -> None:
    """Twenty large images are sent and abandoned: the next question does not wait for them."""
    body = large_png()
    address = f"{one_thread.address}/v1/{what}"
    alone = seconds(method="POST", url=address, content=body, headers={"Content-Type": "image/png"})
    head = HEAD.replace(b"/v1/search", f"/v1/{what}".encode()).replace(b"999", str(len(body)).encode())
    leave(one_thread.port, head + body, 20)
    search = {"method": "POST", "url": f"{one_thread.address}/v1/search", "json": {"image_id": ids[0]}}
    assert seconds(**search) < 8 * alone


def test_pictures_nobody_waits_for_are_not_made(one_thread: Served) -> None:
    images = httpx.get(f"{one_thread.address}/v1/images?collection=large").json()["items"]
    picture = f"/v1/images/{images[0]['image_id']}/picture?collection=large"
    alone = seconds(method="GET", url=one_thread.address + picture)
    leave(one_thread.port, f"GET {picture} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 20)
    assert seconds(method="GET", url=one_thread.address + picture) < 8 * alone


def test_a_file_of_many_frames_is_not_read_to_its_end(one_thread: Served, ids: list[str]) -> None:
    """Its last frame is asked for, and the client leaves while those before it are decoded."""
    pages = [PIL.Image.new("L", (2400, 2400), number) for number in range(60)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:], compression="tiff_adobe_deflate")
    body = file.getvalue()
    path = f"/v1/render?frame={len(pages)}"
    kind = {"Content-Type": "image/tiff"}
    alone = seconds(method="POST", url=one_thread.address + path, content=body, headers=kind)
    head = HEAD.replace(b"/v1/search", path.encode()).replace(b"999", str(len(body)).encode())
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", one_thread.port)) as leaving:
            leaving.sendall(head + body)
            time.sleep(0.2)  # it is being worked on
    search = {"method": "POST", "url": f"{one_thread.address}/v1/search", "json": {"image_id": ids[0]}}
    assert seconds(**search) < 2 * alone


def large_png() -> bytes:
    """A file of four million pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (2000, 2000), np.uint8)
    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1])
