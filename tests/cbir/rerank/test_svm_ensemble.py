"""Ensembles of SVMs are trained in blocks of bounded memory."""

import tracemalloc

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.rerank.svm_ensemble import BLOCK, TrainingSets

SVMS, POSITIVES, NEGATIVES = 200, 20, 30
ONE_KERNEL = 8 * (POSITIVES + NEGATIVES) ** 2  # bytes


def test_training_holds_the_kernels_of_a_block() -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((400, 4)).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(400))
    drawn = np.stack([random.permutation(400)[:NEGATIVES] for _ in range(SVMS)])
    sets = TrainingSets.sharing(
        vectors[:POSITIVES] + np.float32(3), vectors[:0], gallery, drawn, 0.2, vectors.mean(axis=0)
    )
    block = BLOCK // (POSITIVES + NEGATIVES)
    tracemalloc.start()
    try:
        together = sets.train(slice(None), 1.0, ())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < SVMS * ONE_KERNEL
    for number in (0, block, SVMS - 1):
        alone = sets.train(slice(number, number + 1), 1.0, ())
        np.testing.assert_allclose(together.coefficients[number], alone.coefficients[0], atol=1e-6)
        np.testing.assert_allclose(
            together.positive_decisions[number], alone.positive_decisions[0], atol=1e-6
        )
