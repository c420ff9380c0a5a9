"""Places of images beside their neighbours, against a loop over all images."""

import numpy as np
from scipy import sparse

from service.features.map.collection_map import place_among, place_by_neighbours

UNKNOWN = (np.nan, np.nan)


def placed_one_by_one(weights, positions):
    """The same, an image and a neighbour at a time."""
    positions = positions.copy()
    while True:
        known = [row for row in range(len(positions)) if not np.isnan(positions[row, 0])]
        found = {}
        for row in set(range(len(positions))) - set(known):
            shares = {other: weights[row, other] ** 4 for other in known if weights[row, other] > 0}
            if shares:
                found[row] = sum(share * positions[o] for o, share in shares.items()) / sum(shares.values())
        if not found:
            return positions
        for row, place in found.items():
            positions[row] = place


def test_as_one_by_one():
    random = np.random.default_rng(0)
    dense = random.random((40, 40)) * (random.random((40, 40)) < 0.02)
    dense = np.maximum(dense, dense.T).astype(np.float32)
    positions = random.random((40, 2)).astype(np.float32)
    positions[random.random(40) < 0.7] = np.nan
    expected = placed_one_by_one(dense, positions)
    assert np.isnan(expected[:, 0]).any()  # some are joined with none
    assert (~np.isnan(expected[:, 0])).sum() > (~np.isnan(positions[:, 0])).sum() + 2
    np.testing.assert_allclose(place_by_neighbours(sparse.csr_matrix(dense), positions), expected, rtol=1e-4)


def test_no_place_without_a_placed_image():
    weights = sparse.csr_matrix(np.ones((3, 3), np.float32))
    assert np.isnan(place_by_neighbours(weights, np.full((3, 2), np.nan, np.float32))).all()
    assert place_by_neighbours(sparse.csr_matrix((0, 0), dtype=np.float32), np.empty((0, 2))).shape == (0, 2)


def test_a_query_lies_among_most_of_its_neighbours():
    positions = np.array([(0.1, 0.2), (0.1, 0.2), UNKNOWN, (0.9, -0.9)], np.float32)
    np.testing.assert_allclose(place_among(positions), (0.1, 0.2))
    assert place_among(np.array([UNKNOWN], np.float32)) is None
