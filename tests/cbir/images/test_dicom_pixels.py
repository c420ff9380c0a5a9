"""Synthetic DICOM files: types of pixels, colours, palettes and frames."""

import struct

import cv2
import numpy as np
import pytest
from pydicom.uid import RLELossless

from cbir.errors import UnreadableImage
from cbir.images import decode
from cbir.images.grey_transforms import FrameHeader, modality_values
from cbir.images.stored_values import read_pixel_format
from tests.cbir.images.synthetic_dicom import (
    COLOUR,
    STORED,
    by_percentiles,
    dicom_set,
    displayed,
    item,
    linear,
    written,
)

RNG = np.random.default_rng(1)


def test_bits_above_bits_stored_are_ignored():
    stored = RNG.integers(0, 4096, (8, 8), dtype=np.uint16)
    result = displayed(stored | 0xF000, BitsStored=12, HighBit=11)
    np.testing.assert_array_equal(result, by_percentiles(stored.astype(float)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_pixels(dtype):
    stored = RNG.normal(0, 1e5, (12, 17)).astype(dtype)
    np.testing.assert_array_equal(displayed(stored), by_percentiles(stored.astype(float)))


def one_image(stored, **attributes):
    (image,) = decode(written(dicom_set(stored, **attributes)), keep_values=True)
    return image, image.values.slope * image.values.numbers + image.values.intercept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["nan", "infinite", "padding", "range"])
def test_floats_that_are_padding_or_not_finite_do_not_count(dtype, kind):
    stored = RNG.normal(0, 1e5, (12, 17)).astype(dtype)
    name, seen = "FloatPixelPadding" if dtype is np.float32 else "DoubleFloatPixelPadding", stored[6:]
    stored[:6] = {"nan": np.nan, "infinite": -np.inf, "padding": 1e30, "range": 2e30}[kind]
    padding = {f"{name}Value": 1e30, f"{name}RangeLimit": 3e30}
    if kind == "padding":
        del padding[f"{name}RangeLimit"]
    image, values = one_image(stored, **padding)
    np.testing.assert_array_equal(image.pixels[6:], by_percentiles(seen.astype(float)))
    assert not image.pixels[:6].any()
    np.testing.assert_allclose(image.windowing[2:], (seen.min(), seen.max()))
    np.testing.assert_allclose(values[6:], seen, atol=np.ptp(seen) / 65535)
    inverted, _ = one_image(stored, PhotometricInterpretation="MONOCHROME1", **padding)
    np.testing.assert_array_equal(inverted.pixels[6:], 255 - image.pixels[6:])
    if kind != "infinite":
        assert not inverted.pixels[:6].any()


def test_infinite_floats_are_the_extremes_and_rescaling_holds_beside_nan():
    stored = np.array([[np.nan, -np.inf, 1, 2, 3, np.inf]], np.float32)
    window = {"WindowCenter": 9, "WindowWidth": 4, "VOILUTFunction": "LINEAR_EXACT"}
    image, values = one_image(stored, RescaleSlope=2, RescaleIntercept=5, **window)
    assert image.pixels.tolist() == [[0, 0, 0, 128, 255, 255]]
    np.testing.assert_allclose(values, [[7, 7, 7, 9, 11, 11]], atol=1e-3)
    assert image.unusable == ()
    with pytest.raises(UnreadableImage, match="no pixel value that is finite"):
        displayed(np.full((3, 4), np.nan, np.float32))


def test_values_of_a_volume_beside_nan_are_rescaled():
    stored = np.array([[np.nan, 1, 2]], np.float32)
    dataset = dicom_set(stored, RescaleSlope=2, RescaleIntercept=5)
    header = FrameHeader(dataset, 0, read_pixel_format(dataset))
    np.testing.assert_array_equal(modality_values(stored, header), [[np.nan, 7, 9]])
    assert header.unusable == []


def test_one_bit():
    mask = STORED > 900
    packed = np.packbits(mask.reshape(-1), bitorder="little").tobytes()
    result = displayed(BitsAllocated=1, BitsStored=1, HighBit=0, PixelRepresentation=0, PixelData=packed)
    np.testing.assert_array_equal(result, mask * 255)


def test_colours():
    np.testing.assert_array_equal(displayed(COLOUR), COLOUR)
    planes = np.ascontiguousarray(COLOUR.transpose(2, 0, 1)).tobytes()
    np.testing.assert_array_equal(displayed(COLOUR, PlanarConfiguration=1, PixelData=planes), COLOUR)
    np.testing.assert_array_equal(displayed(COLOUR.astype(np.uint16) * 257), COLOUR)
    twelve = COLOUR.astype(np.uint16) * 16
    result = displayed(twelve, BitsStored=12, HighBit=11)
    assert np.abs(result - twelve * (255 / 4095)).max() <= 0.5
    np.testing.assert_array_equal(displayed(np.dstack([COLOUR[..., 0]] * 3)), COLOUR[..., 0])


def test_luma_and_chroma_become_rgb():
    smooth = cv2.GaussianBlur(COLOUR, (0, 0), 2)
    ybr = cv2.cvtColor(smooth, cv2.COLOR_RGB2YCrCb)[..., [0, 2, 1]]
    result = displayed(np.ascontiguousarray(ybr), PhotometricInterpretation="YBR_FULL")
    assert np.abs(result.astype(int) - smooth).max() <= 3


@pytest.mark.parametrize(
    ("count", "first", "bits"), [(256, 0, 16), (256, 0, 8), (16, 40, 16), (0, 0, 8), (300, 5, 8)]
)
def test_palettes(count, first, bits):
    """Among them 8-bit entries for more than 256 values, packed two to a word."""
    entries = RNG.integers(0, 2**bits, (3, count or 65536))
    stored = RNG.integers(0, 400, (9, 9), dtype=np.uint16)
    attributes = {}
    for name, row in zip(("Red", "Green", "Blue"), entries, strict=True):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [count, first, bits]
        attributes[f"{name}PaletteColorLookupTableData"] = row.astype(f"<u{bits // 8}").tobytes()
    result = displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes)
    positions = np.clip(stored.astype(int) - first, 0, (count or 65536) - 1)
    expected = entries.T[positions] * 255 / (2**bits - 1)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_byte_palette_declared_as_words():
    attributes = {}
    for name in ("Red", "Green", "Blue"):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        attributes[f"{name}PaletteColorLookupTableData"] = np.arange(256, dtype="<u2").tobytes()
    stored = COLOUR[..., 0]
    np.testing.assert_array_equal(
        displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes), stored
    )


