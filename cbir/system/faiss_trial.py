"""Trial of FAISS on a GPU, as a program: an index of ten vectors is copied there and searched."""

import faiss
import numpy as np

SCRATCH = 16 << 20  # bytes of the GPU's memory for FAISS's own work


def try_index() -> None:
    """Raise RuntimeError if FAISS finds other neighbours on the GPU than on the CPU, or what it raises itself."""
    vectors = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    resources, options = faiss.StandardGpuResources(), faiss.GpuClonerOptions()
    resources.setTempMemory(SCRATCH)
    resources.setPinnedMemory(0)
    options.use_cuvs = False
    copy = faiss.index_cpu_to_gpu(resources, 0, index, options)
    (distances, rows), (expected, nearest) = copy.search(vectors, 3), index.search(vectors, 3)
    if not (rows == nearest).all() or not np.allclose(distances, expected, atol=1e-4):
        raise RuntimeError("FAISS finds other neighbours on the GPU than on the CPU")


if __name__ == "__main__":
    try_index()
