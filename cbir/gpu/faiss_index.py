"""Creation of FAISS indexes on a GPU or on the CPU."""

from typing import Any, Literal

import faiss
import numpy as np

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.hardware.device import faiss_gpu_problem
from cbir.hardware.device_memory import is_out_of_device_memory

Kind = Literal["flat", "ivf"]

PROBED = 64  # lists of the inverted file that a search reads
LISTS = 2  # number of lists, in square roots of the number of images
TRAINED_ON = 64  # images per list to train on, at most
SCRATCH = 256 * 2**20  # bytes of the GPU's memory that FAISS keeps for its own work


def create_index(kind: Kind, device: str, dimensions: int, sample: Floats, count: int) -> Any:
    """Create an empty, trained index of Euclidean distances.

    The lists of an inverted file are trained on the CPU for every device, so that they are the same everywhere.

    Parameters
    ----------
    kind : "flat" or "ivf"
        Exact, or an inverted file.
    device : "cpu" or "cuda"
        Where to search.
    dimensions : int
        Of the vectors.
    sample : (m, d) float32
        Vectors that lists are trained on.
    count : int
        Number of vectors that the index will hold at least.

    Raises
    ------
    InvalidInput
        For "cuda", if the installed faiss cannot use a GPU.
    """
    index: Any = faiss.IndexFlatL2(dimensions)
    if kind == "ivf":
        lists = max(1, min(LISTS * int(np.sqrt(count)), len(sample)))
        index = faiss.IndexIVFFlat(index, dimensions, lists)
        index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = 6, TRAINED_ON, 1
        index.train(sample)
        index.nprobe = min(PROBED, lists)
    return index if device == "cpu" else _on_gpu(index, kind)


_abandoned: list[Any] = []


def abandon(index: Any, device: str, error: BaseException | None = None) -> None:
    """Keep an index on a GPU that has failed: freeing it there fails as well, and then FAISS ends the process.

    One that ran out of memory can be freed. index, device: what is left, and where. error: why.
    """
    if device == "cuda" and index is not None and not (error and is_out_of_device_memory(error)):
        _abandoned.append(index)


def _on_gpu(index: Any, kind: Kind) -> Any:
    """Copy an index to the first GPU; its resources live as long as the copy."""
    if problem := faiss_gpu_problem():
        raise InvalidInput(problem)
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(SCRATCH)
    options = faiss.GpuClonerOptions()
    options.use_cuvs = False  # the published build has none; its indexes would need other calls
    options.useFloat16 = False  # the same neighbours as on the processor
    moved = faiss.index_cpu_to_gpu(resources, 0, index, options)
    if kind == "ivf":
        moved.nprobe = index.nprobe
    moved.referenced_objects = [resources]  # as FAISS itself keeps what an index needs
    return moved
