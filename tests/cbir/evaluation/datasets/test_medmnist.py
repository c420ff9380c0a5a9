"""MedMNIST files, made here."""

import json
import os
import pickle

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.dataset_manifests import read_medmnist, write_medmnist
from cbir.ingest.manifest import Manifest

SIZES = {"train": 6, "val": 2, "test": 3}


def arrays(shape=(28, 28), labels=1, seed=0, **instead):
    random = np.random.default_rng(seed)
    made = {}
    for split, count in SIZES.items():
        made[f"{split}_images"] = random.integers(0, 256, (count, *shape), np.uint8)
        made[f"{split}_labels"] = random.integers(0, 9, (count, labels), np.uint8)
    return made | instead


@pytest.fixture
def npz(tmp_path):
    def make(**options):
        np.savez(tmp_path / "mnist.npz", **arrays(**options))
        return tmp_path / "mnist.npz"

    return make


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 3), (64, 64), (3, 3)])
def test_every_picture_with_its_label_and_part(npz, shape):
    found, made = list(read_medmnist(npz(shape=shape))), arrays(shape=shape)
    assert [split for *_, split in found] == ["train"] * 6 + ["val"] * 2 + ["test"] * 3
    image, labels, _ = found[6]
    assert (image.pixels == made["val_images"][0]).all()
    assert image.pixels.dtype == np.uint8
    assert labels == {"label": str(made["val_labels"][0, 0])}


def test_several_labels(npz):
    _, labels, _ = next(read_medmnist(npz(labels=14)))
    assert list(labels) == [f"label_{n}" for n in range(1, 15)]


@pytest.mark.parametrize(
    ("name", "array", "told"),
    [
        ("train_images", np.zeros((6, 28, 28, 28), np.uint8), "volumes cannot be read"),
        ("train_images", np.zeros((6, 28, 28), np.float32), "float32"),
        ("train_images", np.zeros((5, 28, 28), np.uint8), "5 train_images, but 6 train_labels"),
        ("train_images", np.zeros((6, 0, 28), np.uint8), "must be uint8"),
        ("train_labels", np.zeros((6, 1)), "must be integers"),
        ("train_labels", np.zeros(6, int), "must be integers"),
        ("train_labels", np.array([[{"a": 1}]] * 6, object), "train_labels cannot be read"),
    ],
)
def test_arrays_that_do_not_fit(npz, name, array, told):
    with pytest.raises(InvalidInput, match=told):
        list(read_medmnist(npz(**{name: array})))


def test_empty_parts_are_read(npz):
    empty = {"val_images": np.zeros((0, 28, 28), np.uint8), "val_labels": np.zeros((0, 1), int)}
    assert len(list(read_medmnist(npz(**empty)))) == 9


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\3\4 cut short", b"\x80\4pickle"])
def test_files_that_are_none(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"bad\.npz is not an \.npz file; pickled data is never loaded$"):
        list(read_medmnist(tmp_path / "bad.npz"))


class Intruder:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (self.mark.touch, ())


def test_nothing_pickled_is_run(npz, tmp_path):
    mark = tmp_path / "was here"
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Intruder(mark)))
    for file in (tmp_path / "raw.npz", npz(train_labels=np.array([[Intruder(mark)]] * 6, object))):
        with pytest.raises(InvalidInput, match=file.name):
            list(read_medmnist(file))
    assert not mark.exists()


def test_more_files_that_are_none(npz, tmp_path):
    np.save(tmp_path / "single.npy", np.zeros(3))
    np.savez(tmp_path / "others.npz", x=np.zeros(3))
    (tmp_path / "damaged.npz").write_bytes(damaged(npz().read_bytes()))
    for name, told in (
        ("single.npy", "a single array"),
        ("others.npz", "no array train_images"),
        ("missing.npz", "cannot be read"),
        ("damaged.npz", "train_images cannot be read"),
    ):
        with pytest.raises(InvalidInput, match=told):
            list(read_medmnist(tmp_path / name))


def damaged(data):
    return data[:2000] + bytes(byte ^ 255 for byte in data[2000:2100]) + data[2100:]


def test_pictures_and_manifest(npz, tmp_path):
    for shape in ((28, 28), (28, 28, 3)):
        source, folder = npz(shape=shape), tmp_path / f"out{len(shape)}"
        assert write_medmnist(source, folder) == 11
        manifest = Manifest(folder / "manifest.csv")
        made = arrays(shape=shape)
        paths = [(folder / "test" / f"{n:06d}.png").resolve() for n in range(3)]
        for number, path in enumerate(paths):
            read_back = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
            pixels = read_back if len(shape) == 2 else read_back[:, :, ::-1]
            assert (pixels == made["test_images"][number]).all()
            label = str(made["test_labels"][number, 0])
            assert manifest.labels([path]) == {path: {"label": label, "split": "test"}}


def test_going_on_where_it_stopped(npz, tmp_path):
    source, folder = npz(), tmp_path / "out"
    write_medmnist(source, folder)
    kept, lost = folder / "train" / "000000.png", folder / "train" / "000001.png"
    os.utime(kept, (1, 1))
    lost.unlink()
    (folder / "manifest.csv").unlink()
    assert write_medmnist(source, folder) == 11
    assert kept.stat().st_mtime == 1
    assert lost.exists()
    assert not list(folder.rglob("*.partial"))


def test_another_file_does_not_mix_with_what_is_there(npz, tmp_path):
    write_medmnist(npz(seed=0), tmp_path / "out")
    with pytest.raises(InvalidInput, match="another file"):
        write_medmnist(npz(seed=1), tmp_path / "out")


def test_the_command(npz, tmp_path):
    done = CliRunner().invoke(
        app, ["dataset", "medmnist", str(npz()), str(tmp_path / "out"), "--format", "json"]
    )
    assert json.loads(done.output) == {"written": 11, "manifest": str(tmp_path / "out" / "manifest.csv")}
