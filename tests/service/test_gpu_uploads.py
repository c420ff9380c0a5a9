"""Uploads of many images to a service with a GPU are described in batches; those of a few by its decoders."""

from pathlib import Path

import numpy as np
import pytest

from cbir import settings
from cbir.descriptors.encoders.device_encoder import FEWEST, LEAST_COSINE, least_cosine
from cbir.store import Collection
from cbir.system import device_failure
from service.app import create_app
from tests.indexer.commands import index
from tests.service.test_api_images import send

pytest.importorskip("torch")
from cbir.descriptors.encoders.device_network import DeviceNetwork
from tests.cbir.system.device_errors import failing
from tests.stand_in_gpu import TRIAL, stand_in_gpu  # noqa: F401


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch, stand_in_gpu: None) -> list[int]:  # noqa: F811
    seen: list[int] = []
    describe = DeviceNetwork.describe

    def watched(self, inputs):
        seen.extend([len(inputs)] if len(inputs) != TRIAL else [])
        return describe(self, inputs)

    monkeypatch.setattr(DeviceNetwork, "describe", watched)
    return seen


@pytest.fixture
def collection(pictures: list[Path], tmp_path: Path) -> Path:
    folder = tmp_path / "collection"
    first = tmp_path / "first"
    first.mkdir()
    (first / "first.png").write_bytes(pictures[0].read_bytes())
    index(first, folder, "--profile", "lite0", "--device", "cpu")
    return folder


def stored(collection: Path, ids: list[str]) -> np.ndarray:
    with Collection(collection) as opened:
        numbers = {record.image_id: number for number, record in opened.iterate()}
        return opened.raw_vectors(np.array([numbers[image_id] for image_id in ids]))


def test_many_files_are_described_together(pictures, collection, tmp_path, batches):
    client = create_app(collection, settings.load()).test_client()
    (bad := tmp_path / "bad.png").write_bytes(b"no picture")
    files = [*pictures[1:4], bad, *pictures[4 : FEWEST + 3]]
    response = send(client, *files)
    assert response.status_code == 201
    assert batches == [FEWEST + 2]
    refused = [image["file"] for image in response.json["images"] if image["outcome"] == "refused"]
    assert refused == [4]
    index(pictures[0].parent, tmp_path / "cpu", "--profile", "lite0", "--device", "cpu")
    ids = response.json["ids"]
    assert least_cosine(stored(collection, ids), stored(tmp_path / "cpu", ids)) >= LEAST_COSINE


def test_a_few_files_are_described_by_the_decoders(pictures, collection, batches):
    client = create_app(collection, settings.load()).test_client()
    assert send(client, *pictures[1:4]).status_code == 201
    assert batches == []


def test_a_failure_of_the_gpu(pictures, collection, batches, monkeypatch):
    monkeypatch.setattr(DeviceNetwork, "_run", failing("sticky"))
    insists = create_app(collection, settings.load(device="cuda")).test_client()
    response = send(insists, *pictures[1:12])
    assert response.status_code == 503
    assert response.json["type"].endswith("#device-failed")
    assert "set device=cpu or auto" in response.json["detail"]
    client = create_app(collection, settings.load()).test_client()
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    assert send(client, *pictures[1:12]).status_code == 201
    assert device_failure.failure_count() == 1
