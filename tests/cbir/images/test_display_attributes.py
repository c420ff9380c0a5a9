"""Display attributes that cannot be used are passed over for the next best, and named; no image turns black."""

from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset

from cbir.images import Limits, decode
from cbir.images.ct_series import find_series, read_volume
from cbir.images.volume import VolumeGrid
from cbir.store.records.records import describe_record
from tests.cbir.images.synthetic_dicom import by_percentiles, dicom_set, item, lut, written
from tests.cbir.images.synthetic_series import stack, write_series

ROWS, COLUMNS = np.mgrid[0:64, 0:64]
RAMP = ((20 * (ROWS + 2 * COLUMNS)) % 4096).astype(np.uint16)
SHOWN = np.rint(RAMP / 4095 * 255)
WINDOW = {"WindowCenter": 2048, "WindowWidth": 4096}
EQUAL, EMPTY = lut([0] * 4096, 0, vr="OW"), item(LUTDescriptor=[4096, 0, 16], LUTData=b"")
EMPTY["LUTData"].VR = "OW"
IDENTITY = lut(range(0, 65536, 16), 0, vr="OW")


def short(entries):
    return item(LUTDescriptor=[4096, 0, 16], LUTData=np.arange(0, 16 * entries, 16, dtype="<u2").tobytes())


USELESS = {
    "empty": Dataset(), "no data": item(LUTDescriptor=[4096, 0, 16]), "empty data": EMPTY, "half": short(2048),
    "most": short(3000), "equal": EQUAL, "two numbers": item(LUTDescriptor=[4096, 0], LUTData=b"12"),
    "bytes": item(LUTDescriptor=[4096, 0, 16], LUTData=bytes(range(256)) * 16),
    "odd": item(LUTDescriptor=[4096, 0, 16], LUTData=b"\0\0\0"),
    "elsewhere": lut(range(0, 65536, 16), 20000, vr="OW"),
}  # fmt: skip
for _table in USELESS.values():
    if "LUTData" in _table:
        _table["LUTData"].VR = "OW"


def ramp(**attributes):
    (image,) = decode(written(dicom_set(RAMP, BitsStored=12, HighBit=11, **attributes)))
    return image


@pytest.mark.parametrize("vr", ["explicit", "functional group"])
@pytest.mark.parametrize("name", USELESS)
def test_useless_voi_luts_leave_the_window(name, vr):
    sequence = {"VOILUTSequence": [USELESS[name]]}
    if vr == "functional group":
        sequence = {"PerFrameFunctionalGroupsSequence": [item(FrameVOILUTSequence=[item(**sequence)])]}
    image = ramp(**sequence, **WINDOW)
    assert np.abs(image.pixels - SHOWN).max() <= 1
    assert image.unusable == ("VOI LUT",)
    assert image.windowing.center == 2048


@pytest.mark.parametrize("name", USELESS)
def test_the_next_voi_lut_or_the_percentiles(name):
    image = ramp(VOILUTSequence=[USELESS[name], IDENTITY])
    np.testing.assert_allclose(image.pixels, RAMP * 16 * (255 / 65535), atol=0.51)
    assert image.unusable == ("VOI LUT",)
    np.testing.assert_array_equal(
        ramp(VOILUTSequence=[USELESS[name]]).pixels, by_percentiles(RAMP.astype(float))
    )


def test_a_table_that_is_short_by_entries_of_no_pixel_is_used():
    image = ramp(VOILUTSequence=[short(int(RAMP.max()) + 1)], WindowCenter=0, WindowWidth=1)
    np.testing.assert_allclose(image.pixels, RAMP * 16 * (255 / 65535), atol=0.51)
    assert image.unusable == ()


@pytest.mark.parametrize(
    "windows",
    [
        {"WindowCenter": [40, 2048], "WindowWidth": [0, 4096]},
        {"WindowCenter": [40, 2048], "WindowWidth": [-1, 4096]},
        {"WindowCenter": [60000, 2048], "WindowWidth": [400, 4096]},
        {"WindowCenter": [-1000, 2048], "WindowWidth": [400, 4096], "VOILUTFunction": "LINEAR_EXACT"},
    ],
)
def test_the_next_window(windows):
    image = ramp(**windows)
    assert np.abs(image.pixels - SHOWN).max() <= 1
    assert image.unusable == ("window",)


