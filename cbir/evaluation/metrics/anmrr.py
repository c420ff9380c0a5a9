"""ANMRR, average normalised modified retrieval rank of MPEG-7: lower is better."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.run_matrix import JudgedBlock

PENALTY = 1.25  # rank, in K, of a relevant image that is not among the first K


def nmrr_depth(relevant: NDArray[np.int64], most_relevant: int | None = None) -> NDArray[np.int64]:
    """Return the depth K (q,): min(4 NG, 2 GTM) for NG relevant images of a query, GTM the largest NG of all queries.

    `relevant` is NG (q,); `most_relevant` is GTM, by default the largest of `relevant`.
    """
    most = int(relevant.max()) if most_relevant is None else most_relevant
    return np.minimum(4 * relevant, 2 * most)


def nmrr(judged: JudgedBlock) -> NDArray[np.float64]:
    """Return NMRR (q,), 0 if all relevant images come first, 1 if none is among the first K.

    (AVR - 0.5 - NG/2) / (1.25 K - 0.5 - NG/2), AVR the mean rank of the NG relevant images, a rank beyond K
    counting as 1.25 K (Manjunath et al. 2001, Color and Texture Descriptors, section III; ISO/IEC 15938-8). For a
    run shallower than K it is an upper bound.
    """
    K, NG = nmrr_depth(judged.relevant, judged.most_relevant), judged.relevant
    ranks = np.arange(1, judged.hits.shape[1] + 1)
    counted = judged.hits & (ranks <= K[:, None])
    missed = NG - counted.sum(axis=1)
    average_rank = ((counted * ranks).sum(axis=1) + missed * PENALTY * K) / NG
    least = 0.5 + NG / 2
    return np.asarray((average_rank - least) / (PENALTY * K - least))
