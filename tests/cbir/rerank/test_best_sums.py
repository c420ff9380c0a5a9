import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery.gallery import Gallery
from cbir.rerank.kernel_expansion import REFINED, KernelExpansion, all_sums, find_best_sums, upper_bound


def obvious(expansion: KernelExpansion, x: np.ndarray) -> np.ndarray:
    distances = ((x[:, None].astype(float) - expansion.vectors[None]) ** 2).sum(axis=2)
    return np.exp(-expansion.gamma * distances) @ expansion.coefficients + expansion.bias


def example(random: np.random.Generator, k: int, d: int, gamma: float) -> KernelExpansion:
    vectors = random.standard_normal((k, d)).astype(np.float32)
    return KernelExpansion(vectors, random.standard_normal(k), 0.25, gamma / d)


@pytest.mark.parametrize("k", [0, 1, 20, 900, 1999])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 40.0])  # with 40 the factors of the kernel are computed together
@pytest.mark.parametrize("weight", [0.0, 1e-8, 0.3, 50.0])
def test_best_sums_are_those_of_all_images(k, gamma, weight):
    random = np.random.default_rng(4)
    expansion = example(random, 30, 16, gamma)
    vectors = random.standard_normal((2000, 16)).astype(np.float32)
    vectors[5] = vectors[1500]
    gallery, rows = Gallery((vectors[:700], vectors[700:]), np.arange(2000)), np.arange(1, 2000)
    previous = random.random(1999, dtype=np.float32)
    positions, sums = find_best_sums(expansion, gallery, rows, k, previous, weight)
    every = obvious(expansion, vectors[rows]) + weight * previous.astype(float)
    np.testing.assert_allclose(sums, every[positions], atol=1e-5)
    assert np.all(np.diff(positions) > 0)
    assert np.isin(np.argsort(-every, kind="stable")[:k], positions).all()


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 300),
    vectors=st.integers(0, 40),
    k=st.integers(1, 40),
    log_gamma=st.floats(-3, 2),
    weight=st.sampled_from([0.0, 1e-8, 0.1, 10.0]),
)
def test_short_answers_are_the_head_of_the_whole_order(seed, n, vectors, k, log_gamma, weight):
    random = np.random.default_rng(seed)
    expansion = example(random, vectors, 8, 10**log_gamma)
    images = random.standard_normal((n, 8)).astype(np.float32)
    images[: n // 3] = images[-1]  # ties
    gallery, rows = Gallery((images,), np.arange(n)), np.arange(n)
    previous = random.random(n, dtype=np.float32)
    positions, sums = find_best_sums(expansion, gallery, rows, k, previous, weight)
    whole = all_sums(expansion, gallery, rows, previous, weight)
    np.testing.assert_array_equal(sums, whole[positions])  # n < REFINED: exact at all images
    head = positions[np.argsort(-sums, kind="stable")[:k]]
    assert head.tolist() == np.argsort(-whole, kind="stable")[:k].tolist()


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(0, 40),
    d=st.integers(1, 9),
    log_gamma=st.floats(-3, 2),
)
def test_the_upper_bound_is_nowhere_lower(seed, k, d, log_gamma):
    random = np.random.default_rng(seed)
    expansion = example(random, k, d, 10**log_gamma)
    images = random.standard_normal((50, d)).astype(np.float32) * 2
    bound = upper_bound(expansion)
    assert len(bound.vectors) <= np.count_nonzero(expansion.coefficients > 0.0) + 1
    tolerance = 1e-6 * np.abs(expansion.coefficients).sum() * (1.0 + expansion.gamma)
    assert (obvious(bound, images) >= obvious(expansion, images) - tolerance).all()


