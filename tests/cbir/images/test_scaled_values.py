"""Values of grey frames in 16 bits: those of the header's slope and intercept, whatever they are stored as."""

from typing import Any

import numpy as np
import pytest
from pydicom.dataset import Dataset

from cbir.images import Image, decode
from cbir.images.image import ScaledValues, line_through, scale_values
from tests.cbir.images.synthetic_dicom import STORED, dicom_set, written


def values_of(stored: Any = STORED, **attributes: Any) -> tuple[ScaledValues, Image]:
    (image,) = decode(written(dicom_set(stored, **attributes)), keep_values=True)
    assert image.values is not None
    return image.values, image


def modality(scaled: ScaledValues) -> Any:
    return scaled.numbers * scaled.slope + scaled.intercept


@pytest.mark.parametrize(("slope", "intercept"), [(1, -1024), (0.25, 3.5), (-2, 7)])
def test_slope_and_intercept_of_the_header(slope: float, intercept: float) -> None:
    scaled, _ = values_of(RescaleSlope=slope, RescaleIntercept=intercept, Modality="CT")
    assert scaled.numbers.dtype == np.int16
    assert np.array_equal(scaled.numbers, STORED)
    assert (scaled.slope, scaled.intercept, scaled.unit) == (slope, intercept, "HU")


@pytest.mark.parametrize(
    ("kind", "dtype"), [(np.uint8, np.uint8), (np.int16, np.int16), (np.uint16, np.uint16)]
)
def test_the_smallest_type_that_holds_them(kind: type, dtype: type) -> None:
    info = np.iinfo(kind)
    stored = np.linspace(info.min, info.max, 64).astype(kind).reshape(8, 8)
    scaled, _ = values_of(stored)
    assert scaled.numbers.dtype == dtype
    assert np.array_equal(modality(scaled), stored)


def test_units_that_the_header_does_not_name() -> None:
    assert values_of(Modality="CT")[0].unit == ""
    assert values_of(RescaleIntercept=0, RescaleSlope=1, Modality="MR")[0].unit == ""
    rescaled = {"RescaleIntercept": 0, "RescaleSlope": 1, "Modality": "CT"}
    assert values_of(**rescaled, RescaleType="US")[0].unit == ""
    assert values_of(**rescaled, RescaleType="HU")[0].unit == "HU"


@pytest.mark.parametrize(("kind", "scaling"), [(np.uint16, 1.23456789e-7), (np.uint32, 1.25e-8)])
def test_doses(kind: type, scaling: float) -> None:
    """PS3.3, C.8.8.3: in grays, as small as they are."""
    stored = (np.arange(64) * (1000 if kind == np.uint16 else 10**7)).astype(kind).reshape(8, 8)
    scaled, image = values_of(stored, DoseGridScaling=f"{scaling:.9g}", DoseUnits="GY", Modality="RTDOSE")
    doses = stored * scaling
    np.testing.assert_allclose(modality(scaled), doses, rtol=1e-6, atol=doses.max() / 65535)
    assert image.windowing is not None
    assert image.windowing.greatest == pytest.approx(doses.max())


def test_values_of_a_modality_table() -> None:
    table = Dataset()
    table.LUTDescriptor = [4, 0, 16]
    table.LUTData = np.array([0, 1000, 30000, 65535], "<u2").tobytes()
    stored = np.array([[0, 1], [2, 3]], np.uint16)
    scaled, _ = values_of(stored, ModalityLUTSequence=[table])
    assert modality(scaled).tolist() == [[0, 1000], [30000, 65535]]


def test_a_window_shows_what_is_displayed_unless_a_curve_does() -> None:
    window = {"WindowCenter": 500, "WindowWidth": 1000}
    scaled, image = values_of(**window)
    assert scaled.linear
    assert image.windowing
    least = image.windowing.center - 0.5 - (image.windowing.width - 1) / 2
    shown = np.clip((modality(scaled) - least) / (image.windowing.width - 1), 0, 1) * 255
    assert np.abs(shown - image.pixels).max() <= 1
    assert not values_of(**window, VOILUTFunction="SIGMOID")[0].linear
    assert values_of(PhotometricInterpretation="MONOCHROME1")[0].inverted


def test_values_that_are_no_whole_numbers_keep_65536_levels() -> None:
    floats = np.random.default_rng(0).normal(0, 1e-3, (20, 30)).astype(np.float32)
    scaled, _ = values_of(floats)
    assert np.abs(modality(scaled) - floats).max() <= np.ptp(floats) / 65535
    assert scale_values(np.full((2, 2), 7.5)).intercept == 7.5


def test_lines() -> None:
    assert line_through(np.array([3.0])) == (1.0, 3.0)
    assert line_through(np.array([1.0, 1.5, 2.0])) == (0.5, 1.0)
    assert line_through(np.array([1.0, 1.5, 3.0])) is None
    assert line_through(np.array([1.0, 1.0])) is None


def test_values_are_kept_on_request_alone() -> None:
    (image,) = decode(written(dicom_set()))
    assert image.values is None
    (colour,) = decode(written(dicom_set(np.zeros((4, 4, 3), np.uint8))), keep_values=True)
    assert colour.values is None
