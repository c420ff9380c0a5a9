"""Ranking list of a query on a device: all distances there, the head of the list on the CPU."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import CANCELLATION, RankingList
from cbir.gallery.vector_blocks import CHUNK, Floats, Rows
from cbir.gpu.torch_vectors import TorchVectors

SLACK = 256  # extra candidates: half precision may have changed their order
MOST_TIED = 100_000  # images tied with the last candidate that are considered, the first indexed ones
SAMPLE = 65_536  # scores from which the end of a list is estimated


class TorchList:
    """Squared distances (n,) float32 of a query to all rows, infinite for excluded ones.

    Parameters
    ----------
    query : (d,) float32
        Query vector.
    gallery : Gallery
        Vectors of the collection.
    vectors : TorchVectors
        Their copy on the device.
    allowed : (n,) bool or None
        Rows of the list, on the device; None for all.
    count : int
        Number of rows of the list.
    products : (n,) float32 or None
        Products of the vectors with the query, where they are computed already.
    """

    def __init__(
        self, query: Floats, gallery: Gallery, vectors: TorchVectors, allowed: Tensor | None, count: int,
        products: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.query, self.gallery, self.count, self.allowed = query, gallery, count, allowed
        norms = vectors.squared_norms
        if products is None:
            products = vectors.products(query[:, None])[:, 0]
        query_norm = float(query @ query)
        squared = torch.add(norms, products, alpha=-2.0).add_(query_norm).clamp_(min=0.0)
        listed = squared if allowed is None else squared.masked_fill(~allowed, 0.0)
        self.farthest = float(listed.max()) ** 0.5
        self.squared = squared if allowed is None else squared.masked_fill_(~allowed, torch.inf)
        largest = query_norm + float(norms.max())
        self.rounding = CANCELLATION * largest
        self.nearest = 0.0  # set with the head
        self._head: RankingList | None = None

    def is_distinct(self) -> bool:
        """Return whether distances differ by more than rounding; False where all images are alike."""
        return bool(self.farthest**2 - float(self.squared.min()) > self.rounding)

    def head(self, count: int) -> RankingList:
        """Return at least the best `count` rows, with exact distances and the similarities of the full list."""
        if self._head is None or len(self._head) < min(count, self.count):
            rows = rows_with_largest(-self.squared, min(count + SLACK, self.count), self.rounding)
            distances = np.empty(len(rows), np.float32)
            for start in range(0, len(rows), CHUNK):
                piece = rows[start : start + CHUNK]
                distances[start : start + len(piece)] = self.gallery.exact_distances(self.query, piece)
            self.nearest = float(distances.min())
            self.farthest = max(self.farthest, float(distances.max()))
            spread = np.float32(self.farthest) - np.float32(self.nearest)
            self._head = RankingList(rows, distances, 1.0 - (distances - np.float32(self.nearest)) / spread)
        return self._head

    def similarities(self) -> Tensor:
        """Return the similarities (n,) float32 of all rows, exact in the head; -inf for excluded rows."""
        assert self._head is not None, "similarities are scaled by the distances of the head"
        spread = self.farthest - self.nearest
        similarities: Tensor = 1.0 - (self.squared.sqrt() - self.nearest) / spread
        similarities[self.on_device(self._head.rows)] = self.on_device(self._head.similarities)
        return similarities

    def on_device(self, array: NDArray[np.generic]) -> Tensor:
        """Copy an array to the device of the list."""
        return torch.from_numpy(array).to(self.squared.device)


def rows_with_largest(scores: Tensor, count: int, rounding: float) -> Rows:
    """Return the rows of the largest scores, ties included.

    Parameters
    ----------
    scores : (n,) float32
        Scores of all rows.
    count : int
        Number of rows, at most n.
    rounding : float
        Scores that are smaller than the last by no more than this tie with it; of more than MOST_TIED the first ones
        are returned.

    Returns
    -------
    (m,) int64
        Ascending, m at least `count`.
    """
    last = torch.topk(scores, count, sorted=False).values.min()
    rows = torch.nonzero(scores >= last - rounding)[:, 0]
    if len(rows) > count + MOST_TIED:
        sure = torch.nonzero(scores > last + rounding)[:, 0]
        tied = torch.nonzero((scores - last).abs() <= rounding)[: count + MOST_TIED - len(sure), 0]
        rows = torch.cat([sure, tied]).sort().values
    return rows.cpu().numpy()


def rows_at_ranks(scores: Tensor, pool: int, ranks: NDArray[np.int64]) -> Rows:
    """Return the rows at ranks counted from the end of the list.

    Parameters
    ----------
    scores : (n,) float32
        Scores of all rows, -inf for excluded ones. Of equal scores the later row is lower, as in
        `cbir.gallery.ranking.bottom_k`.
    pool : int
        A number above all ranks.
    ranks : (...) int64
        Ranks; 0 is the last row of the list.

    Returns
    -------
    (...) int64
        Rows, in the shape of `ranks`.
    """
    listed = scores > -torch.inf
    sample = scores[:: max(1, len(scores) // SAMPLE)]
    sample = sample[sample > -torch.inf].sort().values
    share = pool / max(int(listed.sum()), 1)
    index = min(int(len(sample) * (1.1 * share + 0.01)), len(sample) - 1)
    rows = torch.nonzero(listed & (scores <= sample[index]))[:, 0] if index >= 0 else listed.nonzero()[:, 0]
    if len(rows) < pool:
        rows = torch.nonzero(listed)[:, 0]
    rows = rows.flip(0)
    ordered = rows[torch.sort(scores[rows], stable=True).indices]
    return ordered[torch.from_numpy(ranks).to(scores.device)].cpu().numpy()
