"""EPRF on ten images of one dimension, worked by hand after the equations of Huang et al. 2012.

The query is 0, the images are 1, 2, ..., 9 and 11; K = 4, N = 5, lambda = 1, P = 2, one SVM of each kind, alpha = .4,
C = 1 and the kernel exp(-(x - v)^2 / 2).

1. Similarities: s = 1 - (d - 1) / 10, from 1.0 down to 0.2, and 0 for 11.
2. The distances of the query to the five nearest are 1 2 3 4 5; those of image 1 are 0 1 2 3 4, of image 2 1 0 1 2 3,
   of image 3 2 1 0 1 2 and of image 4 3 2 1 0 1. Equation 2: rho = 1, 6 / sqrt(10 * 5.2), 0 and -6 / sqrt(52).
3. Equation 3 adds them: 2.0, 1.7321, 0.8 and -0.1321. Image 4 is now the last, 11 the last but one.
4. Positives are 1 and 2; the lowest fifth are 4 and 11, both negatives of every SVM. Kernels: K(1, 2) = exp(-1/2) =
   0.606531, K(1, 4) = exp(-9/2) = 0.011109, K(2, 4) = exp(-2) = 0.135335; those with 11 are below 1e-10.
5. First SVM: all four are on the margin, so y f = 1 for each. With K and sum y a = 0 these are five linear equations,
   solved by a = 0.67851, 0.95861, 0.88719, 0.74992 and b = -0.25008, within 0 and C.
6. Equations 4 to 6: both positives have f = 1, P = 1 / (1 + exp(-1)) = 0.73106, R = 0.4 P + 0.6 rho = 0.89242 and
   0.79165.
7. Last SVM: the bounds of the positives are now R. The a of image 2 would be above its own and stays at 0.79165; the
   other three are on the margin: a = 0.79430, 0.85096, 0.73499 and b = -0.26501.
8. Equation 7: f(x) = 0.79430 K(1, x) + 0.79165 K(2, x) - 0.85096 K(4, x) - 0.73499 K(11, x) - 0.26501.
"""

import numpy as np

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.eprf import Eprf
from cbir.rerank.svm_ensemble import TrainingSets

QUERY = np.zeros(1, np.float32)
IMAGES = np.float32([[1], [2], [3], [4], [5], [6], [7], [8], [9], [11]])
GALLERY = Gallery((IMAGES,), np.arange(10))
POSITIVES, NEGATIVES = np.array([0, 1]), np.array([[3, 9]])

UPDATED = [2.0, 1.7320503, 0.8, -0.1320503, 0.6, 0.5, 0.4, 0.3, 0.2, 0.0]
MARGIN = [0.67851, 0.95861, 0.88719, 0.74992]
RELEVANCE = [0.89242, 0.79165]
LAST = [0.79430, 0.79165, 0.85096, 0.73499]
SUMS = [1.0, 0.89325, -0.19348, -1.0, -0.77208, -0.37990, -0.27470, -0.27346, -0.36448, -1.0]
PROBABILITIES = [0.73106, 0.70956, 0.45178, 0.26894, 0.31603, 0.40615, 0.43175, 0.43206, 0.40988, 0.26894]


def test_the_list_and_its_update() -> None:
    ranking = rank(QUERY, GALLERY)
    expected = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.0]
    np.testing.assert_allclose(ranking.similarities, expected, atol=1e-6)
    updated = rerank.get("pearson", K=4, N=5, lam=1.0)(QUERY, ranking, GALLERY).scores
    np.testing.assert_allclose(updated, UPDATED, atol=1e-6)


def test_the_two_ensembles() -> None:
    sets = TrainingSets.around_query(QUERY, GALLERY, POSITIVES, NEGATIVES, gamma=0.5)
    first = sets.train(slice(None), 1.0, [1.0, 1.0])
    np.testing.assert_allclose(first.coefficients[0] * [1, 1, -1, -1], MARGIN, atol=1e-5)
    np.testing.assert_allclose(first.bias, -0.25008, atol=1e-5)
    np.testing.assert_allclose(first.positive_decisions, [[1.0, 1.0]], atol=1e-9)
    rho = np.array([1.0, 6 / np.sqrt(52)])
    np.testing.assert_allclose(Eprf(alpha=0.4).relevance(first.positive_decisions, rho), RELEVANCE, atol=1e-5)
    last = sets.train(slice(None), 1.0, RELEVANCE)
    np.testing.assert_allclose(last.coefficients[0] * [1, 1, -1, -1], LAST, atol=1e-5)
    np.testing.assert_allclose(last.bias, -0.26501, atol=1e-5)


def test_the_answer() -> None:
    method = rerank.get("eprf", K=4, N=5, lam=1.0, P=2, T1=1, T2=1, alpha=0.4, lowest=0.2, C=1.0, gamma=0.5)
    answer = method(QUERY, rank(QUERY, GALLERY), GALLERY)
    np.testing.assert_allclose(answer.scores, SUMS, atol=2e-5)
    np.testing.assert_allclose(answer.reported(answer.scores), PROBABILITIES, atol=1e-5)
    order = [float(IMAGES[row, 0]) for row in np.argsort(-answer.scores)]
    assert order == [
        1,
        2,
        3,
        8,
        7,
        9,
        6,
        5,
        11,
        4,
    ]  # 4 and 11 are both at the margin: the updated list decides