@pytest.mark.parametrize(
    "window",
    [{"WindowCenter": 0, "WindowWidth": 0}, {"WindowCenter": 9}, {"WindowWidth": 9},
     {"WindowCenter": [1, 2], "WindowWidth": [0, 0]}, {"WindowCenter": 60000, "WindowWidth": 400},
     {"WindowCenter": -1000, "WindowWidth": 400}],
)  # fmt: skip
def test_no_usable_window(window):
    image = ramp(**window)
    np.testing.assert_array_equal(image.pixels, by_percentiles(RAMP.astype(float)))
    assert image.unusable == ("window",)


def test_a_window_for_other_units_is_none():
    """A window of stored values with a slope that makes them small, as in some PET, shows one grey."""
    image = ramp(RescaleSlope="0.0001", RescaleIntercept=0, **WINDOW)
    assert image.pixels.max() == 255
    assert image.unusable == ("window",)


def test_a_window_for_stored_values_is_none_behind_a_modality_lut():
    shown = (RAMP >> 4).astype(float)
    table = lut(np.arange(4096) >> 4, 0, 8)
    image = ramp(ModalityLUTSequence=[table], WindowCenter=2048, WindowWidth=400)
    np.testing.assert_array_equal(image.pixels, by_percentiles(shown))
    assert image.unusable == ("window",)
    image = ramp(ModalityLUTSequence=[table], WindowCenter=250, WindowWidth=4)
    assert image.unusable == ()
    useless = {"ModalityLUTSequence": [table], "VOILUTSequence": [lut(range(0, 65536, 16), 300)]}
    assert ramp(**useless).unusable == ("VOI LUT",)


def test_a_window_above_all_values_of_one_frame_is_used():
    image = ramp(RescaleSlope=1, RescaleIntercept=-1024, WindowCenter=2900, WindowWidth=10)
    assert not image.pixels.any()
    assert image.unusable == ()


def test_attributes_without_values_are_not_named():
    assert ramp(WindowCenter=None, WindowWidth=None, RescaleSlope=None, VOILUTSequence=[]).unusable == ()
    assert ramp(**WINDOW).unusable == ()


def test_an_unknown_voi_function_is_linear():
    image = ramp(**WINDOW, VOILUTFunction="SPLINE")
    assert np.abs(image.pixels - SHOWN).max() <= 1
    assert image.unusable == ("VOI LUT function",)


@pytest.mark.parametrize("name", USELESS)
def test_useless_modality_luts_leave_the_rescaling_or_the_values(name):
    image = ramp(ModalityLUTSequence=[USELESS[name]], **WINDOW)
    assert np.abs(image.pixels - SHOWN).max() <= 1
    assert image.unusable == ("modality LUT",)
    shifted = {"WindowCenter": 4096, "WindowWidth": 8192}
    image = ramp(ModalityLUTSequence=[USELESS[name]], RescaleSlope=2, RescaleIntercept=0, **shifted)
    assert np.abs(image.pixels - SHOWN).max() <= 1


def test_a_window_for_the_values_of_a_useless_modality_lut_does_not_black_out():
    image = ramp(ModalityLUTSequence=[Dataset()], WindowCenter=-60000, WindowWidth=10)
    np.testing.assert_array_equal(image.pixels, by_percentiles(RAMP.astype(float)))
    assert image.unusable == ("modality LUT", "window")


@pytest.mark.parametrize("slope", ["0", "1e308"])
def test_slopes_that_cannot_be(slope):
    intercept = -1024 if slope == "0" else 0
    image = ramp(
        RescaleSlope=slope, RescaleIntercept=intercept, WindowCenter=2048 + intercept, WindowWidth=4096
    )
    assert np.abs(image.pixels - SHOWN).max() <= 1
    assert image.unusable == ("rescaling",)


