"""Nearest images by a FAISS index that can neither filter nor delete: excluded rows are dropped from its results.

Classic GPU indexes ignore an IDSelector and have no remove_ids. So more candidates are fetched than needed, rows that
were deleted or do not pass a filter are dropped, and where too few remain all allowed rows are compared.
"""

from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.cancellation import locked, run_to_end
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import CANCELLATION, RankingList, rank, similarities
from cbir.gallery.vector_blocks import Floats, Rows, is_among, spread_rows
from cbir.gpu import faiss_index
from cbir.gpu.faiss_index import LISTS, TRAINED_ON, Kind, abandon
from cbir.hardware.device_memory import is_out_of_device_memory, rows_within

MOST_FETCHED = 2048  # candidates: the limit of a GPU index
ADDED = (64 << 20, 16 << 20, 4 << 20)  # bytes of vectors added at a time; fewer if they do not fit
SAMPLE = 4096  # rows, evenly spread, whose largest distance stands for the largest of all
SLACK = 32  # extra candidates: equal distances may come in another order


class NearestIndex:
    """A flat index (exact) or an inverted file over all rows of a gallery, deleted ones included.

    Thread-safe: searches take turns, as a GPU index requires.

    Parameters
    ----------
    kind : "flat" or "ivf"
        Type of the index.
    device : "cpu" or "cuda"
        Where to search.
    """

    def __init__(self, kind: Kind, device: str) -> None:
        self.kind, self.device = kind, device
        self._lock = Lock()
        self._blocks: tuple[Floats, ...] = ()  # the gallery's blocks that are indexed
        self._index: Any = None
        self._sample_rows: Rows = np.empty(0, np.int64)
        self._sample: Floats = np.empty((0, 0), np.float32)
        self._largest_norm = 0.0

    def head(self, query: Floats, gallery: Gallery, rows: Rows | None, count: int) -> RankingList:
        """Return the ranking list of at least the nearest `count` rows.

        Distances are exact. Similarities are scaled by the largest distance in a fixed sample. A flat index finds the
        rows that `rank` does; with an inverted file some may be missing.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        gallery : Gallery
            Vectors of the collection.
        rows : (m,) int64 or None
            Rows to search, ascending; None for all.
        count : int
            Number of rows to find.
        """
        allowed = len(gallery) if rows is None else len(rows)
        count = min(count, allowed)
        share = allowed / max(len(gallery), 1)
        if count and (count + SLACK) / share <= MOST_FETCHED:
            if not self._covers(gallery):
                run_to_end(partial(self._follow, gallery), self._lock)
            with locked(self._lock):
                self._follow(gallery)  # again: another query may have followed an older gallery meanwhile
                nearest = self._fetch(query, gallery, rows, count)
                if nearest is not None:
                    return self._ranking(query, gallery, rows, *nearest)
        return rank(query, gallery, rows)

    def abandon(self) -> None:
        """Give up an index on a GPU that has failed."""
        abandon(self._index, self.device)

    def _fetch(
        self, query: Floats, gallery: Gallery, rows: Rows | None, count: int
    ) -> tuple[Rows, Floats] | None:
        """Return allowed rows and their exact distances; None if some may be missing."""
        fetch, total = count + SLACK, int(self._index.ntotal)
        while True:
            fetch = min(fetch, MOST_FETCHED, total)
            squared, fetched = self._index.search(query[None, :], fetch)
            fetched, squared = fetched[0][fetched[0] >= 0], squared[0][fetched[0] >= 0]
            passing = np.sort(fetched[_is_among(fetched, gallery, rows)])
            if len(passing) >= count:
                distances = gallery.exact_distances(query, passing)
                # Rows that were not fetched are at least as far as the last one, but for rounding.
                rounding = CANCELLATION * (float(query @ query) + self._largest_norm)
                beyond = float(squared.max()) - rounding if len(fetched) == fetch < total else np.inf
                if self.kind == "ivf" or np.sort(distances)[count - 1] ** 2 < beyond:
                    return passing, distances
            if fetch in (MOST_FETCHED, total) or len(fetched) < fetch:
                return None
            fetch *= 4

    def _ranking(
        self, query: Floats, gallery: Gallery, rows: Rows | None, nearest: Rows, distances: Floats
    ) -> RankingList:
        allowed = _is_among(self._sample_rows, gallery, rows)
        far = float(np.square(self._sample[allowed] - query).sum(axis=1).max(initial=0.0)) ** 0.5
        scaled = similarities(np.append(distances, np.float32(max(far, float(distances.max())))))
        return RankingList(nearest, distances, scaled[:-1])

    def _covers(self, gallery: Gallery) -> bool:
        """Return whether all rows of `gallery` are indexed."""
        blocks, index = self._blocks, self._index
        same = bool(blocks) and blocks[0] is gallery.blocks[0]
        return same and index is not None and int(index.ntotal) >= len(gallery)

    def _follow(self, gallery: Gallery) -> None:
        """Index at least the rows of the gallery: until the next snapshot it only grows at its end."""
        if self._covers(gallery):
            return
        last = len(gallery)
        for step in ADDED:
            if not self._blocks or self._blocks[0] is not gallery.blocks[0]:
                self._build(gallery)
            try:
                self._add(gallery, last, rows_within(step, 4 * gallery.dimensions))
                break
            except Exception as error:  # the index may have taken a part of what it was to add
                abandon(self._index, self.device, error)
                self._index, self._blocks = None, ()
                if step == ADDED[-1] or not is_out_of_device_memory(error):
                    raise
        self._sample_rows = spread_rows(last, SAMPLE)
        self._sample = gallery.vectors(self._sample_rows)
        self._blocks = gallery.blocks

    def _add(self, gallery: Gallery, last: int, step: int) -> None:
        for start in range(int(self._index.ntotal), last, step):
            added = gallery.vectors(np.arange(start, min(start + step, last)))
            self._index.add(added)
            self._largest_norm = max(self._largest_norm, float(np.square(added).sum(axis=1).max()))

    def _build(self, gallery: Gallery) -> None:
        self._index, self._blocks, self._largest_norm = None, (), 0.0  # frees the old one first
        count = len(gallery)
        most = TRAINED_ON * LISTS * int(np.sqrt(count)) if self.kind == "ivf" else 0
        sample = gallery.vectors(spread_rows(count, most))
        self._index = faiss_index.create_index(self.kind, self.device, gallery.dimensions, sample, count)


def _is_among(candidates: Rows, gallery: Gallery, rows: Rows | None) -> NDArray[np.bool_]:
    """Return whether each candidate is in ascending `rows`; None for all of the gallery."""
    if rows is None:
        return candidates < len(gallery)
    return is_among(candidates, rows)
