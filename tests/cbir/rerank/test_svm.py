import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from cbir.rerank.svm import solve_by_active_sets, solve_by_interior_points, solve_svms


def rbf(left: np.ndarray, right: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * ((left[:, None] - right[None]) ** 2).sum(axis=2))


def interval(kernel: np.ndarray, signs: np.ndarray, upper: np.ndarray, a: np.ndarray) -> tuple[float, float]:
    """The biases at which samples that are all at a bound break no condition."""
    least, most = -np.inf, np.inf
    for i, sign in enumerate(signs):
        on_margin = sign - kernel[i] @ a
        at_zero = abs(a[i]) < upper[i] / 2
        if at_zero == (sign > 0):
            least = max(least, on_margin)
        else:
            most = min(most, on_margin)
    return least, most


def check(samples: np.ndarray, signs: np.ndarray, bounds: np.ndarray, gamma: float) -> None:
    """The T SVMs of samples (T, m, d) decide like scikit-learn's."""
    # LIBSVM keeps its kernel in float32: so does the problem that both are given.
    kernels = np.stack([rbf(x, x, gamma).astype(np.float32).astype(float) for x in samples])
    coefficients, bias = solve_svms(kernels, signs, bounds)
    for x, kernel, upper, a, b in zip(samples, kernels, bounds, coefficients, bias, strict=True):
        svm = SVC(C=1.0, gamma=gamma, tol=1e-10).fit(x, signs, sample_weight=upper)
        unseen = np.vstack([x, x[:3] + 0.7, x.mean(axis=0) - 5.0])
        expected, bias_expected = svm.decision_function(unseen), svm.intercept_[0]
        tolerance = 1e-4 + 1e-7 * np.abs(a).sum()
        share = np.abs(a) / upper
        if np.all((share < 1e-7) | (share > 1 - 1e-7)):
            # LIBSVM takes a sample for free where rounding leaves it a bit below its bound, and then its
            # bias is an end of the interval; by its rule it is the middle. So do we, by less rounding.
            least, most = interval(kernel, signs, upper, np.where(share > 0.5, signs * upper, 0.0))
            if np.all((share < 1e-9) | (share > 1 - 1e-9)):
                assert b == pytest.approx((least + most) / 2, abs=tolerance)
            for bias_found in (b, bias_expected):
                assert least - tolerance <= bias_found <= most + tolerance
            expected = expected - bias_expected + b
        # Points close together leave coefficients free that the samples themselves do not show.
        allowed = np.where(np.arange(len(unseen)) < len(x), tolerance, 1e-4 + 1e-5 * np.abs(a).sum())
        assert np.all(np.abs(rbf(unseen, x, gamma) @ a + b - expected) <= allowed)
        assert np.all(a * signs >= 0.0)
        assert np.all(np.abs(a) <= upper)
        assert a.sum() == pytest.approx(0.0, abs=1e-9 * upper.sum())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    positives=st.integers(1, 15),
    negatives=st.integers(1, 15),
    dimensions=st.integers(1, 12),
    log_C=st.floats(-2, 3),
    log_gamma=st.floats(-2, 0.5),
    distances_apart=st.floats(0, 3),
    rounded=st.booleans(),
    doubled=st.booleans(),
    fuzzy=st.booleans(),
)
@example(1186, 6, 15, 1, 1.6, 0.2, 2.5, True, True, True)  # once without end
@example(3176, 4, 15, 1, 2.9, -0.8, 1.7, True, True, True)
@example(3871, 12, 14, 1, 1.8, -0.1, 2.2, True, True, True)
def test_decides_like_libsvm(
    seed, positives, negatives, dimensions, log_C, log_gamma, distances_apart, rounded, doubled, fuzzy
):
    random = np.random.default_rng(seed)
    total = positives + negatives
    samples = random.standard_normal((2, total, dimensions))
    samples[:, :positives] += distances_apart
    if rounded:  # equal points, of equal and of opposite signs
        samples = samples.round()
    if doubled:
        samples[:, 1:] = samples[:, random.integers(0, total, total - 1)]
    bounds = np.full((2, total), 10.0**log_C)
    if fuzzy:
        bounds[:, :positives] *= random.uniform(0.01, 1.0, (2, positives))
    check(samples, np.repeat([1.0, -1.0], [positives, negatives]), bounds, 10.0**log_gamma / dimensions)


@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_all_samples_alike_decide_nothing(C):
    coefficients, bias = solve_svms(np.ones((3, 8, 8)), np.repeat([1.0, -1.0], 4), np.full((3, 8), C))
    np.testing.assert_allclose(coefficients.sum(axis=1) + bias, 0.0, atol=1e-6)


def test_two_samples_in_closed_form():
    k = np.exp(-1.0)
    coefficients, bias = solve_svms(
        np.array([[[1.0, k], [k, 1.0]]]), np.array([1.0, -1.0]), np.full((1, 2), 100.0)
    )
    np.testing.assert_allclose(coefficients, [[1 / (1 - k), -1 / (1 - k)]], rtol=1e-9)
    np.testing.assert_allclose(bias, 0.0, atol=1e-9)


def test_svms_do_not_depend_on_their_company():
    random = np.random.default_rng(5)
    samples = random.standard_normal((6, 10, 4))
    kernels = np.stack([rbf(x, x, 0.3) for x in samples])
    signs, bounds = np.repeat([1.0, -1.0], 5), random.uniform(0.1, 5.0, (6, 10))
    together = solve_svms(kernels, signs, bounds)
    for t in range(6):
        alone = solve_svms(kernels[t : t + 1], signs, bounds[t : t + 1])
        np.testing.assert_allclose(together[0][t], alone[0][0], atol=1e-7)
        np.testing.assert_allclose(together[1][t], alone[1][0], atol=1e-7)


@pytest.mark.parametrize("C", [0.3, 1.0, 100.0])
@pytest.mark.parametrize("gamma", [0.02, 0.3, 3.0])
def test_both_solvers_agree(C, gamma):
    random = np.random.default_rng(6)
    samples = random.standard_normal((20, 12, 5))
    samples[:, :6] += 0.8
    kernels = np.stack([rbf(x, x, gamma) for x in samples])
    signs, bounds = np.repeat([1.0, -1.0], 6), C * random.uniform(0.1, 1.0, (20, 12))
    coefficients, bias, solved = solve_by_active_sets(kernels, signs, bounds)
    assert solved.all() or C < 100 or gamma < 1
    expected, expected_bias = solve_by_interior_points(kernels, signs, bounds)
    np.testing.assert_allclose(coefficients[solved], expected[solved], atol=1e-6 * C)
    np.testing.assert_allclose(bias[solved], expected_bias[solved], atol=1e-6 * C)


def test_active_sets_leave_equal_samples_to_the_other_solver():
    kernels = np.ones((2, 8, 8))
    assert not solve_by_active_sets(kernels, np.repeat([1.0, -1.0], 4), np.ones((2, 8)))[2].any()
