"""Exact search of vectors by FAISS: all are compared, on the CPU or on the GPU, there first in half precision."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, ClassVar
from weakref import ref

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows, is_among, table_of
from cbir.system.device_failure import gpu_failure, is_out_of_device_memory, rows_within
from cbir.system.threads import checkpoint, is_cancellation, locked, run_to_end

FEW = 256  # excluded rows up to which more are fetched, in place of a selector
# Share of the rows up to which all that are allowed are returned: the caller compares so few sooner than FAISS.
RETURNED_WHOLE = 1 / 32
PARTS = 8  # that the rows are dealt to in turn: a GPU finds MOST_FETCHED rows of each
MOST_FETCHED = 2048  # rows that a search of a GPU index returns, at most
SPARE = 1.3  # times the mean share of a list that is fetched of each part
GPU_SLACK = 64  # rows fetched besides, of each part
GPU_ADDED = (64 << 20, 16 << 20, 4 << 20)  # bytes of vectors added at a time; fewer if they do not fit
SCRATCH = 256 << 20  # bytes of the GPU's memory that FAISS keeps for its own work


@dataclass(frozen=True, eq=False)
class FlatIndex:
    """FAISS index of the first rows of a gallery, without lists or a graph: every search compares all of them.

    flat: faiss.IndexFlatL2; its ids are rows.
    """

    flat: Any
    name: ClassVar[str] = "flat"

    def __len__(self) -> int:
        return int(self.flat.ntotal)

    def nearest(self, query: Floats, count: int, allowed: Rows | None = None) -> Rows:
        """Return the nearest rows, ascending: at least `count`, or all that are allowed.

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
        if count >= total or total <= RETURNED_WHOLE * len(self):
            return np.arange(total) if allowed is None else allowed
        missing, selector = len(self) - total, None
        if missing > FEW:
            selector, missing = select_rows(allowed, len(self)), 0
        with one_search_thread():
            options = faiss.SearchParameters(sel=selector) if selector else None
            rows = self.flat.search(query[None, :], count + missing, params=options)[1][0]
        rows = np.sort(rows[rows >= 0])
        return rows if allowed is None or selector else rows[is_among(rows, allowed)]

    def nearest_both(
        self, query: Floats, count: int, allowed: Rows | None, around: int, visible: Rows | None
    ) -> tuple[Rows, Rows]:
        """Return the nearest of the rows that a filter allows, and of all that are visible; each as `nearest` does.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        count, around : int
            Numbers of rows.
        allowed, visible : (m,) int64 or None
            Rows to search, as of `nearest`; those that are allowed are visible.
        """
        return self.nearest(query, count, allowed), self.nearest(query, around, visible)


def select_rows(allowed: Rows | None, count: int) -> faiss.IDSelector | None:
    """Return FAISS's selector of some of `count` rows; None for all."""
    if allowed is None:
        return None
    return faiss.IDSelectorBitmap(np.packbits(table_of(allowed, count), bitorder="little"))


class one_search_thread:  # noqa: N801  # used as a statement, as contextlib's are
    """Let FAISS search on one thread within a `with` block: threads of one query wait for each other."""

    def __enter__(self) -> None:
        self._threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # of the calling thread alone

    def __exit__(self, *_: object) -> None:
        faiss.omp_set_num_threads(self._threads)


_abandoned: list[Any] = []


