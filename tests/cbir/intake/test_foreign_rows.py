"""Bytes that replace others in uncompressed pixels, and pictures that only look so."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.images import Image
from cbir.intake.foreign_rows import has_foreign_rows, has_noisy_run, has_stepped_band
from cbir.intake.pixel_checks import check_pixels

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (120, 100)).astype(np.uint8)
SMOOTH = cv2.normalize(cv2.GaussianBlur(NOISE, (0, 0), 4), None, 20, 230, cv2.NORM_MINMAX)


def with_bytes(start: int, others: bytes) -> NDArray[np.uint8]:
    data = bytearray(SMOOTH.tobytes())
    data[start : start + len(others)] = others
    return np.frombuffer(bytes(data), np.uint8).reshape(SMOOTH.shape)


@pytest.mark.parametrize("start", [5020, 5070, 130])
def test_64_other_bytes_are_damage(start: int) -> None:
    damaged = with_bytes(start, RNG.bytes(64))
    assert has_noisy_run(damaged)
    assert not has_stepped_band(damaged)
    assert check_pixels(Image(damaged)) == ["damaged"]


def test_a_quarter_of_zeros_is_damage() -> None:
    damaged = with_bytes(4040, bytes(3000))
    assert has_stepped_band(damaged)
    assert check_pixels(Image(damaged)) == ["damaged"]


def test_a_band_from_edge_to_edge_is_a_border_between_pictures() -> None:
    montage = SMOOTH.copy()
    montage[50:70] = 0
    assert not has_foreign_rows(montage)
    montage[49, 40:] = 0
    assert has_stepped_band(montage)


def test_what_looks_like_noise_or_bands_is_neither() -> None:
    dashed, written, ruled = SMOOTH.copy(), SMOOTH.copy(), SMOOTH.copy()
    dashed[60, ::2] = 255
    cv2.putText(written, "DOE 1957", (4, 60), cv2.FONT_HERSHEY_PLAIN, 0.7, 255, 1)
    ruled[60:62] = 255
    for picture in (SMOOTH, NOISE, dashed, written, ruled):
        assert not has_foreign_rows(picture)


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (3, 20), (5, 21), (300, 2)])
def test_small_pictures_have_no_foreign_rows(size: tuple[int, int]) -> None:
    for picture in (np.zeros(size, np.uint8), RNG.integers(0, 256, size).astype(np.uint8)):
        assert not has_stepped_band(picture)
        has_noisy_run(picture)
