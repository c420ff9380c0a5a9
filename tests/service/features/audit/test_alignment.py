"""Alignment of pictures that were rotated, scaled and moved by known amounts."""

import cv2
import numpy as np
import pytest

from cbir.evaluation.datasets.phantoms import draw_phantom
from service.features.audit.alignment import (
    IDENTITY,
    Alignment,
    align_from,
    align_roughly,
    compare,
    scaled,
)
from service.features.audit.duplicate_pictures import to_square


@pytest.fixture(scope="module")
def phantom():
    return to_square(draw_phantom(3, size=128).pixels, 64)


def moved(picture, degrees, scale):
    turn = cv2.getRotationMatrix2D((31.5, 31.5), degrees, scale)
    return cv2.warpAffine(picture, turn, (64, 64), borderMode=cv2.BORDER_REPLICATE)


@pytest.mark.parametrize(("degrees", "scale"), [(7, 1), (-12, 1), (0, 1.1), (4, 0.95)])
def test_rotation_and_scale_are_recovered(phantom, degrees, scale):
    second = moved(phantom, degrees, scale)
    rough = align_roughly(phantom, second)
    assert rough is not None
    found = align_from(phantom, second, rough.transform)
    assert found.moved
    assert found.plausible
    assert found.degrees == pytest.approx(abs(degrees), abs=0.7)
    assert found.scale == pytest.approx(scale, abs=0.02)
    assert found.quarter > 0.9


def test_a_picture_agrees_with_itself_and_with_other_contrast(phantom):
    for other in (phantom, (phantom // 2 + 40).astype(np.uint8)):
        found = compare(phantom, other, IDENTITY)
        assert found.median > 0.99
        assert found.quarter > 0.98
        assert found.covered == 1
        assert not found.moved


def test_unlike_pictures_are_not_aligned(phantom):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    assert align_roughly(phantom, noise) is None
    assert compare(phantom, noise, IDENTITY).median < 0.3


def test_a_picture_agrees_alike_however_its_place_is_given(phantom):
    second = moved(phantom, 2, 1)
    known, given = (compare(phantom, second, place) for place in (IDENTITY, IDENTITY.copy()))
    assert (known.median, known.quarter, known.weakest) == (given.median, given.quarter, given.weakest)
    assert known.covered == given.covered == 1


def test_a_blank_picture_agrees_with_nothing(phantom):
    blank = np.full((64, 64), 90, np.uint8)
    assert compare(blank, blank, IDENTITY).median == 0
    assert align_roughly(blank, phantom) is None


def test_a_stretched_picture_is_no_copy(phantom):
    stretch = np.array([[1.3, 0, -9.5], [0, 1, 0]], np.float32)
    second = cv2.warpAffine(phantom, stretch, (64, 64), borderMode=cv2.BORDER_REPLICATE)
    found = align_from(phantom, second, stretch)
    assert not found.plausible
    assert found.median == found.quarter == 0


@pytest.mark.parametrize(
    ("degrees", "scale", "covered", "plausible"),
    [
        (19, 1, 1, True),
        (21, 1, 1, False),
        (0, 1.2, 1, True),
        (0, 1.3, 1, False),
        (0, 0.75, 1, False),
        (0, 1, 0.4, False),
    ],
)
def test_a_copy_is_rotated_scaled_and_cut_only_so_far(degrees, scale, covered, plausible):
    turn = cv2.getRotationMatrix2D((0, 0), degrees, scale)
    assert Alignment(turn, 1, 1, 1, covered).plausible == plausible


def test_a_scaled_transform_maps_the_same_places():
    turn = cv2.getRotationMatrix2D((15.5, 15.5), 9, 1.1).astype(np.float32)
    twice = scaled(turn, 2)
    for x, y in ((0.0, 0.0), (3.0, 20.0)):
        small = turn @ [x, y, 1]
        large = twice @ [2 * x + 0.5, 2 * y + 0.5, 1]  # middles of pixels are at integers
        np.testing.assert_allclose(large, 2 * small + 0.5, atol=1e-4)
