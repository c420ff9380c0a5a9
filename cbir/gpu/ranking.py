"""A query's ranking list on a device: every distance there, its best places here."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.gallery import CHUNK, Gallery, Rows
from cbir.gallery.ranking import CANCELLATION, RankingList
from cbir.gpu.vectors import DeviceVectors

SLACK = 256  # places fetched beyond those asked for: half precision may have changed their order
MOST_TIED = 100_000  # images as far as the last place that are looked at; beyond, the first indexed
SAMPLE = 65_536  # scores from which the end of a list is guessed

Floats = NDArray[np.float32]


class DeviceList:
    """Squared distances (n,) float32 of a query (d,) to all rows; infinite for those that are not asked for.

    allowed: (n,) bool on the device, None for all rows. count: how many rows it names.
    """

    def __init__(
        self, query: Floats, gallery: Gallery, vectors: DeviceVectors, allowed: Tensor | None, count: int,
        products: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.query, self.gallery, self.count, self.allowed = query, gallery, count, allowed
        norms = vectors.squared_norms
        if products is None:
            products = vectors.products(query[:, None])[:, 0]
        own = float(query @ query)
        squared = torch.add(norms, products, alpha=-2.0).add_(own).clamp_(min=0.0)
        self.farthest = _largest(squared, allowed) ** 0.5
        self.squared = squared if allowed is None else squared.masked_fill_(~allowed, torch.inf)
        largest = own + float(norms.max())
        self.rounding = CANCELLATION * largest
        self.nearest = 0.0  # known with the head
        self._head: RankingList | None = None

    def tells_apart(self) -> bool:
        """Whether the distances differ by more than they are rounded by; False where images are all alike."""
        return self.farthest**2 - float(self.squared.min()) > self.rounding

    def head(self, count: int) -> RankingList:
        """The list cut down to its best `count` places at least: exact distances, similarities of the whole list."""
        if self._head is None or len(self._head) < min(count, self.count):
            rows = at_least(-self.squared, min(count + SLACK, self.count), self.rounding)
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
        """(n,) float32, those of the head exact; -inf for rows that are not asked for."""
        assert self._head is not None, "the head tells how near the nearest is"
        spread = self.farthest - self.nearest
        found = 1.0 - (self.squared.sqrt() - self.nearest) / spread
        found[self.on_device(self._head.rows)] = self.on_device(self._head.similarities)
        return found

    def on_device(self, array: NDArray[np.generic]) -> Tensor:
        """A copy of an array where the list is."""
        return torch.from_numpy(array).to(self.squared.device)


def _largest(squared: Tensor, allowed: Tensor | None) -> float:
    return float((squared if allowed is None else squared.masked_fill(~allowed, 0.0)).max())


def at_least(scores: Tensor, count: int, rounding: float) -> Rows:
    """Rows, ascending, of the `count` largest scores, and of those that are less by rounding alone.

    Of more than MOST_TIED beyond `count` the first are taken.
    """
    last = torch.topk(scores, count, sorted=False).values.min()
    rows = torch.nonzero(scores >= last - rounding)[:, 0]
    if len(rows) > count + MOST_TIED:
        sure = torch.nonzero(scores > last + rounding)[:, 0]
        tied = torch.nonzero((scores - last).abs() <= rounding)[: count + MOST_TIED - len(sure), 0]
        rows = torch.cat([sure, tied]).sort().values
    return rows.cpu().numpy()


def at_ranks(scores: Tensor, pool: int, ranks: NDArray[np.int64]) -> Rows:
    """Rows, in the shape of `ranks`, at those places of the end of the list: 0 is the last of all.

    scores: (n,), -inf where a row is not in the list; pool: above all ranks. Equal scores: the later row is lower,
    as in `cbir.gallery.ranking.worst`.
    """
    listed = scores > -torch.inf
    sample = scores[:: max(1, len(scores) // SAMPLE)]
    sample = sample[sample > -torch.inf].sort().values
    share = pool / max(int(listed.sum()), 1)
    place = min(int(len(sample) * (1.1 * share + 0.01)), len(sample) - 1)
    rows = torch.nonzero(listed & (scores <= sample[place]))[:, 0] if place >= 0 else listed.nonzero()[:, 0]
    if len(rows) < pool:
        rows = torch.nonzero(listed)[:, 0]
    rows = rows.flip(0)
    ordered = rows[torch.sort(scores[rows], stable=True).indices]
    return ordered[torch.from_numpy(ranks).to(scores.device)].cpu().numpy()
