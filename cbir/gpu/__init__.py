"""Searching on a GPU: a PyTorch backend of the re-rankers, and FAISS indexes.

torch is imported only when a GPU is used: `import cbir.gpu` costs nothing.
"""

from cbir.errors import InvalidInput


class OutOfDeviceMemory(InvalidInput):
    """A collection does not fit into the memory of a device."""
