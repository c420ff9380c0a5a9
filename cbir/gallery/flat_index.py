"""Exact search of vectors by FAISS: all are compared, in float32 or first in half precision."""

from dataclasses import dataclass
from typing import Any, Literal

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows, is_among

FEW = 256  # excluded rows up to which more are fetched, in place of a selector
SLACK = 64  # rows fetched besides in half precision, which exchanges some of the last
ADDED = 65_536  # rows converted at a time


@dataclass(frozen=True, eq=False)
class FlatIndex:
    """FAISS index of the first rows of a gallery, without lists or a graph: every search compares all of them.

    index: faiss.IndexFlatL2, or IndexScalarQuantizer with half precision; its ids are rows.
    """

    index: Any

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def precision(self) -> Literal["single", "half"]:
        """Precision of what is compared; the distances of answers are computed in single precision."""
        return "single" if isinstance(self.index, faiss.IndexFlat) else "half"

    def nearest(self, query: Floats, count: int, allowed: Rows | None = None) -> Rows:
        """Return the nearest rows, ascending: at least `count`, or all that are allowed.

        In half precision a few of ten thousand may be the next nearest.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        count : int
            Number of rows.
        allowed : (m,) int64, optional
            Rows to search, ascending and all indexed; all by default.
        """
        total = len(self) if allowed is None else len(allowed)
        if count >= total:
            return np.arange(total) if allowed is None else allowed
        missing, selector = len(self) - total, None
        if missing > FEW:
            assert allowed is not None
            bits = np.zeros(len(self), bool)
            bits[allowed] = True
            selector, missing = faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little")), 0
        fetched = min(count + missing + (SLACK if self.precision == "half" else 0), len(self))
        with one_search_thread():
            options = faiss.SearchParameters(sel=selector) if selector else None
            rows = self.index.search(query[None, :], fetched, params=options)[1][0]
        rows = np.sort(rows[rows >= 0])
        return rows if allowed is None or selector else rows[is_among(rows, allowed)]


class one_search_thread:  # noqa: N801  # used as a statement, as contextlib's are
    """Let FAISS search on one thread within a `with` block: threads of one query wait for each other."""

    def __enter__(self) -> None:
        self._threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # of the calling thread alone

    def __exit__(self, *_: object) -> None:
        faiss.omp_set_num_threads(self._threads)


def build_half_index(vectors: Floats) -> FlatIndex:
    """Return an index of vectors (n, d) in half precision: half of the bytes to read, and of the time of a search."""
    index = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16)
    index.train(vectors[:1])
    for start in range(0, len(vectors), ADDED):
        index.add(np.ascontiguousarray(vectors[start : start + ADDED]))
    return FlatIndex(index)


def fill_squared_distances(query: Floats, vectors: Floats, squared: Floats) -> None:
    """Write the squared distances of a query (d,) to vectors (n, d), C-contiguous, into `squared` (n,)."""
    if len(vectors):
        pointers = (faiss.swig_ptr(array) for array in (squared, query, vectors))
        faiss.fvec_L2sqr_ny(*pointers, len(query), len(vectors))
