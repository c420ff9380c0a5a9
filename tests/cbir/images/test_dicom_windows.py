"""Synthetic DICOM files: effect of windows, rescaling, tables and padding on the pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.pixels import apply_modality_lut

from cbir.images import decode
from tests.cbir.images.synthetic_dicom import (
    STORED,
    by_percentiles,
    dicom_set,
    displayed,
    linear,
    lut,
    written,
)

RNG = np.random.default_rng(1)


def linear_exact(x, c, w):
    """PS3.3, C.11.2.1.3.2, line by line."""
    if x <= c - w / 2:
        return 0
    if x > c + w / 2:
        return 255
    return ((x - c) / w + 0.5) * 255


def sigmoid(x, c, w):
    """PS3.3, C.11.2.1.3.1."""
    return 255 / (1 + np.exp(min(-4 * (x - c) / w, 700)))


FUNCTIONS = {"LINEAR": linear, "LINEAR_EXACT": linear_exact, "SIGMOID": sigmoid}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@given(c=st.floats(-900, 2900).map(lambda c: round(c, 2)), w=st.floats(1, 4000).map(lambda w: round(w, 2)))
def test_windows_follow_the_standard(function, c, w):
    result = displayed(WindowCenter=c, WindowWidth=w, VOILUTFunction=function)
    expected = np.vectorize(FUNCTIONS[function], otypes=[float])(STORED.astype(float), c, w)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_first_window_applies_after_rescaling():
    result = displayed(
        WindowCenter=[40, 500], WindowWidth=[400, 2000], RescaleSlope=2, RescaleIntercept=-1024
    )
    np.testing.assert_allclose(
        result, np.vectorize(linear, otypes=[float])(STORED * 2.0 - 1024, 40.0, 400.0), atol=0.5 + 1e-6
    )


def test_width_one_is_a_threshold():
    np.testing.assert_array_equal(displayed(WindowCenter=100, WindowWidth=1), np.where(STORED > 99.5, 255, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32])
def test_without_a_window_the_percentiles(dtype):
    info = np.iinfo(dtype)
    stored = RNG.integers(info.min, info.max, (20, 30), dtype=dtype, endpoint=True)
    np.testing.assert_array_equal(displayed(stored), by_percentiles(stored.astype(float)))


@pytest.mark.parametrize(
    "window",
    [{"WindowCenter": 0, "WindowWidth": 0}, {"WindowCenter": 9, "WindowWidth": -5}, {"WindowCenter": 9},
     {"WindowWidth": 9}, {"WindowCenter": None, "WindowWidth": None}, {"RescaleSlope": 0}],
)  # fmt: skip
def test_invalid_windows_are_ignored(window):
    np.testing.assert_array_equal(displayed(**window), by_percentiles(STORED.astype(float)))


def test_window_with_text_is_ignored():
    data = written(dicom_set(WindowCenter=40, WindowWidth=400)).replace(b"400.0 ", b"wide  ")
    (image,) = decode(data)
    np.testing.assert_array_equal(image.pixels, by_percentiles(STORED.astype(float)))


def test_a_width_below_one_is_exact():
    stored = np.arange(100, dtype=np.uint8).reshape(10, 10)
    values = stored / 100
    result = displayed(stored, RescaleSlope=0.01, RescaleIntercept=0, WindowCenter=0.5, WindowWidth=0.5)
    np.testing.assert_allclose(
        result, np.vectorize(linear_exact, otypes=[float])(values, 0.5, 0.5), atol=0.5 + 1e-6
    )


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_flat_image_is_black(value):
    assert not displayed(np.full((4, 6), value, np.uint8)).any()
    assert not displayed(np.full((4, 6), value, np.float32)).any()


def test_monochrome1_is_inverted_after_the_window():
    for window in ({}, {"WindowCenter": 300, "WindowWidth": 900}, {"VOILUTSequence": [lut([0, 65535], 0)]}):
        plain = displayed(**window)
        np.testing.assert_array_equal(
            displayed(PhotometricInterpretation="MONOCHROME1", **window), 255 - plain
        )


def test_modality_table():
    entries = RNG.integers(0, 4096, 64)
    stored = RNG.integers(0, 128, (9, 9), dtype=np.uint8)
    expected = entries[np.clip(stored.astype(int) - 20, 0, 63)].astype(float)
    for vr in ("US", "OW"):
        result = displayed(stored, ModalityLUTSequence=[lut(entries, 20, vr=vr)])
        np.testing.assert_array_equal(result, by_percentiles(expected))


@pytest.mark.parametrize("entries", [[0, 1, 2, 3], [7, 8, 8, 9], [0, 100, 200, 250]])
@pytest.mark.parametrize("window", [{}, {"WindowCenter": 5, "WindowWidth": 9}])
def test_a_modality_table_of_few_low_values_is_used(entries, window):
    stored = RNG.integers(0, 4, (9, 9), dtype=np.uint8)
    dataset = dicom_set(stored, ModalityLUTSequence=[lut(entries, 0)], **window)
    expected = apply_modality_lut(stored, dataset).astype(float)
    (image,) = decode(written(dataset), keep_values=True)
    shown = by_percentiles(expected)
    if window:
        shown = np.vectorize(linear, otypes=[float])(expected, 5.0, 9.0)
    np.testing.assert_allclose(image.pixels, shown, atol=0.5 + 1e-6)
    np.testing.assert_array_equal(
        image.values.slope * image.values.numbers + image.values.intercept, expected
    )
    assert image.unusable == ()


def test_entries_of_no_pixel_do_not_count():
    stored = np.array([[0, 255, 0, 255]], np.uint8)
    table = lut([100, *[4000] * 254, 200], 0)
    (image,) = decode(written(dicom_set(stored, ModalityLUTSequence=[table])))
    assert image.windowing == (150.5, 101, 100, 200)
    (image,) = decode(
        written(dicom_set(stored, ModalityLUTSequence=[table], VOILUTSequence=[lut(range(256), 0, 8)]))
    )
    assert image.pixels.tolist() == [[100, 200, 100, 200]]
    assert image.windowing == (150.5, 101, 100, 200)


X_RAYS = {"angiography": "12.1", "fluoroscopy": "12.2", "two planes": "12.3"}


@pytest.mark.parametrize("name", X_RAYS)
def test_the_modality_table_of_angiography_is_not_for_display(name):
    """It leads to intensities of X-rays (PS3.3, C.8.7.1.1.2)."""
    stored = RNG.integers(0, 256, (9, 9), dtype=np.uint8)
    table = lut(np.square(np.arange(256)), 0)
    kind = {"SOPClassUID": f"1.2.840.10008.5.1.4.1.1.{X_RAYS[name]}", "PixelIntensityRelationship": "LOG"}
    for window in ({}, {"WindowCenter": 128, "WindowWidth": 256}, {"WindowCenter": 60000, "WindowWidth": 9}):
        plain = displayed(stored, **kind, **window)
        np.testing.assert_array_equal(displayed(stored, ModalityLUTSequence=[table], **kind, **window), plain)
    rescaled = displayed(
        stored, **kind, RescaleSlope=2, RescaleIntercept=9, WindowCenter=265, WindowWidth=512
    )
    np.testing.assert_allclose(rescaled, stored, atol=1)


@pytest.mark.parametrize("bits", [8, 10, 12, 16])
@pytest.mark.parametrize("first", [-1000, 0, 50])
def test_voi_table_precedes_window(bits, first):
    entries = RNG.integers(0, 2**bits, 500)
    result = displayed(VOILUTSequence=[lut(entries, first, bits)], WindowCenter=1, WindowWidth=1)
    expected = entries[np.clip(STORED.astype(int) - first, 0, 499)] * 255 / (2**bits - 1)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_voi_table_after_rescaling_into_the_negative():
    stored = np.arange(200, dtype=np.uint16).reshape(10, 20)
    table = lut(range(200), 65536 - 100, 8)
    result = displayed(stored, RescaleSlope=1, RescaleIntercept=-100, VOILUTSequence=[table])
    np.testing.assert_array_equal(result, stored)


def test_table_larger_than_declared_does_not_overflow():
    entries = [0, 4095, 40000, 65535]
    result = displayed(np.array([[0, 1, 2, 3]], np.uint8), VOILUTSequence=[lut(entries, 0, 12)])
    assert result.tolist() == [[0, 16, 156, 255]]


def test_padding_does_not_count_for_the_percentiles():
    stored = STORED.copy()
    stored[:6] = -2000
    result = displayed(stored, PixelPaddingValue=-2000)
    np.testing.assert_array_equal(result[6:], by_percentiles(stored[6:].astype(float)))
    assert not result[:6].any()
    stored[:6] = RNG.integers(-2100, -1999, (6, 17))
    result = displayed(stored, PixelPaddingValue=-2000, PixelPaddingRangeLimit=-2100)
    np.testing.assert_array_equal(result[6:], by_percentiles(stored[6:].astype(float)))


def test_padding_scattered_by_lossy_compression():
    stored = RNG.integers(0, 1500, (40, 30)).astype(np.int16)
    clear = by_percentiles(stored[20:].astype(float))
    stored[:20] = np.clip(RNG.normal(-2000, 60, (20, 30)), -2300, -1700).astype(np.int16)
    lossy = {"PixelPaddingValue": -2000, "LossyImageCompression": "01"}
    np.testing.assert_array_equal(displayed(stored, **lossy)[20:], clear)
    assert (displayed(stored, PixelPaddingValue=-2000)[20:] != clear).any()
    stored[0, 0] = 32000  # metal: tissue is far from it, and must not be taken for padding
    assert np.ptp(displayed(stored, **lossy)[20:]) > 50


def test_lossy_padding_that_other_values_adjoin_is_exact():
    stored = RNG.integers(0, 1500, (40, 30)).astype(np.int16)
    stored[:20] = 0
    visible = stored[stored != 0].astype(float)
    result = displayed(stored, PixelPaddingValue=0, LossyImageCompression="01")
    np.testing.assert_array_equal(result[stored != 0], by_percentiles(visible))


def test_only_padding():
    assert not displayed(np.full((3, 3), 9, np.int16), PixelPaddingValue=9).any()
