"""A collection that grows over HTTP: `auto` is chosen again beside the requests."""

import io
import time

import cv2
import numpy as np
import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.rerank import read_choice
from cbir.store import Collection
from service.app import create_app


def picture(seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 255, (16, 16), np.uint8)
    return cv2.imencode(".png", noise)[1].tobytes()


def add(client: FlaskClient, seeds: range) -> None:
    files = [(io.BytesIO(picture(seed)), f"{seed}.png") for seed in seeds]
    assert client.post("/v1/images", data={"image": files}).status_code == 201


@pytest.mark.slow
def test_images_over_http_start_a_new_choice(writable):
    client = create_app(writable, settings.load()).test_client()
    with Collection(writable) as collection:
        count = len(collection)
        assert read_choice(collection.auto_choice(), "huang2012").images == count
        add(client, range(count - 1))
        time.sleep(0.5)
        assert read_choice(collection.auto_choice(), "huang2012").images == count
        add(client, range(count - 1, count))
        until = time.monotonic() + 60
        while read_choice(collection.auto_choice(), "huang2012").images == count:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert read_choice(collection.auto_choice(), "huang2012").images == 2 * count