def test_the_record_names_them():
    image = ramp(VOILUTSequence=[Dataset()], WindowCenter=1, WindowWidth=0)
    assert (
        describe_record(image, source="a", source_stamp="", secret=b"k").labels["unusable"]
        == "VOI LUT+window"
    )
    record = describe_record(ramp(**WINDOW), source="a", source_stamp="", secret=b"k")
    assert "unusable" not in record.labels


@pytest.mark.parametrize("bits", [12, 16])
def test_padding_of_the_other_sign_does_not_count(bits):
    """PixelPaddingValue as US for signed data, and as SS for unsigned ones."""
    stored = np.random.default_rng(1).integers(0, 1500, (12, 17), dtype=np.int16)
    stored[:6] = -2000
    clear = by_percentiles(stored[6:].astype(float))
    for low, high in ((2**16 - 2000, None), (2**16 - 2010, 2**16 - 1990), (2**bits - 2000, None)):
        dataset = dicom_set(stored, BitsStored=bits, HighBit=bits - 1)
        dataset.add_new("PixelPaddingValue", "US", low)
        if high:
            dataset.add_new("PixelPaddingRangeLimit", "US", high)
        (image,) = decode(written(dataset))
        np.testing.assert_array_equal(image.pixels[6:], clear)
    unsigned = stored.astype(np.uint16)
    dataset = dicom_set(unsigned)
    dataset.add_new("PixelPaddingValue", "SS", -2000)
    (image,) = decode(written(dataset))
    np.testing.assert_array_equal(image.pixels[6:], clear)


GRID = VolumeGrid((20, 20, 12), (8.0, 8.0, 8.0))


def voxels(paths):
    (series,) = find_series(paths, Limits(), Path.read_bytes).series
    return read_volume(series, Limits(), GRID, Path.read_bytes).voxels


def test_volumes_have_the_same_stored_values_and_rescaling_as_pictures(tmp_path):
    values = stack()
    expected = voxels(write_series(tmp_path / "plain", values))
    np.testing.assert_array_equal(voxels(write_series(tmp_path / "zero", values, RescaleSlope=0)), expected)
    paths = write_series(tmp_path / "high", values)
    for path in paths:
        dataset = dcmread(path)
        words = ((np.frombuffer(dataset.PixelData, "<u2") & 0xFFF) << 4) | 0x9
        dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 12, 15, 0
        dataset.PixelData = words.astype("<u2").tobytes()
        dataset.save_as(path)
    np.testing.assert_array_equal(voxels(paths), expected)


@pytest.mark.parametrize("vr", ["US", "SS"])
@pytest.mark.parametrize("darkest", [0, 1500])
def test_the_first_input_of_a_voi_lut_is_signed_for_frames_without_negative_values_too(vr, darkest):
    stored = np.maximum(RAMP, darkest)
    table = lut(range(0, 65536, 16), 0, vr="OW")
    del table.LUTDescriptor
    table.add_new("LUTDescriptor", vr, [4096, -1024 if vr == "SS" else 65536 - 1024, 16])
    rescaling = {"RescaleSlope": 1, "RescaleIntercept": -1024}
    (image,) = decode(
        written(dicom_set(stored, BitsStored=12, HighBit=11, VOILUTSequence=[table], **rescaling))
    )
    np.testing.assert_allclose(image.pixels, stored * 16 * (255 / 65535), atol=0.51)


@pytest.mark.parametrize("vr", ["OW", "US"])
@pytest.mark.parametrize("packed", [True, False])
def test_entries_of_bytes_have_a_word_or_half_of_one(vr, packed):
    entries = (np.arange(4096) >> 4).astype(np.uint8)
    words = np.frombuffer(entries.tobytes(), "<u2") if packed else entries.astype("<u2")
    table = item(LUTDescriptor=[4096, 0, 8])
    table.add_new("LUTData", vr, words.tobytes() if vr == "OW" else words.tolist())
    image = ramp(VOILUTSequence=[table])
    np.testing.assert_array_equal(image.pixels, RAMP >> 4)
    assert image.unusable == ()
