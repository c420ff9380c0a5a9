"""A GPU index that tests imagine: FAISS's on the processor, with the limits of one on a GPU."""

from typing import Any

import faiss
import numpy as np

MOST = 2048  # rows that a search returns


class ImaginedIndex:
    """Flat index that refuses selectors and a large k, as classic GPU indexes do."""

    def __init__(self, dimensions: int, half: bool, beside: "ImaginedIndex | None" = None) -> None:
        self.memory: object = object() if beside is None else beside.memory
        self._index: Any = faiss.IndexFlatL2(dimensions)
        if half:
            self._index = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_fp16)
            self._index.train(np.zeros((1, dimensions), np.float32))

    @property
    def ntotal(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: np.ndarray) -> None:
        self._index.add(vectors)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        if k > MOST:
            raise RuntimeError(f"Error: 'k <= {MOST}' failed: GPU index only supports min/max-K selection")
        found: tuple[np.ndarray, np.ndarray] = self._index.search(queries, k)
        return found
