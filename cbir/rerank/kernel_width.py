"""Width of the kernel of SVMs, by default from the distances between the query and the images."""

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats, Rows, spread_rows
from cbir.rerank.parameters import AUTO

SAMPLE = 500  # images whose distances to the query are taken
LEAST, LARGEST = 1e-30, 1e30  # within float32


def kernel_gamma(gamma: float | str, query: Floats, gallery: Gallery, rows: Rows, sharpness: float) -> float:
    """Return g of the kernel exp(-g |x - v|^2).

    Parameters
    ----------
    gamma : float or "auto"
        g times the number of dimensions, or "auto".
    query : (d,) float32
        Query vector.
    gallery : Gallery
        Vectors of the collection.
    rows : (m,) int64
        Rows to rank, or a sample of them.
    sharpness : float
        For "auto": g times the median squared distance between the query and an image.
    """
    if gamma != AUTO:
        return float(gamma) / gallery.dimensions
    distances = gallery.distances(query, rows[spread_rows(len(rows), SAMPLE)]).astype(np.float64)
    median = float(np.median(distances)) if len(distances) else 0.0
    typical = median or float(distances.max(initial=0.0)) or 1.0  # a median of 0: most are alike
    return float(np.clip(sharpness / typical**2, LEAST, LARGEST))
