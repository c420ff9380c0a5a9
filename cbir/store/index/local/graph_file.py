"""HNSW graph of FAISS as the content of a file."""

from typing import BinaryIO

import faiss

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.index.local.faiss_file import WRITTEN, stored_vectors
from cbir.store.index.local.faiss_graph import FaissGraph
from cbir.store.index.local.local_content import DigestWriter, FileRows


class StoredGraph(FaissGraph):
    """Graph whose vectors are in memory, also those that a file has."""

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return int(self.index.d)

    @classmethod
    def read(cls, file_rows: FileRows, file: BinaryIO, size: int) -> "StoredGraph":
        """Return the graph of a file, which is at what `write_structure` wrote; `size` is of that."""
        storage = faiss.IndexFlatL2(file_rows.dimensions)
        storage.codes.resize(4 * file_rows.vectors.size)
        storage.ntotal = len(file_rows.numbers)
        vectors = stored_vectors(storage)
        for rows, page in file_rows.checked_pages():
            vectors[rows] = page
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read, WRITTEN))
        storage.this.disown()
        index.storage, index.own_fields = storage, True
        return cls(file_rows.dimensions, index, file_rows.numbers)

    def write_structure(self, writer: DigestWriter) -> None:
        """Write the graph without its vectors."""
        faiss.write_index(
            self.index, faiss.PyCallbackIOWriter(writer.write, WRITTEN), faiss.IO_FLAG_SKIP_STORAGE
        )

    def values(self, rows: Rows) -> Floats:
        """Return the stored values (n, d) of rows."""
        return stored_vectors(self.index)[rows]

    def use_file(self, vectors: Floats) -> None:
        """Do nothing: the vectors stay in memory."""

    def finish(self) -> None:
        """Do nothing: the graph grows with each image."""
