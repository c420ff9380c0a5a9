"""Search of a collection's snapshot on the device that the settings name."""

import logging
import os
from pathlib import Path
from typing import Literal

from cbir.errors import CollectionBusy, DeviceFailed, InvalidInput
from cbir.gallery.flat_index import GpuFlatIndex
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import AS_A_WHOLE, Floats, Rows
from cbir.system.device import Device, acquire_device_lock, faiss_gpu_problem, resolve_device
from cbir.system.device_failure import device_failures, give_up_gpu, gpu_failure, with_remedy

NARROW = 0.4  # share of the images that a filter leaves, below which a GPU finds too few of them
log = logging.getLogger(__name__)


class SnapshotSearch:
    """Search of one collection's snapshot on the device that the settings name. Thread-safe.

    Parameters
    ----------
    folder : Path
        The collection's folder, which holds the device lock.
    device : "auto", "cpu" or "cuda"
        With "auto" the CPU does what the GPU cannot, and everything once the GPU has failed.

    Raises
    ------
    InvalidInput
        If `device` is "cuda" and torch or FAISS cannot use a GPU.
    """

    def __init__(self, folder: Path, device: Device) -> None:
        self._setting, self._folder, self._process = device, folder, os.getpid()
        self._gpu = GpuFlatIndex() if resolve_device(device) == "cuda" else None
        if self._gpu is None or (problem := faiss_gpu_problem()) is None:
            return
        if device == "cuda":
            raise InvalidInput(f"device=cuda: {problem}")
        log.warning("the GPU describes images, and the CPU searches: %s", problem)
        self._gpu = None

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Device that searches at present."""
        return "cuda" if self._gpu is not None and not self._has_failed else "cpu"

    @property
    def _has_failed(self) -> bool:
        return self._setting == "auto" and gpu_failure() is not None

    def nearest(self, gallery: Gallery, query: Floats, count: int, allowed: Rows | None) -> Rows:
        """Return the nearest rows of the gallery's index, ascending: at least `count`, or all that are allowed.

        Parameters
        ----------
        gallery : Gallery
            Vectors of the collection, which has an index.
        query, count, allowed
            As of `FlatIndex.nearest`.

        Raises
        ------
        CollectionBusy
            If the device is "cuda" and another process has the collection there.
        DeviceFailed
            If the device is "cuda" and fails.
        """
        assert gallery.flat_index is not None
        rows, gpu = None, self._gpu
        if gpu is not None and self._suits_gpu(len(gallery.flat_index), count, allowed):
            rows = self._on_gpu(gpu, gallery.blocks[0], query, count, allowed)
        return gallery.flat_index.nearest(query, count, allowed) if rows is None else rows

    def nearest_both(
        self,
        gallery: Gallery,
        query: Floats,
        count: int,
        allowed: Rows | None,
        around: int,
        visible: Rows | None,
    ) -> tuple[Rows, Rows]:
        """Return what `FlatIndex.nearest_both` does.

        gallery: as of `nearest`. query, count, allowed, around, visible: as there.
        """
        if self._gpu is None:
            assert gallery.flat_index is not None
            return gallery.flat_index.nearest_both(query, count, allowed, around, visible)
        return self.nearest(gallery, query, count, allowed), self.nearest(gallery, query, around, visible)

    def _suits_gpu(self, indexed: int, count: int, allowed: Rows | None) -> bool:
        total = indexed if allowed is None else len(allowed)
        # A GPU context belongs to the process that created it, and not to its children.
        if indexed < AS_A_WHOLE or total < NARROW * indexed or count >= total or os.getpid() != self._process:
            return False
        if acquire_device_lock(self._folder):
            return True
        if self._setting == "cuda":
            raise CollectionBusy(
                f"another process has {self._folder} on the GPU; search through that one, or with device=cpu"
            )
        return False

    def _on_gpu(
        self, gpu: GpuFlatIndex, vectors: Floats, query: Floats, count: int, allowed: Rows | None
    ) -> Rows | None:
        """Return rows as `nearest` does; None where the CPU has to find them."""
        if self._has_failed:  # perhaps in the search of another collection, or in a description
            gpu.abandon()
            self._gpu = None
            return None
        try:
            with device_failures("search"):
                return gpu.nearest(vectors, query, count, allowed)
        except DeviceFailed as error:
            gpu.abandon()
            if self._setting == "cuda":
                raise with_remedy(error) from error
            log.debug("where the device failed", exc_info=error)
            give_up_gpu(str(error))
            self._gpu = None
        return None
