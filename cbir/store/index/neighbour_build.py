"""Building the k-NN graph of a collection from the vectors in its database."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from cbir import settings
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import fit_space, plain_space
from cbir.store.base.normalisation import Statistics, part_bounds
from cbir.store.base.profile import Profile
from cbir.store.index.port import Numbers
from cbir.store.views.index_feed import IndexFeed
from cbir.system.cancellation import checkpoint

Progress = Callable[[int, int], None]  # images read, and in all


def build_neighbours(
    feed: IndexFeed, profile: Profile, statistics: Statistics, folder: Path, progress: Progress | None = None
) -> NumberedGraph:
    """Build the graph of all images in the space of an index.

    Parameters
    ----------
    feed : IndexFeed
        Of the whole collection.
    profile : Profile
        Profile of the collection.
    statistics : Statistics
        Of the vectors in the index.
    folder : Path
        Folder for a temporary file of all vectors, which need not fit into memory.
    progress : callable, optional
        Called with the number of images whose vectors are read, and of all.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        numbers = _write_vectors(feed, statistics, file, progress)
        matrix = _mapped(file, len(numbers), statistics.dimensions)
        plain = profile.is_projected  # learned directions need no more whitening
        space = plain_space(matrix.shape[1]) if plain else fit_space(matrix, part_bounds(profile, statistics))
        graph = build_graph(find_neighbours(matrix, space, settings.load().device))
        del matrix
    return number_graph(numbers, graph, space)


def _write_vectors(
    feed: IndexFeed, statistics: Statistics, file: IO[bytes], progress: Progress | None
) -> Numbers:
    """Write the normalised vectors of all images to a file, and return their numbers, ascending."""
    last = feed.state().last_number
    total = feed.count_between(0, last)
    pages, done, after = [np.empty(0, np.int64)], 0, 0
    while True:
        checkpoint()
        numbers, raw = feed.vectors_after(after, last)
        if not len(numbers):
            file.flush()
            return np.concatenate(pages)
        file.write(statistics.normalise(raw).astype(np.float32, copy=False).tobytes())
        pages.append(numbers)
        done, after = done + len(numbers), int(numbers[-1])
        if progress:
            progress(done, max(total, done))


def _mapped(file: IO[bytes], count: int, dimensions: int) -> Floats:
    """Return the vectors (count, dimensions) that a file has."""
    if not count:
        return np.empty((0, dimensions), np.float32)
    return np.memmap(file, np.float32, "r", shape=(count, dimensions)).view(np.ndarray)
