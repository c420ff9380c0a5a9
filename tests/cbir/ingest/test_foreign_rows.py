"""Bytes that replace others in uncompressed pixels, and pictures that only look so."""

import tracemalloc

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.images import Image
from cbir.ingest.pixel_checks import check_pixels, has_foreign_rows, has_noisy_run, has_stepped_band

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


def test_noise_is_found_in_any_block_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbir.images.image.BLOCK_PIXELS", 700)  # 7 rows
    for row in range(40, 56):
        assert has_noisy_run(with_bytes(100 * row + 10, RNG.bytes(64)))
    assert not has_noisy_run(SMOOTH)


def test_large_pictures_take_little_memory() -> None:
    large = np.tile(SMOOTH, (40, 10))
    tracemalloc.start()
    try:
        assert not has_foreign_rows(large)
        assert tracemalloc.get_traced_memory()[1] < 12 * large.size
    finally:
        tracemalloc.stop()


def test_halftones_are_not_noise() -> None:
    rows, columns = np.indices(SMOOTH.shape)
    grid = np.where((rows + columns) % 2, SMOOTH, 255 - SMOOTH)
    assert not has_noisy_run(grid)


def test_text_and_tilted_pictures_have_no_stepped_bands() -> None:
    written = np.zeros((200, 400), np.uint8)
    for line in range(12):
        size = 0.35 + 0.02 * line
        cv2.putText(written, f"GAIN {line}0 % MI 0.8 fps", (9 * line, 16 * line + 12), 0, size, 255, 1)
    tilted = np.zeros((300, 300), np.uint8)
    tilted[20:140, 20:280] = tilted[150:270, 20:280] = np.resize(SMOOTH, (120, 260)) | 32
    assert not has_stepped_band(written)
    for angle in (-0.8, -0.5, -0.3, 0.3, 0.5, 0.8):
        turn = cv2.getRotationMatrix2D((150, 150), angle, 1)
        assert not has_stepped_band(cv2.warpAffine(tilted, turn, (300, 300), flags=cv2.INTER_NEAREST)), angle


def test_a_thin_stroke_beside_a_band_is_no_step() -> None:
    letters = np.zeros((60, 200), np.uint8)
    letters[17:20, 10:] = 255
    letters[30, 100:130] = 255
    letters[31:33, :40] = 255
    letters[31:33, 97] = 255
    assert not has_stepped_band(letters)
    letters[31:33, :100] = 255
    assert has_stepped_band(letters)


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (3, 20), (5, 21), (300, 2)])
def test_small_pictures_have_no_foreign_rows(size: tuple[int, int]) -> None:
    for picture in (np.zeros(size, np.uint8), RNG.integers(0, 256, size).astype(np.uint8)):
        assert not has_stepped_band(picture)
        has_noisy_run(picture)
