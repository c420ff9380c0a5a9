"""Whole-collection re-ranking on a device: one copy of the vectors there, one query at a time."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.gallery import Gallery, Rows
from cbir.gpu.found import DoesNotFit, Found
from cbir.gpu.graph import DeviceGraph
from cbir.gpu.members import Question, answer
from cbir.gpu.vectors import DeviceVectors
from cbir.rerank.base import Reranker

LEAST = 20_000  # images; fewer are searched on the processor before a device has been told what to do
FEW = 256  # rows left out that are looked for one by one


class Accelerator:
    """A collection's vectors and graph on a device (torch's name of it). Thread-safe: queries take turns.

    half: see `DeviceVectors`. least: images from which the device is used.
    """

    def __init__(self, device: str, half: bool = True, least: int = LEAST) -> None:
        self.vectors = DeviceVectors(device, half)
        self.least = least
        self._graph: DeviceGraph | None = None
        self._lock = Lock()

    def rank(
        self, query: NDArray[np.float32], gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int
    ) -> Found | None:
        """The k best of the named rows (ascending; None for all) as `reranker` orders them.

        None where the device is no help: few images, all of them alike, or a re-ranker that it does not know.
        Scores agree with the processor's to the tolerance of float32, since the head of a list and what is learnt
        from it are computed there; in half precision, negatives and images at the end of the answer may be others.
        """
        count = len(gallery) if rows is None else len(rows)
        if count < max(self.least, 1):
            return None
        with self._lock, torch.inference_mode(), _told_when_full(gallery):
            self.vectors.follow(gallery)
            allowed = None if rows is None else self._mask(rows, len(gallery))
            question = Question(
                query, gallery, self.vectors, allowed, count, min(k, count), lambda: self._graph_of(gallery)
            )
            return answer(reranker, question)

    def _graph_of(self, gallery: Gallery) -> DeviceGraph:
        assert gallery.neighbourhood is not None
        graph, lengths = gallery.neighbourhood.covering(gallery)
        if self._graph is None or self._graph.source is not graph:
            self._graph = None  # lets go of the old one first
            self._graph = DeviceGraph(graph, lengths, self.vectors.device)
        return self._graph

    def _mask(self, rows: Rows, count: int) -> Tensor:
        """(count,) bool: the named rows. Where few are left out, those are what is sent."""
        if count - len(rows) <= FEW:
            mask = torch.ones(count, dtype=torch.bool, device=self.vectors.device)
            mask[torch.from_numpy(left_out(rows, count)).to(self.vectors.device)] = False
            return mask
        named = np.zeros(count, bool)
        named[rows] = True
        return torch.from_numpy(named).to(self.vectors.device)


@contextmanager
def _told_when_full(gallery: Gallery) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DoesNotFit(
            f"{len(gallery)} images of {gallery.dimensions} values and a query do not fit into the GPU's memory; "
            "search with device=cpu"
        ) from error


def left_out(rows: Rows, count: int) -> Rows:
    """What ascending `rows` leave out of 0..count-1, by bisection: O(log n) for each."""
    places = range(len(rows))
    # rows[i] - i rows are left out before rows[i]
    found = [
        bisect_right(places, gap, key=lambda i: int(rows[i]) - i) + gap for gap in range(count - len(rows))
    ]
    return np.array(found, np.int64)
