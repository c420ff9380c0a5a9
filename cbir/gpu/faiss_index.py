"""FAISS indexes of a collection's rows, on a GPU or on the processor: empty, trained, ready to add to."""

from typing import Any, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

Kind = Literal["flat", "ivf"]

PROBED = 64  # lists of the inverted file that a search looks into
LISTS = 2  # times the root of the number of images: so many lists
LEARNT_FROM = 64  # images a list is learnt from, at most
SCRATCH = 256 * 2**20  # bytes of the GPU's memory that FAISS keeps for its own work


def empty(kind: Kind, device: str, dimensions: int, sample: NDArray[np.float32], count: int) -> Any:
    """An index of Euclidean distances for `count` vectors or more.

    The lists of an inverted file are learnt on the processor from `sample` (m, d), on every device alike, so that the
    same images lie in the same lists everywhere. Raises InvalidInput for device "cuda" without a faiss that has it.
    """
    index: Any = faiss.IndexFlatL2(dimensions)
    if kind == "ivf":
        lists = max(1, min(LISTS * int(np.sqrt(count)), len(sample)))
        index = faiss.IndexIVFFlat(index, dimensions, lists)
        index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = 6, LEARNT_FROM, 1
        index.train(sample)
        index.nprobe = min(PROBED, lists)
    return index if device == "cpu" else _on_gpu(index, kind)


def missing() -> str | None:
    """What the installed faiss can use no GPU for want of; None where it can."""
    if not hasattr(faiss, "StandardGpuResources"):
        return (
            "index=flat and index=ivf on a GPU need faiss-gpu in place of faiss-cpu "
            "(pip uninstall faiss-cpu, then pip install faiss-gpu: never both)"
        )
    if not faiss.get_num_gpus():
        return f"faiss-gpu {faiss.__version__} finds no GPU that it can use on this machine"
    return None


def _on_gpu(index: Any, kind: Kind) -> Any:
    """The classic index of the same kind and lists on the first GPU, whose resources live as long as it does."""
    wanting = missing()
    if wanting:
        raise InvalidInput(wanting)
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
