"""Rows where searches of a graph begin: those of a sample that are nearest to the query.

HNSW descends greedily from one row. Where vectors form many groups, it often ends in a wrong one, and no width of the
search leads out of it. A search that begins at several near rows of a sample does not depend on that descent.
"""

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows

SAMPLE = 64  # sampled rows for each square root of all
NEAREST = 64  # sampled rows where a search begins


class GraphEntries:
    """A random sample of the rows of a graph.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of all rows of the graph, at least one.
    """

    def __init__(self, vectors: Floats) -> None:
        self.drawn_from = len(vectors)
        count = min(len(vectors), max(NEAREST, int(SAMPLE * len(vectors) ** 0.5)))
        self.rows: Rows = np.sort(np.random.default_rng(0).choice(len(vectors), count, replace=False))
        self._vectors = vectors[self.rows]

    def has_any(self, rows: Rows) -> bool:
        """Return whether any of the rows is in the sample."""
        places = np.searchsorted(self.rows, rows).clip(max=len(self.rows) - 1)
        return bool((self.rows[places] == rows).any())

    def nearest(self, queries: Floats) -> tuple[Floats, Rows]:
        """Return squared distances and rows (q, NEAREST) of the sample; fewer columns in tiny graphs."""
        squared, nearest_rows = faiss.knn(queries, self._vectors, min(NEAREST, len(self.rows)))
        return squared, self.rows[nearest_rows]
