"""Proof of duplicates: small pictures whose grey values or detail changed, neighbours, and proofs turned round."""

from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from cbir.evaluation.datasets.phantoms import draw_phantom
from service.features.audit.alignment import IDENTITY, Alignment, compare
from service.features.audit.duplicate_candidates import PlacedPair
from service.features.audit.duplicate_pictures import SIDE, to_square
from service.features.audit.duplicate_proof import STILL, STILL_SMALL, Proof, prove
from service.features.audit.picture_signatures import ORIENTATIONS


def square(index, side=SIDE):
    """A phantom of this side."""
    return to_square(draw_phantom(index, size=side).pixels, side)


def pictures(*arrays):
    """Pictures of at most 128 x 128 pixels, as `Pictures` has them."""

    def common_size(first, second):
        return min(max(arrays[row].shape) for row in (first, second))

    return SimpleNamespace(
        squares=SimpleNamespace(pixels=[to_square(array, SIDE) for array in arrays]),
        common_size=common_size,
        fine_side=lambda first, second: max(common_size(first, second), SIDE),
        fine=lambda row, side: to_square(arrays[row], side),
    )


def bent(picture, pixels):
    """A picture whose lines are waves of so many pixels."""
    down, across = np.indices(picture.shape).astype(np.float32)
    return cv2.remap(
        picture, across + pixels * np.sin(down / 6), down + pixels * np.sin(across / 6), cv2.INTER_LINEAR
    )


def halved(picture):
    return cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def darkened(picture):
    return np.rint(255 * (picture / 255) ** 3).astype(np.uint8)


def recompressed(picture):
    return cv2.imdecode(
        cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 50])[1], cv2.IMREAD_UNCHANGED
    )


@pytest.mark.parametrize(("index", "change"), [(9, halved), (0, darkened), (2, recompressed)])
def test_a_changed_copy_of_a_small_picture_is_proved(index, change):
    picture = square(index)
    changed = change(picture)
    assert (
        compare(picture, to_square(changed, SIDE), IDENTITY).median < STILL_SMALL
    )  # as it is, it would not be
    proof = prove(pictures(picture, changed), PlacedPair(0, 1, 0, movable=False))
    assert proof is not None
    assert 0.5 <= proof.confidence <= 1


@pytest.mark.parametrize("unmoved", [True, False])
def test_a_rotated_picture_is_proved_only_if_it_may_have_moved(unmoved):
    turn = cv2.getRotationMatrix2D((31.5, 31.5), 6, 1).astype(np.float32)
    both = pictures(square(9), cv2.warpAffine(square(9), turn, (64, 64), borderMode=cv2.BORDER_REPLICATE))
    pair = PlacedPair(0, 1, 0, unmoved=unmoved)
    proof = prove(both, pair)
    assert proof is not None
    assert proof.alignment.degrees == pytest.approx(6, abs=0.7)
    assert prove(both, pair._replace(movable=False)) is None


def test_a_picture_is_compared_where_it_is_only_if_it_may_be_alike_there():
    both = pictures(square(9), square(9))
    assert prove(both, PlacedPair(0, 1, 0, movable=False)) is not None
    assert prove(both, PlacedPair(0, 1, 0, movable=False, unmoved=False)) is None


def test_a_small_picture_whose_shapes_bend_is_not_proved():
    picture = square(9)
    changed = bent(picture, 0.3)
    assert compare(picture, changed, IDENTITY).median > STILL  # enough in larger pictures
    assert prove(pictures(picture, changed), PlacedPair(0, 1, 0, movable=False)) is None


@pytest.mark.parametrize(("side", "much"), [(64, 1.1), (128, 1.2)])
def test_a_rotated_picture_is_proved_only_if_its_shapes_bend_little(side, much):
    turn = cv2.getRotationMatrix2D(((side - 1) / 2, (side - 1) / 2), 6, 1)
    for bend, proved in ((0.3, True), (much, False)):
        changed = cv2.warpAffine(
            bent(square(9, side), bend), turn, (side, side), borderMode=cv2.BORDER_REPLICATE
        )
        proof = prove(pictures(square(9, side), changed), PlacedPair(0, 1, 0, unmoved=False))
        assert (proof is not None) == proved


@pytest.mark.parametrize(("bend", "proved"), [(0.3, True), (1.2, False)])
def test_a_larger_picture_is_proved_only_if_its_shapes_bend_little(bend, proved):
    both = pictures(square(9, 128), bent(square(9, 128), bend))
    assert (prove(both, PlacedPair(0, 1, 0, movable=False)) is not None) == proved


@pytest.mark.parametrize("number", range(len(ORIENTATIONS)))
def test_a_reversed_proof_leads_back(number):
    turned = ORIENTATIONS[number]
    transform = cv2.getRotationMatrix2D((31.5, 31.5), 8, 1.05).astype(np.float32)
    proof = Proof(number, Alignment(transform, 1, 1, 1, 1), 1.0)
    marked = np.zeros((64, 64), np.uint8)
    marked[18:24, 40:46] = 200
    away = turned.apply(
        cv2.warpAffine(marked, transform, (64, 64))
    )  # turned(away) is where the transform puts it
    back = proof.reversed(64)
    assert back.orientation == number
    assert back.reversed(64).alignment.transform == pytest.approx(transform, abs=1e-4)
    found = cv2.warpAffine(away, back.alignment.transform, (64, 64), borderMode=cv2.BORDER_REPLICATE)
    expected = turned.apply(marked)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.9
