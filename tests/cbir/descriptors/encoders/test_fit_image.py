"""Fitting of images into the input of a network."""

import numpy as np
import pytest

from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.encoders.encoder_network import fit_image
from cbir.images import Image


def fit(pixels, **fields):
    channels = 1 if fields.get("channels") == "grey" else 3
    shape = EncoderInput(
        **{"width": 8, "height": 8, **fields}, mean=(0.5,) * channels, deviation=(1,) * channels
    )
    return fit_image(Image(np.asarray(pixels, np.uint8)), shape)


def test_squash_averages_areas():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 16))
    expected = pixels.reshape(8, 4, 8, 2).mean(axis=(1, 3))
    assert np.abs(fit(pixels)[:, :, 1] - expected).max() <= 0.5


def test_area_averages_the_side_that_shrinks_when_the_other_grows():
    stripes = np.tile(np.repeat([0, 255], 1), (4, 40))  # 4 x 80, one pixel wide
    assert (np.abs(fit(stripes).astype(int) - 127) <= 1).all()


def test_letterbox_centres_on_black():
    result = fit(np.full((16, 4), 200), fit="letterbox")[:, :, 0]
    assert (result[:, 3:5] == 200).all()
    assert (result[:, :3] == 0).all()
    assert (result[:, 5:] == 0).all()
    assert fit(np.full((1, 3000), 9), fit="letterbox").sum() == 8 * 3 * 9


def test_crop_takes_the_centre():
    pixels = np.zeros((8, 24))
    pixels[:, 8:16] = 90
    assert (fit(pixels, fit="crop") == 90).all()
    assert (fit(pixels.T, fit="crop") == 90).all()
    wide = fit(pixels, fit="crop", width=16)  # rows 2 to 5 would be too few: 16 x 8 keeps the height
    assert (wide[:, 4:12] == 90).all()
    assert fit(np.full((1, 20_000), 7), fit="crop").tolist() == np.full((8, 8, 3), 7).tolist()


@pytest.mark.parametrize("interpolation", ["area", "linear", "cubic"])
def test_no_interpolation_aliases(interpolation):
    stripes = np.tile([0, 255], (64, 32))
    assert np.abs(fit(stripes, interpolation=interpolation).astype(int) - 127).max() <= 8


def test_channels():
    pixels = np.zeros((10, 12, 3))
    pixels[:, :, 0] = 240
    assert fit(pixels)[0, 0].tolist() == [240, 0, 0]
    assert fit(pixels, channels="grey").shape == (8, 8, 1)
    assert (fit(pixels, channels="grey") == 80).all()
    assert fit(pixels[:, :, 0])[0, 0].tolist() == [240, 240, 240]
