"""Uploads of an image that a network fails at: 422 with the reason."""

import cv2
import httpx
import numpy as np
import pytest

from tests.cbir.descriptors.encoders.onnx_models import FAILING, store_brightness
from tests.service.conftest import cbir, problem, serving


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILING)
def test_searched_and_added(kind, pictures, tmp_path, monkeypatch):
    options, reason = FAILING[kind]
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path / "encoders"))
    store_brightness(tmp_path / "encoders", kind, **options)
    cbir("index", *pictures[:4], "--collection", tmp_path / "c", "--profile", kind, "--jobs", "1")
    image = np.full((40, 40), 0 if kind == "black" else 255, np.uint8)
    data, headers = cv2.imencode(".png", image)[1].tobytes(), {"Content-Type": "image/png"}
    with serving(tmp_path / "c") as served, httpx.Client(base_url=served.address, headers=headers) as client:
        for address in ("/v1/search", "/v1/images"):
            assert reason in problem(client.post(address, content=data), 422)
        assert client.post("/v1/search", content=pictures[0].read_bytes()).status_code == 200
