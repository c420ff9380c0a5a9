"""Synthetic DICOM files: types of pixels, colours, palettes and frames."""

import struct

import cv2
import imagecodecs
import numpy as np
import pytest
from pydicom.encaps import itemize_fragment
from pydicom.pixels import get_encoder
from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit, RLELossless

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
    refused,
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


@pytest.mark.parametrize("shape", [(1, 3), (1, 5), (3, 7), (5, 5), (7, 11), (8, 8)])
@pytest.mark.parametrize("count", [2, 5, 9])
def test_frames_of_one_bit_follow_each_other_without_gaps(shape, count):
    """PS3.5, 8.1.1: frames may begin inside of a byte."""
    masks = RNG.integers(0, 2, (count, *shape), dtype=np.uint8)
    packed = np.packbits(masks.reshape(-1), bitorder="little").tobytes()
    packed += bytes(len(packed) % 2)
    dataset = dicom_set(
        masks,
        count,
        BitsAllocated=1,
        BitsStored=1,
        HighBit=0,
        PixelData=packed,
        WindowCenter=1,
        WindowWidth=1,
    )
    found = [image.values.numbers for image in decode(written(dataset), keep_values=True)]
    np.testing.assert_array_equal(found, masks)


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


def test_two_pixels_may_share_their_chroma():
    """In each of several frames."""
    pairs = RNG.integers(0, 256, (3, 4, 3, 4), dtype=np.uint8)  # two of luma, blue, red
    full = np.stack([pairs[..., [0, 2, 3]], pairs[..., [1, 2, 3]]], axis=3).reshape(3, 4, 6, 3)
    whole = decode(written(dicom_set(full, 3, PhotometricInterpretation="YBR_FULL")))
    shared = dicom_set(full, 3, PhotometricInterpretation="YBR_FULL_422", PixelData=pairs.tobytes())
    for image, expected in zip(decode(written(shared)), whole, strict=True):
        np.testing.assert_array_equal(image.pixels, expected.pixels)


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


FRAMES = [np.full((16, 16), value, np.uint8) + np.arange(16, dtype=np.uint8) for value in (10, 90, 170)]
CODED = {
    RLELossless: [next(get_encoder(RLELossless).iter_encode(dicom_set(frame))) for frame in FRAMES],
    JPEGBaseline8Bit: [imagecodecs.jpeg8_encode(frame, 98) for frame in FRAMES],
    JPEG2000Lossless: [
        imagecodecs.jpeg2k_encode(frame, codecformat="j2k", reversible=True) for frame in FRAMES
    ],
}
CODED = {syntax: [coded + bytes(len(coded) % 2) for coded in frames] for syntax, frames in CODED.items()}


def in_fragments(syntax, fragments, basic=(), extended=None, count=3):
    """A file with frames in fragments. basic, extended: offsets, in fragments, of the offset tables."""
    ends = np.cumsum([0] + [8 + len(fragment) for fragment in fragments])
    dataset = dicom_set(np.stack(FRAMES[:count]), count, WindowCenter=128, WindowWidth=256)
    dataset.file_meta.TransferSyntaxUID = syntax
    table = np.array([ends[at] if at < 9 else at for at in basic], "<u4").tobytes()
    dataset.PixelData = b"".join(map(itemize_fragment, [table, *fragments]))
    dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OB", True
    if extended is not None:
        lengths = [len(coded) for coded in CODED[syntax]]
        dataset.ExtendedOffsetTable = np.array(
            [ends[at] if at < 9 else at for at in extended], "<u8"
        ).tobytes()
        dataset.ExtendedOffsetTableLengths = np.array(lengths[: len(extended)], "<u8").tobytes()
    return dataset


def first_values(dataset):
    return [int(round(float(image.pixels[0, 0]), -1)) for image in decode(written(dataset))]


@pytest.mark.parametrize("table", [
    (), (0, 1, 2), (0, 0, 0), (0, 10**6, 10**7), (20, 90, 170), (0, 1), (0,), (1, 2, 0),
])  # fmt: skip
@pytest.mark.parametrize("syntax", CODED)
def test_wrong_offset_tables_change_no_frame(syntax, table):
    """As many fragments as frames; offsets above 8 are bytes."""
    assert first_values(in_fragments(syntax, CODED[syntax], table)) == [10, 90, 170]
    if table != (1, 2, 0):
        assert first_values(in_fragments(syntax, CODED[syntax], (), table)) == [10, 90, 170]


@pytest.mark.parametrize("syntax", CODED)
def test_frames_of_several_fragments(syntax):
    first, second, third = CODED[syntax]
    split = [first[:40], first[40:], second, third]
    for table in ((), (0, 2, 3), (0, 1, 2), (0, 0, 0), (0, 48, 10**6)):
        assert first_values(in_fragments(syntax, split, table)) == [10, 90, 170]
        assert first_values(in_fragments(syntax, split, (), table)) == [10, 90, 170]
    few = in_fragments(syntax, CODED[syntax][:2])
    assert "2 fragments of compressed pixels for 3 frames" in refused(few)


@pytest.mark.parametrize("syntax", CODED)
def test_the_extended_offset_table_leaves_fragments_out(syntax):
    """Of an earlier state of a frame, which look like frames too."""
    first, second, third = CODED[syntax]
    stale = in_fragments(syntax, [first, third, second, third], (), (0, 2, 3))
    assert first_values(stale) == [10, 90, 170]
    del stale.ExtendedOffsetTableLengths
    assert first_values(stale) == [10, 90, 170]


@pytest.mark.parametrize("syntax", CODED)
def test_frames_beyond_the_declared_ones_are_left_out(syntax):
    for table in ((), (0, 1, 2)):
        assert first_values(in_fragments(syntax, CODED[syntax], table, count=2)) == [10, 90]
        assert first_values(in_fragments(syntax, CODED[syntax], table, count=1)) == [10]
    assert first_values(in_fragments(syntax, [*CODED[syntax], b""])) == [10, 90, 170]
