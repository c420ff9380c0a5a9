"""Text in pixels: found on plates and in corners; lead letters, noise and edges are none."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.ingest.burned_in_text import find_burned_in_text, find_text_lines, looks_personal


def picture(words: str, ink: int = 255, paper: int = 20, size: int = 256) -> NDArray[np.uint8]:
    """A flat picture with some noise and words near its upper edge."""
    noise = np.random.default_rng(0).integers(-6, 7, (size, size))
    pixels = np.clip(paper + noise, 0, 255).astype(np.uint8)
    cv2.putText(pixels, words, (10, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.5, ink, 1, cv2.LINE_AA)
    return pixels


@pytest.mark.parametrize(("ink", "paper"), [(255, 20), (10, 240), (150, 60)])
def test_a_name_with_a_date_is_found_where_it_is(ink: int, paper: int) -> None:
    text = find_burned_in_text(picture("DOE JANE 12.03.1957", ink, paper))
    assert text is not None
    assert text.looks_personal
    assert text.characters >= 10
    assert 10 <= text.line.top <= 25
    assert 25 <= text.line.bottom <= 40


@pytest.mark.parametrize("words", ["", "L", "R", "AP", "LEFT", "PORTABLE"])
def test_lead_letters_and_words_of_markers_are_no_text(words: str) -> None:
    assert find_burned_in_text(picture(words)) is None


@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (500, 3), (64, 64)])
def test_any_shape_is_taken(shape: tuple[int, int]) -> None:
    assert find_burned_in_text(np.zeros(shape, np.uint8)) is None


def test_noise_and_stripes_are_no_text() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (300, 300)).astype(np.uint8)
    stripes = np.zeros((200, 200), np.uint8)
    stripes[:, ::10] = 255
    stripes[40:60] = 0
    assert find_burned_in_text(noise) is None
    assert find_burned_in_text(stripes) is None


@pytest.mark.parametrize(("number", "seed"), [(1252, 0), (234, 1), (602, 2)])
def test_bones_that_are_read_as_letters_are_no_text(number: int, seed: int) -> None:
    """Sacral foramina are read as "pa?y" or "pay", and vertebrae as "Or 000", with some doubtful characters."""
    assert find_burned_in_text(draw_phantom(number, seed=seed, size=512).pixels) is None


def test_boxes_are_in_pixels_of_the_picture_however_large() -> None:
    small = picture("SMITH JOHN")
    large = np.asarray(cv2.resize(small, None, fx=10, fy=10, interpolation=cv2.INTER_CUBIC), np.uint8)
    few, many = find_text_lines(small)[0], find_text_lines(large)[0]
    assert many.left == pytest.approx(10 * few.left, abs=30)
    assert many.bottom == pytest.approx(10 * few.bottom, abs=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12.03.1957", True), ("ID 4711123", True), ("DOE JANE", True), ("W450 L50", False), ("MedPix", False)],
)
def test_what_looks_personal(text: str, expected: bool) -> None:
    assert looks_personal(text) is expected
