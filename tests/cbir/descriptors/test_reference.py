"""Color Layout and Edge Histogram against values of the MPEG-7 reference software, integer for integer."""

import hashlib

import numpy as np
import pytest

from cbir import descriptors
from cbir.descriptors.color_layout import coefficients
from cbir.images import Image
from tests.cbir.descriptors.mpeg7_values import REFERENCE
from tests.cbir.descriptors.pictures import formulas

IMAGES = formulas()

COLOR_LAYOUT = {
    "ramp_192x128": [30, 6, 3, 16, 16, 16, 31, 8, 24, 31, 1, 31],
    "vstripes_176x144": [27, 17, 16, 16, 16, 18, 32, 16, 16, 32, 16, 16],
    "rings_200x150": [14, 16, 16, 26, 16, 29, 32, 16, 16, 32, 16, 16],
    "flat_128x128": [16, 16, 16, 16, 16, 16, 61, 16, 16, 48, 16, 16],
}
EDGE_HISTOGRAM_ROWS = {  # each of the four rows of sub-images is like this one
    "vstripes_176x144": [6, 0, 0, 0, 0, 5, 0, 0, 0, 0, 6, 0, 0, 0, 0, 6, 0, 0, 0, 0],
    "hstripes_176x144": [0, 5, 0, 0, 0] * 4,
    "diag_256x256": [0, 0, 5, 0, 7] * 4,
    "checker_160x160": [5, 4, 0, 0, 6] * 4,
    "flat_128x128": [0] * 20,
}
EDGE_HISTOGRAM_RINGS = {  # sub-image: its bins; the others are empty
    0: [0, 0, 7, 0, 0],
    3: [0, 0, 0, 7, 0],
    4: [5, 0, 0, 0, 0],
    7: [6, 0, 0, 0, 0],
    8: [5, 0, 0, 1, 0],
    11: [6, 0, 1, 0, 0],
    12: [0, 0, 0, 7, 0],
    15: [0, 0, 7, 0, 0],
}


def edges(image: Image) -> np.ndarray:
    return descriptors.get("edge_histogram")(image).reshape(16, 5)


@pytest.mark.parametrize("name", COLOR_LAYOUT)
def test_color_layout_as_published(name):
    assert descriptors.get("color_layout")(IMAGES[name]).tolist() == COLOR_LAYOUT[name]


@pytest.mark.parametrize("name", EDGE_HISTOGRAM_ROWS)
def test_edge_histogram_as_published(name):
    assert edges(IMAGES[name]).reshape(4, 20).tolist() == [EDGE_HISTOGRAM_ROWS[name]] * 4


def test_edge_histogram_of_rings():
    result = {i: bins.tolist() for i, bins in enumerate(edges(IMAGES["rings_200x150"])) if bins.any()}
    assert result == EDGE_HISTOGRAM_RINGS


@pytest.mark.parametrize("name", IMAGES)
def test_every_reference_value(name):
    image, expected = IMAGES[name], REFERENCE[name]
    assert hashlib.sha256(image.pixels.tobytes()).hexdigest() == expected.sha256
    layout = [
        value for plane, count in zip(expected.layout, (6, 3, 3), strict=True) for value in plane[:count]
    ]
    assert descriptors.get("color_layout")(image).tolist() == layout
    assert coefficients(image).tolist() == list(expected.layout)
    assert descriptors.get("edge_histogram")(image).tolist() == expected.edges
    if (image.pixels == image.pixels[:, :, :1]).all():  # the same values from one channel
        grey = Image(np.ascontiguousarray(image.pixels[:, :, 0]))
        assert coefficients(grey).tolist() == list(expected.layout)
        assert descriptors.get("edge_histogram")(grey).tolist() == expected.edges
