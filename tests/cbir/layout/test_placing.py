"""Places of images beside their neighbours, against a loop over all images."""

import numpy as np
from scipy import sparse

from cbir.layout.placing import place_among, place_by_neighbours

UNKNOWN = (np.nan, np.nan)


def placed_one_by_one(weights, places):
    """The same, an image and a neighbour at a time."""
    places = places.copy()
    while True:
        known = [row for row in range(len(places)) if not np.isnan(places[row, 0])]
        found = {}
        for row in set(range(len(places))) - set(known):
            shares = {other: weights[row, other] ** 4 for other in known if weights[row, other] > 0}
            if shares:
                found[row] = sum(share * places[o] for o, share in shares.items()) / sum(shares.values())
        if not found:
            return places
        for row, place in found.items():
            places[row] = place


def test_as_one_by_one():
    random = np.random.default_rng(0)
    dense = random.random((40, 40)) * (random.random((40, 40)) < 0.02)
    dense = np.maximum(dense, dense.T).astype(np.float32)
    places = random.random((40, 2)).astype(np.float32)
    places[random.random(40) < 0.7] = np.nan
    expected = placed_one_by_one(dense, places)
    assert np.isnan(expected[:, 0]).any()  # some are joined with none
    assert (~np.isnan(expected[:, 0])).sum() > (~np.isnan(places[:, 0])).sum() + 2
    np.testing.assert_allclose(place_by_neighbours(sparse.csr_matrix(dense), places), expected, rtol=1e-4)


def test_no_place_without_a_placed_image():
    weights = sparse.csr_matrix(np.ones((3, 3), np.float32))
    assert np.isnan(place_by_neighbours(weights, np.full((3, 2), np.nan, np.float32))).all()
    assert place_by_neighbours(sparse.csr_matrix((0, 0), dtype=np.float32), np.empty((0, 2))).shape == (0, 2)


def test_a_query_lies_among_most_of_its_neighbours():
    places = np.array([(0.1, 0.2), (0.1, 0.2), UNKNOWN, (0.9, -0.9)], np.float32)
    np.testing.assert_allclose(place_among(places), (0.1, 0.2))
    assert place_among(np.array([UNKNOWN], np.float32)) is None