def test_segmented_palette():
    """A discrete segment of one entry, then a linear one up to 65535 (C.7.9.2)."""
    segments = struct.pack("<6H", 0, 1, 0, 1, 255, 65535)
    attributes = {}
    for name in ("Red", "Green", "Blue"):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        attributes[f"Segmented{name}PaletteColorLookupTableData"] = segments
    stored = COLOUR[..., 0]
    np.testing.assert_array_equal(
        displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes), stored
    )


def test_frames_one_at_a_time():
    stored = RNG.integers(0, 4000, (5, 6, 7), dtype=np.uint16)
    images = list(decode(written(dicom_set(stored, frames=5, WindowCenter=2000, WindowWidth=4000))))
    assert [image.frame for image in images] == [1, 2, 3, 4, 5]
    for image, frame in zip(images, stored, strict=True):
        np.testing.assert_allclose(
            image.pixels, np.vectorize(linear, otypes=[float])(frame.astype(float), 2000, 4000), atol=0.51
        )
    assert [image.frame for image in decode(written(dicom_set(stored[:1], frames=1)))] == [None]


@pytest.mark.parametrize("where", ["each", "shared", "both"])
def test_functional_groups_of_enhanced_objects(where):
    stored = RNG.integers(0, 4000, (3, 6, 7), dtype=np.uint16)

    def group(number):
        return item(
            PixelValueTransformationSequence=[
                item(RescaleSlope=number, RescaleIntercept=-100, RescaleType="US")
            ],
            FrameVOILUTSequence=[item(WindowCenter=500 * number, WindowWidth=1000)],
        )

    dataset = dicom_set(stored, frames=3, WindowCenter=1, WindowWidth=2, RescaleSlope=9, RescaleIntercept=9)
    if where != "each":
        dataset.SharedFunctionalGroupsSequence = [group(2)]
    if where != "shared":
        dataset.PerFrameFunctionalGroupsSequence = [group(number) for number in (1, 2, 3)]
    factors = (2, 2, 2) if where == "shared" else (1, 2, 3)
    for image, frame, factor in zip(decode(written(dataset)), stored, factors, strict=True):
        expected = np.vectorize(linear, otypes=[float])(frame * float(factor) - 100, 500.0 * factor, 1000.0)
        assert np.abs(image.pixels - expected).max() <= 0.5 + 1e-6


def test_run_lengths_and_frames():
    stored = np.repeat(RNG.integers(0, 4000, (3, 6, 1), dtype=np.uint16), 40, axis=2)
    dataset = dicom_set(stored, frames=3)
    plain = [image.pixels for image in decode(written(dataset))]
    dataset.compress(RLELossless, generate_instance_uid=False)
    for image, expected in zip(decode(written(dataset)), plain, strict=True):
        np.testing.assert_array_equal(image.pixels, expected)
