"""Margins by which images are more like one that belongs to a cohort than like any that does not."""

import numpy as np

from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats


def likeness_margins(vectors: Floats, relevant: Floats, irrelevant: Floats) -> Doubles:
    """Return half the squared distance to the nearest irrelevant image less that to the nearest relevant one.

    Unlike the classifier's probability this sees one example at a time, so a group that lies apart counts as much
    as a large one.

    Parameters
    ----------
    vectors : (m, d) float32
        Of the images that are compared.
    relevant : (p, d) float32
        Of images judged relevant, p at least 1.
    irrelevant : (n, d) float32
        Of images judged not relevant; without any, only the nearest relevant image counts.

    Returns
    -------
    (m,) float64
    """
    margins = _nearness(vectors, relevant)
    return margins - _nearness(vectors, irrelevant) if len(irrelevant) else margins


def _nearness(vectors: Floats, examples: Floats) -> Doubles:
    """Return the negative half squared distances (m,) to the nearest example."""
    halves = np.einsum("nd,nd->n", examples, examples) / 2
    nearness = -np.einsum("md,md->m", vectors, vectors, dtype=np.float64) / 2
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        nearness[part] += (vectors[part] @ examples.T - halves).max(axis=1)
    return np.asarray(nearness, np.float64)
