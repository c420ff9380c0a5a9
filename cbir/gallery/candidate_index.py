"""Inverted file of bytes that finds the nearest images of a large collection without comparing all."""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows, is_among, spread_rows
from cbir.system.cancellation import checkpoint

TRAINED_ON = 64  # images per list to train on, at most
ITERATIONS = 6  # of k-means
FEW = 256  # excluded rows up to which more are fetched in place of a selector
SLACK = 0.25  # share of further rows to fetch: bytes change the order of what is nearly as far


@dataclass(frozen=True, eq=False)
class CandidateIndex:
    """Inverted file (Jegou et al. 2011, section V) with one byte a value, over the first rows of a gallery.

    index: faiss.IndexIVFScalarQuantizer; its ids are rows.
    """

    index: Any

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def nearest(self, query: Floats, count: int, probes: int, allowed: Rows | None = None) -> Rows:
        """Return `count` rows of which nearly all are among the nearest.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        count : int
            Number of rows to find; fewer where fewer are allowed.
        probes : int
            Lists to read of those where all rows are allowed; the fewer are, the more lists hold as many of them.
        allowed : (m,) int64 or None
            Rows to search, ascending and all indexed; None for all.

        Returns
        -------
        (c,) int64
            Ascending, c at least `count` where so many are allowed.
        """
        total = len(self) if allowed is None else len(allowed)
        count = min(count, total)
        if not count:
            return np.empty(0, np.int64)
        missing, selector = len(self) - total, None
        if missing > FEW:
            assert allowed is not None
            bits = np.zeros(int(allowed[-1]) + 1, bool)  # rows beyond it count as not allowed
            bits[allowed] = True
            selector, missing = faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little")), 0
        probes = int(np.ceil(probes * len(self) / total))
        fetched = min(count + int(SLACK * count) + missing, len(self))
        while True:
            checkpoint()
            options = faiss.SearchParametersIVF(nprobe=min(probes, self.index.nlist), sel=selector)
            rows = self.index.search(query[None, :], fetched, params=options)[1][0]
            rows = np.sort(rows[rows >= 0])
            rows = rows if allowed is None or selector is not None else rows[is_among(rows, allowed)]
            if len(rows) >= count or probes >= self.index.nlist:
                return np.asarray(rows, np.int64)
            probes *= 4


def sample_rows(count: int) -> Rows:
    """Return the rows, evenly spread over `count`, that an index of as many is trained on."""
    return spread_rows(count, TRAINED_ON * int(np.sqrt(count)))


def train_candidate_index(sample: Floats, count: int) -> CandidateIndex:
    """Return an empty index for `count` vectors, at least one; the number of its lists is the root of theirs.

    sample: (s, d) float32, vectors of `sample_rows`.
    """
    lists, dimensions = int(np.sqrt(count)), sample.shape[1]
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimensions), dimensions, lists, faiss.ScalarQuantizer.QT_8bit
    )
    index.by_residual = False
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = (
        ITERATIONS,
        TRAINED_ON,
        1,
    )
    index.train(sample)
    return CandidateIndex(index)