class GpuFlatIndex:
    """FAISS index of the first rows of a gallery on a GPU. Thread-safe: searches take turns.

    Classic GPU indexes ignore a selector and have a largest k. So rows are dealt to PARTS indexes, more of each are
    fetched than are needed, and rows that do not pass a filter are dropped.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # Vectors that are there, while anything uses them
        self._copied: Callable[[], Floats | None] = lambda: None
        self._parts: list[Any] = []

    def nearest(self, vectors: Floats, query: Floats, count: int, allowed: Rows | None = None) -> Rows | None:
        """Return the nearest rows, ascending, at least `count`; None if some may be missing.

        Parameters
        ----------
        vectors : (n, d) float32
            What is searched: copied to the GPU if it is not what is there.
        query : (d,) float32
            Query vector.
        count : int
            Number of rows.
        allowed : (m,) int64, optional
            Rows that may be returned, ascending; all by default.
        """
        if self._copied() is not vectors:
            run_to_end(partial(self._copy, vectors), self._lock)
        with locked(self._lock):
            parts = self._copy(vectors)  # again: another query may have copied an older snapshot meanwhile
            share = 1.0 if allowed is None else len(allowed) / len(vectors)
            fetched = int(SPARE * count / max(share, 1e-9) / PARTS) + GPU_SLACK
            while fetched <= 2 * MOST_FETCHED:
                rows = _fetch(parts, query, count, min(fetched, MOST_FETCHED), allowed)
                if rows is not None:
                    return rows
                fetched *= 2
        return None

    def abandon(self) -> None:
        """Give up what is on a GPU that has failed: freeing it fails as well, and then FAISS ends the process."""
        _abandoned.append(self._parts)
        self._parts = []
        self._forget()

    def _forget(self) -> None:
        if gpu_failure() is not None:  # perhaps in the search of another collection
            _abandoned.append(self._parts)
        self._copied, self._parts = (lambda: None), []

    def _forget_gone(self, gone: object) -> None:
        """Free the copy; an erased patient's vectors leave the GPU with the view that had them."""
        if self._copied is gone:
            self._forget()

    def _copy(self, vectors: Floats) -> list[Any]:
        """Return the parts of the index of vectors, which may be there."""
        parts = self._parts
        if self._copied() is vectors:
            return parts
        parts = []
        self._forget()  # frees the old ones first
        for limit in GPU_ADDED:
            try:
                for number in range(PARTS):
                    first = parts[0] if parts else None
                    parts.append(create_gpu_index(vectors.shape[1], half=True, beside=first))
                    add_in_pieces(parts[-1], vectors[number::PARTS], limit)
                break
            except Exception as error:
                if not (is_cancellation(error) or is_out_of_device_memory(error)):
                    _abandoned.append(parts)
                    raise
                parts = []
                if limit == GPU_ADDED[-1] or is_cancellation(error):
                    raise
        self._parts, self._copied = parts, ref(vectors, self._forget_gone)
        return parts


def _fetch(parts: list[Any], query: Floats, count: int, fetched: int, allowed: Rows | None) -> Rows | None:
    """Return at least `count` rows, ascending, of the `fetched` nearest of each part; None if some may be missing."""
    results, farthest = [], np.inf
    for number, part in enumerate(parts):
        squared, numbers = part.search(query[None, :], min(fetched, part.ntotal))
        if fetched < part.ntotal:
            farthest = min(farthest, float(squared[0, -1]))  # farther rows of this part were not fetched
        results.append((numbers[0] * PARTS + number, squared[0]))
    rows, distances = (np.concatenate(values) for values in zip(*results, strict=True))
    if allowed is not None:
        passing = is_among(rows, allowed)
        rows, distances = rows[passing], distances[passing]
    sure = distances <= farthest
    return np.sort(rows[sure]) if np.count_nonzero(sure) >= count else None


def add_in_pieces(index: Any, vectors: Floats, limit: int = GPU_ADDED[0]) -> None:
    """Add vectors (n, d) to an index on the GPU, at most `limit` bytes at a time."""
    step = rows_within(limit, vectors.shape[1] * 4)
    for start in range(0, len(vectors), step):
        checkpoint()
        index.add(np.ascontiguousarray(vectors[start : start + step]))


def create_gpu_index(dimensions: int, half: bool, beside: Any = None) -> Any:
    """Return an empty index of Euclidean distances on the first GPU; its resources live as long as the index.

    Parameters
    ----------
    dimensions : int
        Length of the vectors.
    half : bool
        Store them in half precision.
    beside : optional
        Index on the GPU whose resources it shares, SCRATCH and 256 MiB of the host's locked memory: searches of both
        take turns.
    """
    if beside is None:
        resources = faiss.StandardGpuResources()
        resources.setTempMemory(SCRATCH)
    else:
        resources = beside.referenced_objects[0]
    options = faiss.GpuClonerOptions()
    options.use_cuvs = False  # the published build has none; its indexes would need other calls
    options.useFloat16 = half
    index = faiss.index_cpu_to_gpu(resources, 0, faiss.IndexFlatL2(dimensions), options)
    index.referenced_objects = [resources]  # as FAISS itself keeps what an index needs
    return index
