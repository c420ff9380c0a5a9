import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery.gallery import Gallery
from cbir.rerank import kernel_expansion as module
from cbir.rerank.kernel_expansion import REFINED, KernelExpansion, kernel


def obvious(expansion: KernelExpansion, x: np.ndarray) -> np.ndarray:
    distances = ((x[:, None].astype(float) - expansion.vectors[None]) ** 2).sum(axis=2)
    return np.exp(-expansion.gamma * distances) @ expansion.coefficients + expansion.bias


def example(random: np.random.Generator, k: int, d: int, gamma: float) -> KernelExpansion:
    vectors = random.standard_normal((k, d)).astype(np.float32)
    return KernelExpansion(vectors, random.standard_normal(k), 0.25, gamma / d)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(0, 60),
    k=st.integers(0, 12),
    d=st.integers(1, 9),
    log_gamma=st.floats(-3, 2),
    head=st.sampled_from([0, 5, 1000]),
)
def test_values_match_the_sum(seed, n, k, d, log_gamma, head):
    random = np.random.default_rng(seed)
    expansion = example(random, k, d, 10**log_gamma)
    vectors = random.standard_normal((n, d)).astype(np.float32)
    vectors[: min(n, k)] = expansion.vectors[: min(n, k)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REFINED", head)
        result = expansion.values(Gallery((vectors,), np.arange(n)), np.arange(n))
    np.testing.assert_allclose(
        result, obvious(expansion, vectors), rtol=0, atol=2e-5 * (1 + 10**log_gamma / d)
    )


def test_many_chunks_blocks_and_left_out_rows_match_the_sum():
    random = np.random.default_rng(0)
    expansion = example(random, 20, 16, 1.0)
    vectors = random.standard_normal((7000, 16)).astype(np.float32)
    gallery = Gallery((vectors[:4100], vectors[4100:]), np.arange(7000))
    rows = np.delete(np.arange(7000), [0, 4099, 4100, 6999])
    result = expansion.values(gallery, rows)
    np.testing.assert_allclose(result, obvious(expansion, vectors[rows]), atol=1e-5)
    assert np.array_equal(result, expansion.values(gallery, rows))


def test_equal_images_at_the_head_have_equal_values():
    random = np.random.default_rng(1)
    expansion = example(random, 66, 168, 1.0)
    vectors = random.standard_normal((5000, 168)).astype(np.float32)
    positions = [0, 17, 100, 2047, 2048, 4999]
    vectors[positions] = expansion.vectors[expansion.coefficients.argmax()]
    result = expansion.values(Gallery((vectors,), np.arange(5000)), np.arange(5000))
    assert len(set(result[positions].tolist())) == 1
    assert result[0] == result.max()


def test_equal_vectors_merge_and_cancel():
    vectors = np.float32([[1, 2], [3, 4], [1, 2], [5, 6], [3, 4]])
    merged = KernelExpansion(vectors, np.array([1.0, 2.0, 0.5, 0.0, -2.0]), 0.5, 1.0).merged()
    assert merged.vectors.tolist() == [[1, 2]]
    assert merged.coefficients.tolist() == [1.5]
    assert merged.bias == 0.5


@pytest.mark.parametrize("scale", [1e-12, 1e4])
def test_extreme_ranges_stay_finite(scale):
    random = np.random.default_rng(2)
    expansion = example(random, 5, 8, 1.0)
    vectors = (random.standard_normal((100, 8)) * scale).astype(np.float32)
    result = expansion.values(Gallery((vectors,), np.arange(100)), np.arange(100))
    assert np.isfinite(result).all()


def test_kernel_of_equal_vectors_is_one():
    vectors = np.random.default_rng(3).standard_normal((20, 168)).astype(np.float32)
    similar = kernel(vectors, vectors, 1.0, vectors[0])
    np.testing.assert_allclose(similar.diagonal(), 1.0, atol=1e-10)
    np.testing.assert_allclose(similar, similar.T)


def test_the_refined_values_are_those_that_are_largest_with_what_is_added():
    random = np.random.default_rng(9)
    expansion = example(random, 30, 16, 1.0)
    vectors = random.standard_normal((3000, 16)).astype(np.float32)
    gallery, rows = Gallery((vectors,), np.arange(3000)), np.arange(3000)
    added = random.permutation(3000).astype(np.float32)
    head = np.argsort(-added)[: REFINED - 1]
    exact = expansion.exact_values(vectors[head]).astype(np.float32)
    assert np.array_equal(expansion.values(gallery, rows, added)[head], exact)
    assert not np.array_equal(expansion.values(gallery, rows)[head], exact)


@pytest.mark.parametrize("centre", [0.0, 100.0])
def test_rounding_bounds_the_error_of_values_in_float32(centre):
    random = np.random.default_rng(7)
    vectors = (random.standard_normal((3000, 64)) + centre).astype(np.float32)
    gallery, rows = Gallery((vectors,), np.arange(3000)), np.arange(3000)
    expansion = KernelExpansion(vectors[:40], random.standard_normal(40), 3.0, 15 / 128)
    error = np.abs(expansion.approximate(gallery, rows) - obvious(expansion, vectors)).max()
    assert error < expansion.rounding(gallery, rows) < 1e4 * error
