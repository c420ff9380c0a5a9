"""The judge of duplicates by keypoints: the same picture, moved or with other contrast, and different ones."""

import cv2
import numpy as np
import pytest

from tests.benches import loaded

keypoints = loaded("keypoints")


def picture(seed, side=200):
    """Blobs at random places."""
    random = np.random.default_rng(seed)
    noise = sum(
        cv2.GaussianBlur(random.normal(size=(side, side)).astype(np.float32), (0, 0), size) * size
        for size in (2, 4, 8)
    )
    return cv2.normalize(noise, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def moved(pixels):
    turn = cv2.getRotationMatrix2D((100, 100), 5, 1.1) + np.array([[0, 0, 6], [0, 0, -4]])
    return cv2.warpAffine(pixels, turn, pixels.shape[::-1], borderMode=cv2.BORDER_REFLECT)


@pytest.fixture
def agreement(tmp_path):
    def compare(first, second):
        for name, pixels in (("a.png", first), ("b.png", second)):
            cv2.imwrite(str(tmp_path / name), np.ascontiguousarray(pixels))
        return keypoints.compare_keypoints(str(tmp_path / "a.png"), str(tmp_path / "b.png"))

    return compare


@pytest.mark.parametrize(
    "change", [moved, np.flipud, lambda pixels: pixels // 2 + 50], ids=["moved", "flipped", "darker"]
)
def test_a_changed_picture_is_the_same(agreement, change):
    assert agreement(picture(0), change(picture(0))).same


def test_different_pictures_are_not_the_same(agreement):
    found = agreement(picture(0), picture(1))
    assert not found.same
    assert found.share < 0.1


def test_small_and_blank_pictures_are_never_the_same(agreement):
    assert agreement(picture(0, 64), picture(0, 64)) == keypoints.NONE
    assert agreement(np.zeros((200, 200), np.uint8), np.zeros((200, 200), np.uint8)) == keypoints.NONE
