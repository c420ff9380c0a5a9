"""Drawn vectors as a collection that searches rank: a view with its FAISS index, and no database."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from cbir.gallery.code_index import CodeIndex, build_codes
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import plain_space
from cbir.search.searched_vectors import SearchedVectors
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store.snapshot.snapshot import Snapshot
from cbir.store.views.collection_view import View

DIMENSIONS, CENTRES, DRAWN = 128, 1000, 100_000


def clustered(count: int, seed: int) -> np.ndarray:
    """Return `count` vectors of length 1 around 1,000 centres."""
    centres = np.random.default_rng(7).standard_normal((CENTRES, DIMENSIONS)).astype(np.float32)
    random, vectors = np.random.default_rng(seed), np.empty((count, DIMENSIONS), np.float32)
    for start in range(0, count, DRAWN):
        piece = vectors[start : start + DRAWN]
        random.standard_normal(out=piece, dtype=np.float32)
        piece *= np.float32(0.7)
        piece += centres[random.integers(0, CENTRES, len(piece))]
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    return vectors


def ring(count: int) -> NearestNeighbours:
    """Return as neighbours of each image those beside it in a ring of random order: none is found in a cache."""
    random = np.random.default_rng(2)
    order = random.permutation(count).astype(np.int32)
    rows = np.empty((count, NEAREST), np.int32)
    for column in range(NEAREST):
        rows[order, column] = np.roll(order, (column // 2 + 1) * (1 if column % 2 else -1))
    squared = np.sort(random.uniform(0.2, 1.0, (count, NEAREST)).astype(np.float32), axis=1)
    return NearestNeighbours(plain_space(DIMENSIONS), rows, squared, np.ones(count, np.float32))


class DrawnCollection:
    """What searches without filters ask of a collection."""

    def __init__(self, vectors: np.ndarray, folder: Path, linked: bool = False) -> None:
        ids = np.arange(len(vectors), dtype=np.int64)
        flat = faiss.IndexFlatL2(DIMENSIONS)
        flat.add(vectors)
        index = CodeIndex(flat, vectors, build_codes(vectors))
        graph = Neighbourhood(ring(len(vectors))) if linked else None
        gallery = Gallery((vectors,), ids, neighbourhood=graph, projected=True, flat_index=index)
        self._view = View(1, gallery, None, None, Snapshot(vectors, ids, index), 1)  # type: ignore[arg-type]
        self.folder = folder

    def view(self) -> View:
        return self._view

    def matching_rows(self, _: View, where: Any) -> None:
        assert not where

    def conditions(self, where: Any) -> tuple[()]:
        assert not where
        return ()

    def index_feed(self) -> None:
        """There is none to exclude images with."""


def vectors_of(collection: Any, device: Any) -> SearchedVectors:
    """Return the vectors of a drawn collection, which the product searches on a device."""
    return SearchedVectors(collection, Settings(), ViewVectors(collection, device), None)
