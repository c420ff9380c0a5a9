"""Decoder processes of the service: deadlines, memory, crashes, and equal answers."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from flask.testing import FlaskClient
from pydicom.uid import JPEGBaseline8Bit

from cbir import settings
from cbir.errors import NotEnoughMemory
from cbir.images import Limits, read_images
from cbir.ingest.decoder_tasks import ImageChoice, render_choice, run_limited
from cbir.ingest.process_pool import ProcessPool
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from service.app import create_app
from service.collections import image_sources
from tests import hostile_images as hostile
from tests.service.conftest import problem

SLOW = hostile.png_of_zeros(9000)  # some hundred milliseconds
SEARCH = "/v1/search?k=5&rerank=none"


def post(client: FlaskClient, path: str, data: bytes, kind: str = "image/png") -> Any:
    return client.post(path, data=data, content_type=kind)


@pytest.fixture(scope="module", autouse=True)
def _own_decoders(spawned_workers: None) -> None:
    """Start other decoders than earlier files did, as the product starts them."""
    image_sources._shared_pool.cache_clear()


@pytest.fixture
def impatient(indexed: Path) -> FlaskClient:
    app = create_app(indexed, settings.load(decode_seconds=0.2, decoders=1))
    return app.test_client()


def decoder_processes() -> list[psutil.Process]:
    """The decoders of this process."""
    children = psutil.Process().children()
    return [child for child in children if any("spawn_main" in part for part in child.cmdline())]


def test_answers_are_those_of_this_process(client: FlaskClient, pictures: list[Path], indexed: Path) -> None:
    with Collection(indexed) as collection:
        searcher = Searcher(collection, settings.load())
        for path in pictures[-3:]:
            expected = searcher.by_image(next(read_images(path)), Request(k=5, rerank="none"), Stopwatch())
            answer = post(client, SEARCH, path.read_bytes()).json
            assert answer["query"] == expected.query.model_dump()
            assert [(hit["image_id"], hit["score"], hit["distance"]) for hit in answer["results"]] == [
                (hit.image_id, hit.score, hit.distance) for hit in expected.results
            ]
            assert {"decode", "describe", "search", "rerank", "total"} == set(answer["timings_ms"])
            assert answer["timings_ms"]["total"] >= answer["timings_ms"]["describe"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("path", [SEARCH, "/v1/render", "/v1/images"])
def test_a_decoder_is_killed_at_its_deadline(writable: Path, pictures: list[Path], path: str) -> None:
    client = create_app(writable, settings.load(decode_seconds=0.2, decoders=1)).test_client()
    good = pictures[-1].read_bytes()
    while post(client, "/v1/render", good).status_code != 200:
        pass  # the first ones wait for imports
    assert "(decode_seconds)" in problem(post(client, path, SLOW), 422)
    until = time.monotonic() + 20
    while post(client, "/v1/render", good).status_code != 200:
        assert time.monotonic() < until


@pytest.mark.slow
def test_memory_of_a_decoder_is_limited(indexed: Path, pictures: list[Path]) -> None:
    client = create_app(indexed, settings.load(decoder_bytes=64 * 2**20)).test_client()
    content = bytes(120 * 2**20)  # beside a small frame
    large = hostile.dicom(
        b"\xe1\x7f\x10\x10OB\0\0" + len(content).to_bytes(4, "little") + content, deflate=True
    )
    for _ in range(2):
        assert "memory" in problem(post(client, SEARCH, large, "application/dicom"), 422)
    assert post(client, SEARCH, pictures[-1].read_bytes()).status_code == 200


@pytest.mark.slow
def test_acceptance_does_not_depend_on_what_the_decoder_did_before(
    indexed: Path, pictures: list[Path]
) -> None:
    """An image of exactly `max_pixels`, and others between, in one process."""
    client = create_app(
        indexed, settings.load(decoders=1, query_seconds=120, decode_seconds=120)
    ).test_client()
    largest, colour = hostile.png_of_zeros(10_000), hostile.png_of_zeros(7000, 8, 2)
    for file in (largest, colour, largest, pictures[-1].read_bytes(), largest):
        assert post(client, SEARCH, file).status_code == 200


_tasks = 0


def _count_tasks(most: int) -> int:
    global _tasks
    _tasks += 1
    if _tasks > most:
        raise NotEnoughMemory(f"{_tasks} tasks")
    return _tasks


@pytest.mark.slow
def test_a_task_that_lacks_memory_is_tried_again_in_a_new_process() -> None:
    with ProcessPool(_count_tasks, 1, again=(NotEnoughMemory,)) as pool:
        assert [pool.run(1) for _ in range(3)] == [1, 1, 1]
        for _ in range(2):
            with pytest.raises(NotEnoughMemory, match=r"^1 tasks"):
                pool.run(0)


def test_a_declared_frame_raises_the_limit_of_memory() -> None:
    """The limit is told from the header: 64 MiB would not hold the pixels."""
    choice = ImageChoice(hostile.png_of_zeros(9000), "scan", Limits())
    with ProcessPool(partial(run_limited, memory_bytes=64 * 2**20), 1) as pool:
        assert pool.run(partial(render_choice, choice, 64)).width == 9000


@pytest.mark.slow
def test_a_crash_is_reported_for_its_image_alone(client: FlaskClient, pictures: list[Path]) -> None:
    good = pictures[-1].read_bytes()
    post(client, SEARCH, good)
    idle = {process.pid: process.memory_info().rss for process in decoder_processes()}
    with ThreadPoolExecutor(1) as threads:
        victim = threads.submit(post, client, SEARCH, hostile.png_of_zeros(10_000))
        busy = _busy_decoder(idle)
        busy.kill()
        assert "crash" in problem(victim.result(), 422)
    assert [post(client, SEARCH, good).status_code for _ in range(4)] == [200] * 4


def _busy_decoder(idle: dict[int, int]) -> psutil.Process:
    """Wait for a decoder that has grown by a large image since it had the memory in `idle`."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for process in decoder_processes():
            if process.memory_info().rss > idle.get(process.pid, 2**40) + 80 * 2**20:
                return process
        time.sleep(0.002)
    raise AssertionError("no decoder is busy")