def test_the_upper_bound_is_close_where_the_kernel_is_wide():
    random = np.random.default_rng(3)
    vectors = random.standard_normal((60, 32)).astype(np.float32)
    expansion = KernelExpansion(vectors, np.repeat([1.0, -0.1], [10, 50]), 0.0, 0.1 / 32)
    images = random.standard_normal((200, 32)).astype(np.float32)
    excess = obvious(upper_bound(expansion), images) - obvious(expansion, images)
    rising = KernelExpansion(vectors[:10], np.ones(10), 0.0, 0.1 / 32)
    assert excess.max() < 0.01 * (obvious(rising, images) - obvious(expansion, images)).min()


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of kernel values of each product, as they are computed."""
    numbers: list[int] = []
    approximate = KernelExpansion.approximate

    def counted(self: KernelExpansion, gallery: Gallery, rows: np.ndarray) -> np.ndarray:
        numbers.append(len(rows) * len(self.vectors))
        return approximate(self, gallery, rows)

    monkeypatch.setattr(KernelExpansion, "approximate", counted)
    return numbers


@pytest.mark.parametrize("weight", [1e-8, 6.0])
@pytest.mark.parametrize(("gamma", "n"), [(2.0, 5000), (6.0, 5000), (2.0, 40_000)])
def test_few_images_are_computed(gamma, n, weight, products):
    random = np.random.default_rng(5)
    vectors = random.standard_normal((n, 32)).astype(np.float32)
    near, far = vectors[:6] + 0.1, vectors[6:66]
    expansion = KernelExpansion(np.vstack([near, far]), np.repeat([1.0, -0.1], [6, 60]), 0.0, gamma / 32)
    gallery, rows = Gallery((vectors,), np.arange(n)), np.arange(n)
    previous = 1.0 - np.linalg.norm(vectors - vectors[0], axis=1) / 20.0
    positions, _ = find_best_sums(expansion, gallery, rows, 20, previous, weight)
    assert 20 <= len(positions) < 100
    assert sum(products) < 0.3 * n * len(expansion.vectors)


def test_where_most_images_can_be_among_the_best_no_bounds_are_computed(products):
    random = np.random.default_rng(6)
    vectors = random.standard_normal((20_000, 16)).astype(np.float32)
    gallery, rows = Gallery((vectors,), np.arange(20_000)), np.arange(20_000)
    narrow = KernelExpansion(vectors[:40], random.standard_normal(40), 0.0, 100.0)
    positions, _ = find_best_sums(narrow, gallery, rows, 2000, np.ones(20_000, np.float32), 1e-8)
    assert len(positions) == 20_000
    assert sum(products) < 1.1 * 20_000 * 40


@pytest.mark.parametrize("copies", [REFINED, REFINED + 1])
def test_best_sums_are_all_where_too_many_are_equal(copies):
    """Selecting among copies by rounding would answer otherwise for another k."""
    random = np.random.default_rng(8)
    vectors = random.standard_normal((4 * copies, 16)).astype(np.float32)
    vectors[-copies:] = vectors[-1]
    n = len(vectors)
    gallery, rows, previous = Gallery((vectors,), np.arange(n)), np.arange(n), np.ones(n, np.float32)
    expansion = KernelExpansion(vectors[-1:], np.ones(1), 0.0, 1.0)
    for k in (1, 9):
        positions, sums = find_best_sums(expansion, gallery, rows, k, previous, 1.0)
        assert len(positions) == (n if copies > REFINED else copies)
        np.testing.assert_array_equal(sums, all_sums(expansion, gallery, rows, previous, 1.0)[positions])


@pytest.mark.parametrize("vectors", [np.ones((0, 4), np.float32), np.ones((1, 4), np.float32)])
def test_best_sums_of_hardly_any_image(vectors):
    expansion, rows = example(np.random.default_rng(6), 3, 4, 1.0), np.arange(len(vectors))
    positions, sums = find_best_sums(
        expansion, Gallery((vectors,), rows), rows, 5, np.zeros(len(vectors), np.float32), 1.0
    )
    assert positions.tolist() == list(range(len(vectors)))
    np.testing.assert_allclose(sums, obvious(expansion, vectors), atol=1e-6)
