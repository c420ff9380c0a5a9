"""Numbers and vectors in the binary format of PostgreSQL's COPY, with vectors as pgvector sends them."""

import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.store.index.port import Numbers

BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, flags, length of an extension
END = b"\xff\xff"


def row_type(dimensions: int) -> np.dtype[np.void]:
    """Return the layout of a row with the columns `number` and `vector`."""
    return np.dtype(
        [
            ("columns", ">i2"),
            ("number_bytes", ">i4"),
            ("number", ">i8"),
            ("vector_bytes", ">i4"),
            ("dimensions", ">i2"),
            ("unused", ">i2"),
            ("values", ">f4", (dimensions,)),
        ]
    )


def encode_rows(numbers: Numbers, vectors: Floats) -> bytes:
    """Return what COPY reads for images with these numbers (n,) and vectors (n, d)."""
    dimensions = vectors.shape[1]
    rows = np.zeros(len(numbers), row_type(dimensions))
    rows["columns"], rows["number_bytes"], rows["vector_bytes"] = 2, 8, 4 + 4 * dimensions
    rows["number"], rows["dimensions"], rows["values"] = numbers, dimensions, vectors
    return BEGIN + rows.tobytes() + END


def decode_rows(content: bytes, dimensions: int) -> tuple[Numbers, Floats]:
    """Return numbers (n,) and vectors (n, d) from what COPY wrote."""
    rows = np.frombuffer(content[len(BEGIN) : -len(END)], row_type(dimensions))
    return rows["number"].astype(np.int64), rows["values"].astype(np.float32)
