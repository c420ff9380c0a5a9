"""The nearest images by a FAISS index that can neither filter nor remove: what is not asked for is passed over.

Classic GPU indexes ignore an IDSelector and have no remove_ids. So more places are fetched than are wanted, rows that
were deleted or do not pass a filter are dropped, and where too few remain all rows that were asked for are compared.
"""

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, Rows
from cbir.gallery.ranking import CANCELLATION, RankingList, rank, similarities
from cbir.gpu import faiss_index
from cbir.gpu.faiss_index import LEARNT_FROM, LISTS, Kind
from cbir.gpu.found import DoesNotFit

MOST_FETCHED = 2048  # places: what a GPU index gives at most
ADDED = 65_536  # rows added at a time
SAMPLE = 4096  # rows, evenly spread, whose farthest stands for the farthest of all
SLACK = 32  # places fetched beyond those wanted: equal distances may stand in another order

Floats = NDArray[np.float32]


class NearestIndex:
    """A flat index (exact) or an inverted file over all rows of a gallery, deleted ones too.

    kind: "flat" or "ivf". device: "cpu" or "cuda". Thread-safe: searches take turns, as a GPU index needs.
    """

    def __init__(self, kind: Kind, device: str) -> None:
        self.kind, self.device = kind, device
        self._lock = Lock()
        self._blocks: tuple[Floats, ...] = ()  # what the index holds, in the gallery's own blocks
        self._index: Any = None
        self._sample_rows: Rows = np.empty(0, np.int64)
        self._sample: Floats = np.empty((0, 0), np.float32)
        self._largest_norm = 0.0

    def head(self, query: Floats, gallery: Gallery, rows: Rows | None, count: int) -> RankingList:
        """The nearest `count` of the named rows (ascending; None for all) at least, in ascending rows.

        Distances are exact. Similarities are scaled by the farthest of a fixed sample, as if it were the farthest of
        all. From a flat index the rows are those of `rank`; of an inverted file some may be missing.
        """
        wanted = len(gallery) if rows is None else len(rows)
        count = min(count, wanted)
        share = wanted / max(len(gallery), 1)
        if count and (count + SLACK) / share <= MOST_FETCHED:
            with self._lock:
                self._follow(gallery)
                found = self._fetched(query, gallery, rows, count)
                if found is not None:
                    return self._listed(query, gallery, rows, found)
        return rank(query, gallery, rows)

    def _fetched(
        self, query: Floats, gallery: Gallery, rows: Rows | None, count: int
    ) -> tuple[Rows, Floats] | None:
        """Rows that pass, and their exact distances; None where so few were fetched that some may be missing."""
        fetch, total = count + SLACK, int(self._index.ntotal)
        while True:
            fetch = min(fetch, MOST_FETCHED, total)
            squared, found = self._index.search(query[None, :], fetch)
            found, squared = found[0][found[0] >= 0], squared[0][found[0] >= 0]
            passing = np.sort(found[_among(found, rows) if rows is not None else found < len(gallery)])
            if len(passing) >= count:
                distances = gallery.exact_distances(query, passing)
                # What was not fetched is as far as the last that was, but for what a distance is rounded by.
                rounding = CANCELLATION * (float(query @ query) + self._largest_norm)
                beyond = float(squared.max()) - rounding if len(found) == fetch < total else np.inf
                if self.kind == "ivf" or np.sort(distances)[count - 1] ** 2 < beyond:
                    return passing, distances
            if fetch in (MOST_FETCHED, total) or len(found) < fetch:
                return None
            fetch *= 4

    def _listed(
        self, query: Floats, gallery: Gallery, rows: Rows | None, found: tuple[Rows, Floats]
    ) -> RankingList:
        kept, distances = found
        there = _among(self._sample_rows, rows) if rows is not None else self._sample_rows < len(gallery)
        far = float(np.square(self._sample[there] - query).sum(axis=1).max(initial=0.0)) ** 0.5
        scaled = similarities(np.append(distances, np.float32(max(far, float(distances.max())))))
        return RankingList(kept, distances, scaled[:-1])

    def _follow(self, gallery: Gallery) -> None:
        """Hold what the gallery has at least: while it stands on one snapshot, it only grows at its end."""
        if not self._blocks or self._blocks[0] is not gallery.blocks[0]:
            self._build(gallery)
        first, last = int(self._index.ntotal), len(gallery)
        if first >= last:
            return
        for start in range(first, last, ADDED):
            added = gallery.vectors(np.arange(start, min(start + ADDED, last)))
            try:
                self._index.add(added)
            except RuntimeError as error:  # FAISS's only one, whatever went wrong
                self._index, self._blocks = None, ()
                raise DoesNotFit(
                    f"FAISS cannot take {last} images on {self.device}; set index=exact"
                ) from error
            self._largest_norm = max(self._largest_norm, float(np.square(added).sum(axis=1).max()))
        self._sample_rows = np.unique(np.linspace(0, last - 1, SAMPLE).astype(np.int64))
        self._sample = gallery.vectors(self._sample_rows)
        self._blocks = gallery.blocks

    def _build(self, gallery: Gallery) -> None:
        self._index, self._blocks, self._largest_norm = None, (), 0.0  # lets go of the old one first
        most = LEARNT_FROM * LISTS * int(np.sqrt(len(gallery)))
        chosen = np.unique(np.linspace(0, len(gallery) - 1, min(most, len(gallery))).astype(np.int64))
        sample = (
            gallery.vectors(chosen) if self.kind == "ivf" else np.empty((0, gallery.dimensions), np.float32)
        )
        self._index = faiss_index.empty(self.kind, self.device, gallery.dimensions, sample, len(gallery))


def _among(found: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Whether each of `found` is one of the ascending `rows`."""
    places = np.minimum(np.searchsorted(rows, found), len(rows) - 1)
    return rows[places] == found
