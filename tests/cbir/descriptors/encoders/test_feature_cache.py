"""Encoders' values are computed once, and the cache survives damage."""

import numpy as np
import pytest

from cbir.descriptors import encoders
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.descriptors.encoders.feature_cache import FeatureCache
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

IMAGES = [Image(draw("smooth", (40, 50), number)) for number in range(3)]


@pytest.fixture
def runs(monkeypatch):
    """Count how often networks run on images."""
    counted = []
    run = EncoderNetwork.describe
    monkeypatch.setattr(EncoderNetwork, "describe", lambda *a: counted.append(1) or run(*a))
    return counted


def described(folder):
    with FeatureCache(encoders.get("lite0"), folder) as cache:
        return np.array([cache.describe(image) for image in IMAGES])


def test_values_are_those_of_the_encoder_and_computed_once(tmp_path, runs):
    first, again = described(tmp_path), described(tmp_path)
    encoder = encoders.get("lite0")
    expected = encoder.describe_batch([encoder.prepare(image) for image in IMAGES]).astype(np.float16)
    assert first.dtype == np.float16
    assert (first == again).all()
    assert np.allclose(first, expected, atol=1e-2)
    assert len(runs) == 2 * len(IMAGES)  # once for the cache, once for what is expected


def test_an_interrupted_run_keeps_what_it_has(tmp_path, runs):
    cache = FeatureCache(encoders.get("lite0"), tmp_path)
    cache.describe(IMAGES[0])
    cache.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    described(tmp_path)
    assert len(runs) == len(IMAGES)


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"something else"])
def test_damaged_files_are_made_again(tmp_path, damage):
    first = described(tmp_path)
    (path,) = tmp_path.glob("lite0-*/*.npy")
    path.write_bytes(damage)
    assert (described(tmp_path) == first).all()
    assert (described(tmp_path) == first).all()


def test_what_cannot_be_read_is_left_alone(tmp_path):
    first = described(tmp_path)
    (folder,) = tmp_path.glob("lite0-*")
    (folder / "unreadable.npy").mkdir()
    assert (described(tmp_path) == first).all()
    assert (folder / "unreadable.npy").is_dir()


def test_another_encoder_has_values_of_its_own(tmp_path):
    described(tmp_path)
    with FeatureCache(encoders.get("lite0-global"), tmp_path) as cache:
        assert not len(cache)
        assert cache.describe(IMAGES[0]).shape == (432,)
