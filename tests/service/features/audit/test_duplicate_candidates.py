"""Candidates for duplicates: signatures under flips and inversion, how pairs are placed, and which are found."""

import cv2
import numpy as np
import pytest
from scipy.fft import dctn

from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.gallery.vector_blocks import plain_space
from service.features.audit import duplicate_candidates, picture_signatures
from service.features.audit.duplicate_candidates import find_candidate_pairs, orient_pairs
from service.features.audit.duplicate_pictures import to_square
from service.features.audit.picture_signatures import (
    ORIENTATIONS,
    low_frequencies,
    normalised_detail,
    orientation_signs,
    sign_pictures,
)


@pytest.fixture(scope="module")
def squares():
    return [to_square(draw_phantom(index, size=64).pixels, 64) for index in range(12)]


@pytest.mark.parametrize("turned", ORIENTATIONS)
def test_an_orientation_changes_signs_only(squares, turned):
    changed = low_frequencies(turned.apply(squares[2]))[0]
    expected = low_frequencies(squares[2])[0] * orientation_signs()[ORIENTATIONS.index(turned)]
    assert float(changed @ expected) > 0.95


@pytest.mark.parametrize("turned", ORIENTATIONS)
def test_detail_is_turned_like_its_picture(squares, turned):
    changed = normalised_detail(turned.apply(squares[2])).astype(float).ravel()
    expected = turned.apply_signed(normalised_detail(squares[2])).astype(float).ravel()
    assert np.corrcoef(changed, expected)[0, 1] > 0.99


def test_detail_is_what_is_left_without_contrast(squares):
    darker = (squares[2] * 0.4 + 60).astype(np.uint8)
    detail = [normalised_detail(picture).astype(float).ravel() for picture in (squares[2], darker)]
    assert np.corrcoef(*detail)[0, 1] > 0.95


def test_orientations_undo_themselves(squares):
    for turned in ORIENTATIONS:
        assert np.array_equal(turned.apply(turned.apply(squares[0])), squares[0])


def find(squares, vectors=None):
    vectors = np.eye(len(squares), dtype=np.float32) if vectors is None else vectors
    return find_candidate_pairs(vectors, plain_space(vectors.shape[1]), sign_pictures(squares))


def rotated(picture, degrees, scale=1.0):
    turn = cv2.getRotationMatrix2D((31.5, 31.5), degrees, scale)
    return cv2.warpAffine(picture, turn, (64, 64))


@pytest.mark.parametrize("turned", ORIENTATIONS)
def test_a_turned_copy_is_a_candidate_by_its_picture(squares, turned):
    found = find([*squares, turned.apply(squares[5])])
    rows = [tuple(pair) for pair in found.pairs.tolist()]
    turns = {turn for pair, turn in zip(rows, found.orientation.tolist(), strict=True) if pair == (5, 12)}
    assert ORIENTATIONS.index(turned) in turns


@pytest.mark.parametrize("degrees", [-15, -8, 5, 15])
def test_a_rotated_copy_is_a_candidate_by_its_picture(squares, degrees):
    found = find([*squares, rotated(squares[5], degrees)])
    assert [5, 12] in found.pairs[found.movable].tolist()


@pytest.mark.parametrize(("degrees", "scale"), [(7, 1), (-14, 1), (0, 1.1), (0, 1 / 1.1)])
def test_a_pair_starts_where_its_second_picture_lies(squares, degrees, scale):
    pictures = [squares[5], rotated(squares[5], degrees, scale)]
    placed = orient_pairs(np.array([[0, 1]]), sign_pictures(pictures), (0, 0))
    expected = cv2.getRotationMatrix2D((31.5, 31.5), degrees, scale)
    starts = placed.start[placed.orientation == 0]
    assert np.abs(starts @ [20, 20, 1] - expected @ [20, 20, 1]).max(axis=1).min() < 3


def test_a_pair_starts_where_it_was_shifted_to(squares):
    shifted = cv2.warpAffine(squares[5], np.array([[1, 0, 4], [0, 1, -2]], np.float32), (64, 64))
    placed = orient_pairs(np.array([[0, 1]]), sign_pictures([squares[5], shifted]), (0, 0))
    assert placed.start[placed.orientation == 0][0].tolist() == [[1, 0, 4], [0, 1, -2]]


