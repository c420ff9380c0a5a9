"""A service whose collection has a vector index: it follows by itself, and answers while the index is down."""

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest
from flask import Flask

from cbir.images.scaling import encode_image
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.app import create_app
from service.collections.app_state import EXTENSION
from tests.cbir.store.index.followed import make_entries

SECONDS = 20.0
DOWN = "milvus://127.0.0.1:9"  # where nothing listens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection of 40 images, without an index."""
    folder = tmp_path / "collection"
    with Collection.create(folder, profiles.get("tamura")) as collection, collection.writer() as writer:
        writer.add(make_entries(0, 40))
        writer.finish()
    return folder


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what the thread of the index does."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def lag(app: Flask) -> str:
    """Lines of the metrics about the index."""
    text = app.test_client().get("/metrics").text
    return "\n".join(line for line in text.splitlines() if line.startswith("cbir_index"))


def test_index_follows_what_the_service_writes(folder: Path):
    app = create_app(folder, Settings(index="hnsw"))
    client, handle = app.test_client(), app.extensions[EXTENSION].collections["collection"]
    assert client.get("/readyz").json["images"] == 40
    wait_until(lambda: handle.index_status().edition and handle.index_problem is None)
    assert client.get("/healthz").json == {"status": "ok"}
    assert 'cbir_index_up{collection="collection"} 1.0' in lag(app)
    image_id = client.get("/v1/images?limit=1").json["items"][0]["image_id"]
    assert client.delete(f"/v1/images/{image_id}").status_code < HTTPStatus.BAD_REQUEST
    wait_until(lambda: handle.index_status().images == 39)
    assert 'cbir_index_lag{collection="collection"} 0.0' in lag(app)


def test_service_starts_and_answers_while_the_index_is_down(folder: Path, caplog: pytest.LogCaptureFixture):
    pytest.importorskip("pymilvus")
    app = create_app(folder, Settings(index=DOWN))
    client, handle = app.test_client(), app.extensions[EXTENSION].collections["collection"]
    assert client.get("/readyz").json["status"] == "ready"
    wait_until(lambda: "127.0.0.1:9" in (handle.index_problem or ""))
    assert client.get("/healthz").json == {"status": "degraded", "degraded": ["index"]}
    assert 'cbir_index_up{collection="collection"} 0.0' in lag(app)
    assert sum("127.0.0.1:9" in message for message in caplog.messages) == 1


def test_search_while_the_index_is_down(folder: Path):
    data = encode_image(np.random.default_rng(0).integers(0, 255, (32, 32), np.uint8), ".png")
    for limit, status in ((100, HTTPStatus.OK), (10, HTTPStatus.SERVICE_UNAVAILABLE)):
        app = create_app(folder, Settings(index=DOWN, exact_limit=limit, indexed_candidates=5))
        reply = app.test_client().post("/v1/search?k=3", data=data, content_type="image/png")
        assert reply.status_code == status
        if status == HTTPStatus.OK:
            assert len(reply.json["results"]) == 3
        else:
            assert reply.json["type"].endswith("index-unavailable")
            assert reply.headers["Retry-After"]