@pytest.mark.slow
def test_searches_without_a_file_do_not_wait_for_decoders(indexed: Path, ids: list[str]) -> None:
    app = create_app(indexed, settings.load(threads=1, decoders=1, decode_seconds=20))
    client = app.test_client()
    assert client.post("/v1/search", json={"image_id": ids[0]}).status_code == 200
    slow = hostile.png_of_zeros(6000)
    threads = [threading.Thread(target=post, args=(app.test_client(), SEARCH, slow)) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    started, alive = time.monotonic(), sum(thread.is_alive() for thread in threads)
    assert alive
    assert client.post("/v1/search", json={"image_id": ids[0], "rerank": "none"}).status_code == 200
    seconds = time.monotonic() - started
    assert sum(thread.is_alive() for thread in threads) == alive or seconds < 0.5
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_hostile_files_are_refused_by_every_endpoint(writable: Path) -> None:
    client = create_app(writable, settings.load()).test_client()
    files = [
        (hostile.jpeg_of_scans(9000, 9000, 4000), "image/jpeg"),
        (hostile.dicom_of_items(2_000_000), "application/dicom"),
        (hostile.tiff_of_one_strip(10_000, 32), "image/tiff"),
        (
            hostile.dicom_of_stream(
                hostile.jpeg_with_hidden_size(3000, 3000, 64, b"\xff\x01"), 64, 64, JPEGBaseline8Bit
            ),
            "application/dicom",
        ),
    ]
    before = psutil.Process().memory_info().rss
    for data, kind in files:
        for path in (SEARCH, "/v1/render", "/v1/images"):
            started = time.monotonic()
            problem(post(client, path, data, kind), 422)
            assert time.monotonic() - started < 20
    assert psutil.Process().memory_info().rss < before + 2**28


def stow(client: FlaskClient, data: bytes) -> Any:
    body = b"--x\r\nContent-Type: application/dicom\r\n\r\n" + data + b"\r\n--x--\r\n"
    kind = 'multipart/related; type="application/dicom"; boundary=x'
    return client.post("/dicomweb/studies", data=body, content_type=kind)


@pytest.mark.slow
def test_stow_reads_headers_in_decoders(writable: Path) -> None:
    client = create_app(writable, settings.load()).test_client()
    started = time.monotonic()
    answer = stow(client, hostile.dicom_of_items(2_000_000))
    assert answer.status_code == 409
    assert answer.json["00081198"]["Value"][0]["00081197"]["Value"] == [0xC000]
    assert time.monotonic() - started < 20
    assert stow(client, hostile.dicom()).status_code == 200


@pytest.mark.slow
def test_burned_in_text_is_refused_by_setting(writable: Path, tmp_path: Path) -> None:
    data = hostile.dicom(BurnedInAnnotation="YES", SOPInstanceUID="1.2.3")
    strict = create_app(writable, settings.load(burned_in="refuse")).test_client()
    detail = problem(post(strict, "/v1/images", data, "application/dicom"), 422)
    assert "burned-in text (burned_in)" in detail
    answer = stow(strict, data)
    assert answer.status_code == 202
    assert answer.json["00081199"]["Value"][0]["00081196"]["Value"] == [0xB006]
    assert stow(strict, hostile.dicom(BurnedInAnnotation="NO")).status_code == 200
    assert post(strict, SEARCH, data, "application/dicom").status_code == 200
    open_ = create_app(writable, settings.load()).test_client()
    other = hostile.dicom(BurnedInAnnotation="YES", SOPInstanceUID="1.2.4", PixelData=bytes(256))
    assert post(open_, "/v1/images", other, "application/dicom").status_code == 201


@pytest.mark.slow
def test_many_slow_images_of_one_caller_do_not_delay_another(indexed: Path, pictures: list[Path]) -> None:
    app = create_app(indexed, settings.load(threads=2, decoders=2, decode_seconds=20))
    slow, good = hostile.png_of_zeros(4000), pictures[-1].read_bytes()

    def search(data: bytes, address: str) -> int:
        client = app.test_client()
        base = {"REMOTE_ADDR": address}
        return client.post(SEARCH, data=data, content_type="image/png", environ_base=base).status_code

    assert search(good, "127.0.0.2") == 200
    with ThreadPoolExecutor(8) as threads:
        many = [threads.submit(search, slow, "127.0.0.1") for _ in range(8)]
        time.sleep(0.1)
        for _ in range(2):
            assert search(good, "127.0.0.2") == 200
        assert sum(not future.done() for future in many) >= 3
        assert {future.result() for future in many} <= {200, 429}
