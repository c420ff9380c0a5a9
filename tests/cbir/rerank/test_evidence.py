"""The evidence of a list for its images: their distances on the scale of neighbours near the query."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn_graph import COPY
from cbir.rerank.query_list import QueryList
from cbir.rerank.svm_ensemble import MEASURED, NeighbourLikeness

SLACK = 1e-3  # more than distances that count as equal differ by


def likeness_of(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    gallery = Gallery((vectors,), np.arange(len(vectors)))
    ranking = rank(query, gallery)
    return NeighbourLikeness(QueryList(query, ranking, gallery))(ranking.rows)


@given(st.integers(0, 60), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60)
def test_as_counted_one_by_one(n: int, seed: int, with_copies: bool) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(n, 4)).astype(np.float32)
    if with_copies and n:
        vectors[n // 2 :] = vectors[: n - n // 2]
    query = random.normal(size=4).astype(np.float32)
    distances = np.linalg.norm(vectors.astype(float) - query, axis=1)
    own = []
    for i in np.argsort(distances, kind="stable")[:MEASURED]:
        others = np.linalg.norm(vectors.astype(float) - vectors[i], axis=1)
        if (others > COPY).any():
            own.append(others[others > COPY].min())
    likeness = likeness_of(vectors, query)
    if not own:
        assert likeness.tolist() == [1.0] * n
        return
    farther = np.array(own) >= distances[:, None] + np.array([-SLACK, SLACK])[:, None, None]
    most, least = (1 + farther.sum(axis=2)) / (1 + len(own))
    assert (least - 1e-9 <= likeness).all()
    assert (likeness <= most + 1e-9).all()


def test_in_a_large_class_many_count_and_in_a_small_one_few() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(size=(400, 16)).astype(np.float32)
    large, small = noise[:300], noise[300:304] + 12
    others = 30 * random.normal(size=(96, 16)).astype(np.float32)
    vectors = np.vstack([large, small, others]).astype(np.float32)
    in_large = likeness_of(vectors, np.full(16, 0.05, np.float32))
    in_small = likeness_of(vectors, np.full(16, 12.05, np.float32))
    assert np.count_nonzero(in_large[:300] > 0.5) > 20
    assert set(np.flatnonzero(in_small > 0.1)) == {300, 301, 302, 303}


def test_without_evidence_eprf_moves_no_image_far() -> None:
    """All images are as far from the query as none is from its neighbour: the plain list stands."""
    random = np.random.default_rng(1)
    pairs = np.repeat(5 * random.normal(size=(60, 16)), 2, axis=0) + 0.05 * random.normal(size=(120, 16))
    vectors = pairs.astype(np.float32)
    gallery, query = Gallery((vectors,), np.arange(120)), np.zeros(16, np.float32)
    ranking = rank(query, gallery)
    plain = np.argsort(ranking.distances, kind="stable")
    parameters = {"K": 80, "N": 60, "C": 0.1, "closeness": 0.6, "lowest": 0.7}
    moved = [
        np.abs(np.argsort(np.argsort(-scores, kind="stable")) - np.argsort(plain)).mean()
        for scores in (
            rerank.get("eprf", evidence=evidence, **parameters)(query, ranking, gallery).scores
            for evidence in (0, 1)
        )
    ]
    assert moved[1] < 0.5 * moved[0]


def test_the_unit_of_the_vectors_does_not_matter() -> None:
    random = np.random.default_rng(2)
    vectors = random.normal(size=(150, 8)).astype(np.float32)
    vectors[:40] *= np.float32(0.2)
    vectors[140:] = vectors[:10]
    query = vectors[3] + np.float32(0.05)
    usual = likeness_of(vectors, query)
    assert len(np.unique(usual)) > 20
    for unit in np.float32([2**-12, 2**12]):
        np.testing.assert_array_equal(likeness_of(unit * vectors, unit * query), usual)
