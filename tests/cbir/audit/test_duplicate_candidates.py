"""Candidates for duplicates: low frequencies under flips and inversion, and the pairs that are found."""

import numpy as np
import pytest

from cbir.audit.duplicate_candidates import ORIENTATIONS, _signs, find_candidate_pairs, low_frequencies
from cbir.audit.duplicate_pictures import to_square
from cbir.datasets.phantoms import draw_phantom
from cbir.gallery.whitening import plain_space


@pytest.fixture(scope="module")
def squares():
    return [to_square(draw_phantom(index, size=64).pixels, 64) for index in range(12)]


@pytest.mark.parametrize("turned", ORIENTATIONS)
def test_an_orientation_changes_signs_only(squares, turned):
    changed = low_frequencies(turned.apply(squares[2]))
    expected = low_frequencies(squares[2]) * _signs()[ORIENTATIONS.index(turned)]
    assert float(changed @ expected) > 0.95


def test_orientations_undo_themselves(squares):
    for turned in ORIENTATIONS:
        assert np.array_equal(turned.apply(turned.apply(squares[0])), squares[0])


def find(squares, vectors=None):
    vectors = np.eye(len(squares), dtype=np.float32) if vectors is None else vectors
    frequencies = np.stack([low_frequencies(square) for square in squares])
    return find_candidate_pairs(vectors, plain_space(vectors.shape[1]), frequencies)


@pytest.mark.parametrize("turned", ORIENTATIONS)
def test_a_turned_copy_is_a_candidate_by_its_picture(squares, turned):
    found = find([*squares, turned.apply(squares[5])])
    rows = [tuple(pair) for pair in found.pairs.tolist()]
    turns = {turn for pair, turn in zip(rows, found.orientation.tolist(), strict=True) if pair == (5, 12)}
    assert ORIENTATIONS.index(turned) in turns


def test_a_pair_is_there_once_in_each_orientation(squares):
    found = find([*squares, *squares])
    rows = np.column_stack([found.pairs, found.orientation])
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()


def test_pairs_near_by_vector_are_marked(squares):
    frequencies = [squares[0], squares[0], *squares[1:]]
    vectors = np.random.default_rng(1).normal(size=(13, 40)).astype(np.float32)
    vectors[1] = vectors[0]
    found = find(frequencies, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    both = (found.pairs == [0, 1]).all(axis=1) & (found.orientation == 0)
    assert found.by_vector[both].tolist() == [True]


def test_a_blank_picture_has_no_frequencies():
    assert not low_frequencies(np.full((64, 64), 7, np.uint8)).any()
