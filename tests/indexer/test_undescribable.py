"""An image that a network fails at is refused; the others are described."""

import json

import cv2
import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.ingest.decoder_tasks import describe_bytes
from cbir.ingest.description import DescribeTask, Refusal
from cbir.store import Collection
from cbir.store.base import profile as profiles
from indexer.describe_files import FileTask, describe_files
from tests.cbir.descriptors.encoders.onnx_models import FAILING, store_brightness
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture


@pytest.fixture(params=FAILING)
def kind(request, tmp_path, monkeypatch):
    """Store an encoder that fails at a black or a white image; its name is that of the colour."""
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path / "encoders"))
    store_brightness(tmp_path / "encoders", request.param, **FAILING[request.param][0])
    return request.param


@pytest.fixture
def paths(tmp_path):
    """Three pictures, a uniform one of each kind, a damaged file, and a picture."""
    folder = tmp_path / "images"
    paths = [picture(folder / f"{seed}.png", seed) for seed in range(3)]
    for name, value in (("4-black", 0), ("4-white", 255)):
        paths.append(folder / f"{name}.png")
        cv2.imwrite(str(paths[-1]), np.full((40, 40), value, np.uint8))
    (folder / "5-damaged.png").write_bytes(paths[0].read_bytes()[:60])
    return [*paths, folder / "5-damaged.png", picture(folder / "6.png", 6)]


def test_one_file_of_a_chunk_is_refused(kind, paths):
    task = DescribeTask(profiles.get(kind), bytes(32), Limits())
    described = dict(zip(paths, describe_files(paths, FileTask(task)), strict=True))
    refused = {path.stem: file.refused for path, file in described.items() if file.refusal is not None}
    assert refused.keys() == {f"4-{kind}", "5-damaged"}
    assert refused[f"4-{kind}"] == f"the encoder {kind} {FAILING[kind][1]}"
    for path, file in described.items():
        (alone,) = describe_files([path], FileTask(task))
        assert alone.refused == file.refused
        assert [vector.tolist() for vector in alone.vectors] == [vector.tolist() for vector in file.vectors]
        assert len(file.vectors) == len(file.records) == (path.stem not in refused)


def test_a_missing_network_refuses_no_file(kind, paths, tmp_path):
    task = DescribeTask(profiles.get(kind), bytes(32), Limits())
    for path in (tmp_path / "encoders").glob("*.onnx"):
        path.unlink()
    with pytest.raises(InvalidInput, match=r"network of the encoder .* is missing"):
        describe_files(paths, FileTask(task))


def test_sent_files_are_refused(kind, paths):
    task = DescribeTask(profiles.get(kind), bytes(32), Limits())
    path = next(path for path in paths if path.stem == f"4-{kind}")
    file = describe_bytes(path.read_bytes(), "sent", "sent", task, True)
    assert (file.refusal, file.refused) == (Refusal.unreadable, f"the encoder {kind} {FAILING[kind][1]}")


@pytest.mark.slow
def test_indexed_and_redescribed(kind, paths, tmp_path):
    folder = paths[0].parent
    paths[5].unlink()
    summary = index(folder, tmp_path / "c", "--profile", kind, code=3)
    assert (summary["indexed"], summary["refused"]) == (5, 1)
    index(folder, tmp_path / "old", "--profile", "tamura")
    options = ("--collection", tmp_path / "old", "--profile", kind, "--jobs", 1, "--format", "json")
    summary = json.loads(call("collection", "redescribe", tmp_path / "new", *options, code=3)[0])
    assert (summary["described"], summary["refused"]) == (5, 1)
    for name in ("c", "new"):
        with Collection(tmp_path / name) as collection:
            assert len(collection) == 5