@pytest.mark.parametrize(("degrees", "unmoved"), [(0, True), (14, False)])
def test_a_pair_is_compared_where_it_is_only_if_it_is_alike_there(squares, degrees, unmoved):
    brighter = (rotated(squares[5], degrees) // 2 + 60).astype(np.uint8)
    placed = orient_pairs(np.array([[0, 1]]), sign_pictures([squares[5], brighter]), (0.5, 0.5))
    assert placed.unmoved[placed.orientation == 0].tolist() == [unmoved]


def test_a_nearly_symmetric_picture_is_compared_with_its_mirror_image_too(squares):
    symmetric = (0.45 * squares[5] + 0.45 * squares[5][:, ::-1] + 0.1 * squares[5]).astype(np.uint8)
    placed = orient_pairs(np.array([[0, 1]]), sign_pictures([symmetric, symmetric]), (0.5, 0.5))
    found = [ORIENTATIONS[number] for number in placed.orientation.tolist()]
    assert [turned.flipped for turned in found] == [False, True]


@pytest.mark.parametrize("movable", [True, False])
def test_a_pair_whose_detail_differs_is_no_candidate(squares, movable):
    noise = list(np.random.default_rng(0).integers(0, 256, (2, 64, 64), np.uint8))
    least = (-1, -1 if movable else 2)  # of the low frequencies: all pass
    for pictures, kept in (([squares[5], squares[5]], True), (noise, False)):
        placed = orient_pairs(np.array([[0, 1]]), sign_pictures(pictures), least)
        assert bool(len(placed.pairs)) == kept
        assert (placed.movable == movable).all()


def test_a_pair_is_there_once_in_each_orientation(squares):
    found = find([*squares, *squares])
    rows = np.column_stack([found.pairs, found.orientation])
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()


def test_pairs_near_by_vector_may_be_moved(squares):
    pictures = [squares[0], squares[0], *squares[1:]]
    vectors = np.random.default_rng(1).normal(size=(13, 40)).astype(np.float32)
    vectors[1] = vectors[0]
    found = find(pictures, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    pair = (found.pairs == [0, 1]).all(axis=1) & (found.orientation == 0)
    assert found.movable[pair].tolist() == [True]


def test_lists_find_the_copies_that_all_comparisons_find(squares, monkeypatch):
    pictures = [*squares, *(ORIENTATIONS[3].apply(square) for square in squares)]
    monkeypatch.setattr(duplicate_candidates, "EXACT", 10)
    found = {tuple(pair) for pair in find(pictures).pairs.tolist()}
    assert {(row, row + 12) for row in range(12)} <= found


def test_pairs_of_several_blocks_are_those_of_one(squares, monkeypatch):
    pictures = [*squares, *(turned.apply(squares[5]) for turned in ORIENTATIONS)]
    expected = find(pictures)
    monkeypatch.setattr(duplicate_candidates, "SEARCHED_TOGETHER", 3)
    monkeypatch.setattr(duplicate_candidates, "PLACED_TOGETHER", 2)
    for found, known in zip(find(pictures), expected, strict=True):
        assert found == pytest.approx(known, abs=1e-5)


def test_frequencies_are_those_of_the_cosine_transform(squares):
    grey = np.asarray(to_square(squares[4], 32), int)
    inside = grey[picture_signatures.CIRCLE > 0]
    ranks = np.array([(inside < value).mean() + (inside == value).mean() / 2 for value in range(256)])[grey]
    mean = np.average(ranks, weights=picture_signatures.CIRCLE)
    lowest = dctn((ranks - mean) * picture_signatures.CIRCLE, norm="ortho")[:9, :9].ravel()[1:]
    assert low_frequencies(squares[4])[0] == pytest.approx(lowest / np.linalg.norm(lowest), abs=1e-4)


def test_a_blank_picture_has_no_signature():
    signatures = sign_pictures([np.full((64, 64), 7, np.uint8)] * 2)
    assert not signatures.frequencies.any()
    assert not signatures.detail.any()
    assert not len(orient_pairs(np.array([[0, 1]]), signatures, (0.1, 0.1)).pairs)
