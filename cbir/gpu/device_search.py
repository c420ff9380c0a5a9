"""Search of one collection on a GPU or by a FAISS index; one process at a time has a collection on the GPU."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Literal

from cbir.errors import CollectionBusy, DeviceFailed, InvalidInput
from cbir.file_lock import try_lock
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.gpu.nearest_index import NearestIndex
from cbir.hardware.device import Device, faiss_gpu_problem, resolve_device
from cbir.hardware.device_failure import device_failures, give_up_gpu, gpu_failure, with_remedy
from cbir.hardware.device_memory import free_cached_memory
from cbir.rerank.reranker import Reranker
from cbir.rerank.top_hits import TopHits, rerank_top

if TYPE_CHECKING:
    from cbir.gpu.accelerator import Accelerator

Kind = Literal["flat", "ivf"]
KINDS: dict[str, Kind] = {"flat": "flat", "faiss-ivf": "ivf"}

log = logging.getLogger(__name__)

LEAST = 20_000  # images; a smaller collection is searched on the CPU sooner than it is sent anywhere
SCALED = "similarities are scaled by the largest distance in a sample of the collection"


class DeviceSearch:
    """Search on the device that the settings name, for the process that created it. Thread-safe.

    Parameters
    ----------
    folder : Path
        The collection's folder, which holds the device lock.
    device : "auto", "cpu" or "cuda"
        With "auto" the CPU does what the GPU cannot, and everything once the GPU has failed.
    index : "exact", "flat" or "faiss-ivf"
        FAISS index for re-rankers of limited depth; "exact" for none.
    least : int
        Number of images from which device and index are used.

    Raises
    ------
    InvalidInput
        If `device` is "cuda" and there is none.
    """

    def __init__(self, folder: Path, device: Device, index: str = "exact", least: int = LEAST) -> None:
        self._setting, self._device = device, resolve_device(device)
        self._folder, self._least, self._process = folder, least, os.getpid()
        self._lock = Lock()
        self._accelerator: Accelerator | None = None
        kind = KINDS.get(index)  # other indexes are no part of a device
        self._nearest = NearestIndex(kind, self._index_device()) if kind else None

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Device that is used at present."""
        return "cpu" if self._setting == "auto" and gpu_failure() else self._device

    @property
    def index_device(self) -> str | None:
        """Device of the FAISS index; None without one."""
        return self._nearest.device if self._nearest else None

    def search(
        self, query: Floats, gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int,
        passable: Rows | None = None,
    ) -> TopHits | None:  # fmt: skip
        """Search and re-rank.

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
            None where the NumPy path has to do it.

        Raises
        ------
        CollectionBusy
            If the device is "cuda" and another process has the collection there.
        DeviceFailed
            If the device is "cuda" and fails.
        """
        if self.device == "cpu" and self._device == "cuda":
            self._leave_gpu()
        count = len(gallery) if rows is None else len(rows)
        # A GPU context belongs to the process that created it, and not to its children.
        if count < self._least or os.getpid() != self._process:
            return None
        nearest = self._nearest
        if nearest and reranker.depth is not None and (nearest.device == "cpu" or self._may_use_device()):
            device = "faiss" if nearest.device == "cpu" else "cuda"
            work: Callable[[], TopHits | None] = partial(
                self._by_index, nearest, query, gallery, rows, reranker, k
            )
        elif self.device == "cuda" and self._may_use_device():
            device, work = "cuda", partial(self._by_torch, query, gallery, rows, reranker, k, passable)
        else:
            return None
        try:
            with device_failures("search", device):
                return work()
        except DeviceFailed as error:
            if device == "cuda" and self._setting == "cuda":
                raise with_remedy(error) from error
            log.debug("where the device failed", exc_info=error)
            self._give_up(device, str(error))
        return self.search(query, gallery, rows, reranker, k, passable)  # what is left does it

    def _by_index(
        self, nearest: NearestIndex, query: Floats, gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int
    ) -> TopHits:  # fmt: skip
        count = len(gallery) if rows is None else len(rows)
        assert reranker.depth is not None
        head = nearest.head(query, gallery, rows, reranker.depth + min(k, count))
        hits = rerank_top(reranker, query, head, gallery, k)
        return hits if len(head) == count else hits.with_note(SCALED)

    def _by_torch(
        self, query: Floats, gallery: Gallery, rows: Rows | None, reranker: Reranker, k: int, passable: Rows | None
    ) -> TopHits | None:  # fmt: skip
        accelerator = self._loaded_accelerator()
        if accelerator is None:
            return None
        return accelerator.search(query, gallery, rows, reranker, k, passable)

    def _give_up(self, device: str, reason: str) -> None:
        if device == "cuda":
            give_up_gpu(reason)
        else:
            log.warning("%s; searches go on without the index", reason)
            self._nearest = None

    def _leave_gpu(self) -> None:
        """Free what the collection has on a GPU that has failed; its index is built anew on the CPU."""
        with self._lock:
            self._device, self._accelerator = "cpu", None
            if self._nearest and self._nearest.device == "cuda":
                self._nearest.abandon()
                self._nearest = NearestIndex(self._nearest.kind, "cpu")
        free_cached_memory()

    def _index_device(self) -> Literal["cpu", "cuda"]:
        """Return the device of the FAISS index: with "auto" the CPU where only torch can use the GPU."""
        problem = faiss_gpu_problem() if self._device == "cuda" else None
        if problem and self._setting == "cuda":
            raise InvalidInput(f"device=cuda: {problem}")
        return "cpu" if problem else self._device

    def _may_use_device(self) -> bool:
        """Return whether this process has the collection's device lock; the CPU needs none."""
        if self.device == "cpu" or acquire_device_lock(self._folder):
            return True
        if self._setting == "cuda":
            raise CollectionBusy(
                f"another process has {self._folder} on the GPU; search through that one, or with device=cpu"
            )
        return False

    def _loaded_accelerator(self) -> Accelerator | None:
        """Return the copy on the GPU; None if another search has just given the GPU up."""
        from cbir.gpu.accelerator import Accelerator  # imports torch

        with self._lock:
            if self.device == "cpu":
                return None
            self._accelerator = self._accelerator or Accelerator(self._device)
            return self._accelerator


_acquiring = Lock()
_device_locks: dict[
    tuple[int, int, int], IO[bytes]
] = {}  # process, file system and number of the lock's file


def acquire_device_lock(folder: Path) -> bool:
    """Acquire the device lock of the collection in `folder`; return False if another process has it.

    The kernel releases the lock when the process dies.
    """
    with _acquiring:
        file = (folder / "device.lock").open("ab")
        status = os.fstat(file.fileno())
        name = os.getpid(), status.st_dev, status.st_ino
        if name in _device_locks:
            file.close()
            return True
        if not try_lock(file.fileno()):
            file.close()
            return False
        _device_locks[name] = file
        return True
