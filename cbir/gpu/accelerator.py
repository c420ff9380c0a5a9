"""Whole-collection re-ranking on a device: one copy of the vectors there, one query at a time."""

from bisect import bisect_right
from functools import partial
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from cbir.cancellation import locked, run_to_end
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.gpu.torch_backend import TorchBackend
from cbir.gpu.torch_graph import TorchGraph
from cbir.gpu.torch_vectors import TorchVectors
from cbir.rerank.backend import NeedsFullList
from cbir.rerank.reranker import Reranker
from cbir.rerank.top_hits import TopHits

FEW = 256  # excluded rows up to which they are sent in place of a mask


class Accelerator:
    """A collection's vectors and graph on a device. Thread-safe: queries take turns.

    Parameters
    ----------
    device : str
        Device in torch's notation.
    half : bool
        See `TorchVectors`.
    """

    def __init__(self, device: str, half: bool = True) -> None:
        self.vectors = TorchVectors(device, half)
        self._graph: TorchGraph | None = None
        self._lock = Lock()

    def search(
        self, query: Floats, gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int,
        passable: Rows | None = None,
    ) -> TopHits | None:  # fmt: skip
        """Search and re-rank on the device.

        Scores agree with those of the CPU to the tolerance of float32, since the head of a list and what is learned
        from it are computed there; in half precision, negatives and images at the end of the answer may differ.

        Parameters
        ----------
        query : (d,) float32
            Normalised query vector.
        gallery : Gallery
            Vectors of the collection.
        rows : (m,) int64 or None
            Rows to search, ascending; None for all.
        reranker : Reranker
            Method that orders them.
        k : int
            Number of hits.
        passable : (p,) int64 or None
            Rows that relevance may flow through, see `RankingList`.

        Returns
        -------
        TopHits or None
            None where the CPU has to do it: no images, all of them alike, or a re-ranker that needs the full list.
        """
        count = len(gallery) if rows is None else len(rows)
        if not count:
            return None
        if not self.vectors.has(gallery):
            run_to_end(partial(self._follow, gallery), self._lock)
        with locked(self._lock), torch.inference_mode():
            self.vectors.follow(gallery)  # again: another query may have followed an older gallery meanwhile
            allowed = None if rows is None else self._mask(rows, len(gallery))
            load_graph = partial(self._graph_of, gallery)
            backend = TorchBackend(
                query, gallery, self.vectors, allowed, count, min(k, count), load_graph, rows, passable
            )
            try:
                ranked_rows, reranked = reranker.rerank(backend)
            except NeedsFullList:
                return None
            top = top_k(reranked.scores, k)
            hits = ranked_rows[top]
            return TopHits(hits, reranked.scores[top], gallery.exact_distances(query, hits), reranked)

    def _follow(self, gallery: Gallery) -> None:
        with torch.inference_mode():
            self.vectors.follow(gallery)

    def _graph_of(self, gallery: Gallery) -> TorchGraph:
        assert gallery.neighbourhood is not None
        graph, lengths = gallery.neighbourhood.covering(gallery)
        if self._graph is None or self._graph.graph is not graph:
            self._graph = None  # frees the old one first
            self._graph = TorchGraph(graph, lengths, self.vectors.device)
        return self._graph

    def _mask(self, rows: Rows, count: int) -> Tensor:
        """Return a mask (count,) of `rows`; where few are excluded, only those are sent to the device."""
        if count - len(rows) <= FEW:
            mask = torch.ones(count, dtype=torch.bool, device=self.vectors.device)
            mask[torch.from_numpy(excluded_rows(rows, count)).to(self.vectors.device)] = False
            return mask
        included = np.zeros(count, bool)
        included[rows] = True
        return torch.from_numpy(included).to(self.vectors.device)


def excluded_rows(rows: Rows, count: int) -> Rows:
    """Return the rows of 0..count-1 that are not in ascending `rows`, by bisection: O(log n) for each."""
    indices = range(len(rows))
    # rows[i] - i rows are excluded before rows[i]
    gaps = range(count - len(rows))
    return np.array(
        [gap + bisect_right(indices, gap, key=lambda i: int(rows[i]) - i) for gap in gaps], np.int64
    )
