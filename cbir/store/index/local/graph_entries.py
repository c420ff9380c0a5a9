"""Rows where searches of a graph begin: those of a sample that are nearest to the query.

HNSW descends greedily from one row. Where vectors form many groups, it often ends in a wrong one, and no width of the
search leads out of it. A search that begins at several near rows of a sample does not depend on that descent.
"""

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows

SAMPLE = 64  # sampled rows for each square root of all
NEAREST = 64  # sampled rows where a search begins
PROBES = 8  # inverted lists of the sample that are read
TRAINED = 64  # sampled rows for each list, of which the lists are made


class GraphEntries:
    """A random sample of the rows of a graph, in inverted lists.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of all rows of the graph, at least one.
    """

    def __init__(self, vectors: Floats) -> None:
        self.drawn_from, dimensions = vectors.shape
        count = min(len(vectors), max(NEAREST, int(SAMPLE * len(vectors) ** 0.5)))
        rows = np.sort(np.random.default_rng(0).choice(len(vectors), count, replace=False))
        lists = int(count**0.5)
        self._lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimensions), dimensions, lists)
        self._lists.cp.min_points_per_centroid, self._lists.cp.max_points_per_centroid = 1, TRAINED
        self._lists.nprobe = min(PROBES, lists)
        sample = vectors[rows]
        self._lists.train(sample)
        self._lists.add_with_ids(sample, rows)

    def __len__(self) -> int:
        return int(self._lists.ntotal)

    def remove(self, rows: Rows) -> None:
        """Remove those of the rows that are in the sample."""
        self._lists.remove_ids(rows)

    def nearest(self, queries: Floats) -> tuple[Floats, Rows]:
        """Return squared distances and rows (q, NEAREST) of the sample, nearest first; -1 where it finds no more."""
        squared, nearest_rows = self._lists.search(queries, NEAREST)
        return squared, nearest_rows
