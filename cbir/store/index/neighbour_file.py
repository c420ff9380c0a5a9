"""File of the k-NN graph of a collection behind an index: derived like the index, mapped and read in part."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged
from cbir.gallery.numbered_graph import NumberedGraph
from cbir.gallery.whitening import Space
from cbir.store.base.permissions import file_mode
from cbir.system.files import atomic_binary

FORMAT = 1
HEADER = 4096  # bytes
DIGEST = 16  # bytes of the digest at the end
READ = 1 << 20  # bytes read at a time

Array = NDArray[Any]


class EditionGraph(NamedTuple):
    """Content of the file. edition: of the index. generation: of the collection, before its vectors were read."""

    edition: str
    generation: int
    graph: NumberedGraph


def write_neighbours(path: Path, stored: EditionGraph) -> None:
    """Write the graph of an edition atomically, and durably; the folder must exist."""
    graph = stored.graph
    header = {
        "format": FORMAT,
        "edition": stored.edition,
        "generation": stored.generation,
        "images": len(graph),
        "edges": len(graph.ends),
        "dimensions": len(graph.space.centre),
        "whitened": graph.space.projection is not None,
        "least": graph.least,
    }
    digest = hashlib.blake2b(digest_size=DIGEST)
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        for part in (json.dumps(header).encode().ljust(HEADER), *_bytes(graph)):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read_neighbours(path: Path) -> EditionGraph | None:
    """Map a file that `write_neighbours` wrote; None if there is none.

    Raises CollectionDamaged if the file cannot be read, or has changed since it was written.
    """
    try:
        with path.open("rb") as file:
            _require_digest(file, path)
            file.seek(0)
            header = json.loads(file.read(HEADER))
            if header["format"] != FORMAT:
                raise CollectionDamaged(f"the graph {path.name} was written by another version of cbir")
            mapped = np.memmap(file, np.uint8, "r")
        return EditionGraph(header["edition"], header["generation"], _mapped_graph(mapped, header))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CollectionDamaged(f"the graph {path.name} cannot be read") from error


def _bytes(graph: NumberedGraph) -> Iterator[bytes]:
    """Yield the arrays as they are in the file: those of 8 bytes a value first, so that all are aligned."""
    projection = graph.space.projection
    arrays: list[tuple[Array, str]] = [
        (graph.numbers, "<i8"),
        (graph.starts, "<i8"),
        (graph.space.centre, "<f4"),
    ]
    arrays += [] if projection is None else [(projection, "<f4")]
    arrays += [(values, "<f4") for values in (graph.scale, graph.reach, graph.degrees, graph.weights)]
    for array, kind in (*arrays, (graph.ends, "<i4")):
        yield np.ascontiguousarray(array, kind).tobytes()


def _mapped_graph(mapped: Array, header: dict[str, Any]) -> NumberedGraph:
    images, edges, dimensions = header["images"], header["edges"], header["dimensions"]
    position = HEADER

    def take(count: int, kind: str) -> Array:
        nonlocal position
        start, position = position, position + count * np.dtype(kind).itemsize
        return mapped[start:position].view(kind).view(np.ndarray)

    numbers, starts, centre = take(images, "<i8"), take(images + 1, "<i8"), take(dimensions, "<f4")
    projection = take(dimensions**2, "<f4").reshape(dimensions, dimensions) if header["whitened"] else None
    scale, reach, degrees = (take(images, "<f4") for _ in range(3))
    weights, ends = take(edges, "<f4"), take(edges, "<i4")
    space = Space(np.array(centre), None if projection is None else np.array(projection))
    return NumberedGraph(numbers, starts, ends, weights, scale, reach, degrees, header["least"], space)


def _require_digest(file: BinaryIO, path: Path) -> None:
    digest, left = hashlib.blake2b(digest_size=DIGEST), os.fstat(file.fileno()).st_size - DIGEST
    while left > 0 and (block := file.read(min(READ, left))):
        digest.update(block)
        left -= len(block)
    if file.read() != digest.digest():
        raise CollectionDamaged(f"the graph {path.name} has changed since it was written")
