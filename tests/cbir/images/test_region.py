"""Cropping, and windows chosen by the caller."""

import io
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.data import get_testdata_file

from cbir.errors import InvalidInput
from cbir.images import Image, crop, decode


def picture(width=12, height=9):
    return Image(np.arange(width * height, dtype=np.uint8).reshape(height, width), "a picture")


@given(st.data())
def test_a_region_is_what_slicing_gives(data):
    x, y = data.draw(st.integers(0, 11)), data.draw(st.integers(0, 8))
    width, height = data.draw(st.integers(1, 12 - x)), data.draw(st.integers(1, 9 - y))
    cropped = crop(picture(), (x, y, width, height))
    assert (cropped.width, cropped.height) == (width, height)
    assert cropped.pixels.flags.c_contiguous
    np.testing.assert_array_equal(cropped.pixels, picture().pixels[y : y + height, x : x + width])


def test_the_whole_image_is_a_region_with_the_same_content():
    whole = picture()
    assert crop(whole, (0, 0, 12, 9)).content_hash == whole.content_hash
    assert crop(whole, (0, 0, 12, 8)).content_hash != whole.content_hash


@pytest.mark.parametrize(
    "region",
    [(0, 0, 0, 3), (0, 0, 3, 0), (-1, 0, 3, 3), (0, -1, 3, 3), (1, 0, 12, 9), (0, 1, 12, 9), (12, 9, 1, 1)],
)
def test_a_region_beyond_the_image_is_refused(region):
    with pytest.raises(InvalidInput, match="12 pixels wide and 9 high"):
        crop(picture(), region)


def test_a_grey_part_of_a_colour_image_is_grey():
    colour = np.zeros((4, 4, 3), np.uint8)
    colour[:2] = [200, 100, 50]
    assert crop(Image(colour), (0, 2, 4, 2)).pixels.shape == (2, 4)
    assert crop(Image(colour), (0, 0, 4, 2)).pixels.shape == (2, 4, 3)


def scan(**values):
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm"))
    for name, value in values.items():
        setattr(dataset, name, value)
    file = io.BytesIO()
    dataset.save_as(file)
    return file.getvalue(), dataset


def test_the_window_of_a_file_given_again_changes_nothing():
    data, dataset = scan(WindowCenter=40, WindowWidth=400)
    (displayed,) = decode(data)
    assert displayed.windowing[:2] == (40, 400)
    values = dataset.pixel_array * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)
    assert displayed.windowing[2:] == (values.min(), values.max())
    (again,) = decode(data, window=(40, 400))
    np.testing.assert_array_equal(again.pixels, displayed.pixels)


def test_the_automatic_window_given_again_changes_nothing():
    (displayed,) = decode(scan()[0])
    (again,) = decode(scan()[0], window=displayed.windowing[:2])
    np.testing.assert_array_equal(again.pixels, displayed.pixels)


def test_a_window_is_linear_between_its_ends():
    """PS3.3, C.11.2.1.2.1, computed for each pixel."""
    data, dataset = scan(WindowCenter=0, WindowWidth=10)
    (displayed,) = decode(data, window=(-300, 900))
    values = dataset.pixel_array * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)
    part = ((values - (-300 - 0.5)) / (900 - 1) + 0.5) * 255
    np.testing.assert_array_equal(displayed.pixels, np.rint(np.clip(part, 0, 255)))


def test_a_window_leaves_other_files_alone():
    data = Path(get_testdata_file("examples_rgb_color.dcm")).read_bytes()
    (displayed,), (again,) = decode(data), decode(data, window=(1, 2))
    assert displayed.windowing is None
    np.testing.assert_array_equal(again.pixels, displayed.pixels)
