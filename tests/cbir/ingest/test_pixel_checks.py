"""Blank and damaged images."""

import numpy as np
import pytest

from cbir.images import Image
from cbir.ingest.pixel_checks import (
    check_pixels,
    findings_of,
    has_constant_band,
    is_blank,
    with_findings,
)
from cbir.store.records.records import Record

RNG = np.random.default_rng(0)
TEXTURE = RNG.integers(0, 256, (100, 100)).astype(np.uint8)


@pytest.mark.parametrize("value", [0, 128, 255])
def test_one_grey_value_is_blank(value: int) -> None:
    assert check_pixels(Image(np.full((50, 60), value, np.uint8))) == ["blank"]


def test_a_picture_is_neither_blank_nor_damaged() -> None:
    assert not is_blank(TEXTURE)
    assert check_pixels(Image(TEXTURE)) == []


@pytest.mark.parametrize(("value", "expected"), [(128, True), (0, False), (255, False)])
def test_rows_of_grey_at_the_end_are_damage_and_borders_are_not(value: int, expected: bool) -> None:
    pixels = TEXTURE.copy()
    pixels[-20:] = value
    assert has_constant_band(pixels) is expected


def test_rows_as_grey_as_the_background_are_no_damage() -> None:
    """Air in a CT image is not its darkest grey, and fills the first rows too."""
    pixels = TEXTURE.copy()
    pixels[:10, :40] = pixels[-20:] = 101
    assert not has_constant_band(pixels)
    pixels[:10, 2:40] = 102
    assert has_constant_band(pixels)


def test_a_short_band_is_no_damage() -> None:
    pixels = TEXTURE.copy()
    pixels[-2:] = 128
    assert not has_constant_band(pixels)


def test_findings_are_listed_once_in_order() -> None:
    record = Record("0" * 32, "a", "", "png", 1, 1, labels={"intake": "unlike"})
    assert findings_of(with_findings(record, ["text", "unlike"])) == ["text", "unlike"]
    assert with_findings(record, ["text"]).labels == {"intake": "text+unlike"}
    assert with_findings(Record("0" * 32, "a", "", "png", 1, 1), []).labels == {}
