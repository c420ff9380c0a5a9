"""Average precision (AP)."""

import numpy as np
from numpy.typing import NDArray


def average_precision(
    hits: NDArray[np.bool_], relevant: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the AP (q,) of ranked answers: the sum of the precisions at the hits over the relevant images.

    `hits` (q, k) marks relevant answers, best first. `relevant` (q,) counts relevant images, retrieved or not, as
    trec_eval does; by default the hits themselves are counted. Without any, AP is 0.
    """
    rows, columns = np.nonzero(hits)
    counts = np.count_nonzero(hits, axis=1)
    position = np.arange(1, len(rows) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    sums = np.bincount(rows, position / (columns + 1), minlength=len(hits))
    return np.asarray(sums / np.maximum(counts if relevant is None else relevant, 1))
