"""Slow clients are cut off, and nobody works for one that has left."""

import io
import select
import socket
import time
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import PIL.Image
import pytest

from tests.service.conftest import cbir, serving

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
def test_work_for_a_client_that_left_is_not_begun(indexed: Path, ids: list[str], what: str) -> None:
    """Twenty large images are sent and abandoned: the next question does not wait for them."""
    body = _png()
    with serving(indexed, CBIR_THREADS="1") as running:
        address = f"{running.address}/v1/{what}"
        alone = seconds(method="POST", url=address, content=body, headers={"Content-Type": "image/png"})
        head = HEAD.replace(b"/v1/search", f"/v1/{what}".encode()).replace(b"999", str(len(body)).encode())
        leave(running.port, head + body, 20)
        search = {"method": "POST", "url": f"{running.address}/v1/search", "json": {"image_id": ids[0]}}
        assert seconds(**search) < 3 * alone


def test_pictures_nobody_waits_for_are_not_made(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(_png())
    cbir("index", tmp_path / "large.png", "--collection", tmp_path / "collection", "--jobs", "1")
    with serving(tmp_path / "collection", CBIR_THREADS="1") as running:
        image = httpx.get(f"{running.address}/v1/images").json()["items"][0]["links"]["image"]
        alone = seconds(method="GET", url=f"{running.address}{image}/picture")
        leave(running.port, f"GET {image}/picture HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 20)
        assert seconds(method="GET", url=f"{running.address}{image}/picture") < 3 * alone


def test_a_file_of_many_frames_is_not_read_to_its_end(indexed: Path, ids: list[str]) -> None:
    """Its last frame is asked for, and the client leaves while those before it are decoded."""
    pages = [PIL.Image.new("L", (3000, 3000), number) for number in range(60)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:], compression="tiff_adobe_deflate")
    body = file.getvalue()
    with serving(indexed, CBIR_THREADS="1") as running:
        path = f"/v1/render?frame={len(pages)}"
        kind = {"Content-Type": "image/tiff"}
        alone = seconds(method="POST", url=running.address + path, content=body, headers=kind)
        head = HEAD.replace(b"/v1/search", path.encode()).replace(b"999", str(len(body)).encode())
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", running.port)) as leaving:
                leaving.sendall(head + body)
                time.sleep(0.2)  # it is being worked on
        search = {"method": "POST", "url": f"{running.address}/v1/search", "json": {"image_id": ids[0]}}
        assert seconds(**search) < alone


def _png() -> bytes:
    """A file of nine million pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (3000, 3000), np.uint8)
    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1])
