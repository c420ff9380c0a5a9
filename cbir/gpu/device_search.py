"""What one process has of a collection on a device, and that no other process has it there too."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionBusy, InvalidInput
from cbir.file_lock import try_lock
from cbir.gallery.gallery import Gallery, Rows
from cbir.gpu import faiss_index
from cbir.gpu.nearest_index import NearestIndex
from cbir.gpu.top_hits import OutOfDeviceMemory, TopHits, looked_at, rerank_top
from cbir.hardware import Device, resolve_device
from cbir.rerank.reranker import Reranker

if TYPE_CHECKING:
    from cbir.gpu.accelerator import Accelerator

Index = Literal["exact", "flat", "ivf"]

LEAST = 20_000  # images; a smaller collection is searched on the processor sooner than it is sent anywhere
SCALED = "similarities are scaled by the farthest of a sample of the collection"


class DeviceSearch:
    """Searches a collection on the device that the settings name, for the process that made it. Thread-safe.

    device: as in the settings; with "auto" the processor does what cannot be done elsewhere. index: how the nearest
    images are found where a re-ranker looks at the best places alone. least: images from which either is used.
    Raises InvalidInput where cuda is asked for and there is none.
    """

    def __init__(self, folder: Path, device: Device, index: Index = "exact", least: int = LEAST) -> None:
        self.device = resolve_device(device)
        self._insists = device == "cuda"
        self._folder, self._least, self._process = folder, least, os.getpid()
        self._lock = Lock()
        self._accelerator: Accelerator | None = None
        self._nearest = NearestIndex(index, self._index_device()) if index != "exact" else None

    def rank(
        self, query: NDArray[np.float32], gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int
    ) -> TopHits | None:
        """The k best of the named rows; None where the numpy path must do it.

        Raises CollectionBusy where cuda is asked for and another process has the collection there.
        """
        count = len(gallery) if rows is None else len(rows)
        # What is on a GPU belongs to the process that put it there, and not to its children.
        if count < self._least or os.getpid() != self._process or not self._has_use():
            return None
        try:
            return self._found(query, gallery, rows, reranker, min(k, count))
        except OutOfDeviceMemory:
            if self._insists or self.device == "cpu":
                raise
            self.device, self._accelerator, self._nearest = "cpu", None, None  # auto: from now on
            return None

    def _found(
        self, query: NDArray[np.float32], gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int
    ) -> TopHits | None:
        places, count = looked_at(reranker), len(gallery) if rows is None else len(rows)
        nearest = self._nearest
        if nearest is not None and places is not None and (nearest.device == "cpu" or self._may()):
            head = nearest.head(query, gallery, rows, min(places + k, count))
            found = rerank_top(reranker, query, head, gallery, k)
            return found if len(head) == count else found.told(SCALED)
        if self.device == "cuda" and self._may():
            return self._accelerated().rank(query, gallery, rows, reranker, k)
        return None

    def _index_device(self) -> str:
        """Where FAISS's index is: on the processor too where auto finds a GPU that only torch can use."""
        wanting = faiss_index.missing_gpu_support() if self.device == "cuda" else None
        if wanting and self._insists:
            raise InvalidInput(wanting)
        return "cpu" if wanting else self.device

    def _has_use(self) -> bool:
        return self.device == "cuda" or self._nearest is not None

    def _may(self) -> bool:
        """Whether this process owns the collection on the device, or does from now on; the processor is free."""
        if self.device == "cpu" or acquire_device_lock(self._folder):
            return True
        if self._insists:
            raise CollectionBusy(
                f"another process has {self._folder} on the GPU; ask that one, or search with device=cpu"
            )
        return False

    def _accelerated(self) -> Accelerator:
        with self._lock:
            if self._accelerator is None:
                from cbir.gpu.accelerator import Accelerator  # imports torch

                self._accelerator = Accelerator(self.device, least=self._least)
            return self._accelerator


_taking = Lock()
_owned: dict[tuple[int, int, int], IO[str]] = {}  # process, file system and number of the lock's file


def acquire_device_lock(folder: Path) -> bool:
    """Whether this process holds the collection's device lock, which the kernel lets go of when the process dies."""
    with _taking:
        file = (folder / "device.lock").open("a")
        status = os.fstat(file.fileno())
        name = os.getpid(), status.st_dev, status.st_ino
        if name in _owned:
            file.close()
            return True
        if not try_lock(file.fileno()):
            file.close()
            return False
        _owned[name] = file
        return True
