"""Pairs of images that may be duplicates: near by vector, or by the low frequencies of their pictures."""

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import EXACT, find_neighbours
from cbir.gallery.vector_blocks import Floats, is_among, spread_rows
from cbir.gallery.whitening import Space
from cbir.system.cancellation import checkpoint
from cbir.system.threads import cores
from service.features.audit.checks.pair_orientation import PlacedPairs, join_pairs, orient_pairs
from service.features.audit.checks.picture_signatures import PLACINGS, Signatures

NEAREST_BY_VECTOR = 5  # of the eight that are found
NEAREST_BY_PICTURE = 8, 2  # as they are, and in each other placing
LEAST_BY_VECTOR = 0.55  # likeness of the low frequencies in the best orientation and placing
LEAST_AS_THEY_ARE = 0.9
LEAST_PLACED = 0.965  # of those found by their pictures alone that are rotated or enlarged

LISTS, PROBES, TRAINED_ON = 2, 16, 40  # lists per root of the images, lists compared with, images per list
BLOCK = 2048  # rows that a thread searches for at a time

Rows = NDArray[np.int64]


def find_candidate_pairs(vectors: Floats, space: Space, signatures: Signatures) -> PlacedPairs:
    """Find pairs of n images that may be duplicates, the smaller row first, placed in one or two likely ways.

    Parameters
    ----------
    vectors : (n, d) float32
        Normalised vectors.
    space : Space
        Space that they are compared in.
    signatures : Signatures
        Of their pictures.
    """
    count = len(vectors)
    near = find_neighbours(vectors, space).rows[:, :NEAREST_BY_VECTOR]
    by_vector = _pairs(np.repeat(np.arange(count), near.shape[1]), near.ravel(), count)
    by_picture = _pairs_by_picture(signatures.frequencies)
    by_picture = by_picture[~is_among(by_picture, by_vector)]
    vector_pairs, picture_pairs = (
        np.column_stack(np.divmod(pairs, count)) for pairs in (by_vector, by_picture)
    )
    return join_pairs(
        [
            orient_pairs(vector_pairs, signatures, (LEAST_BY_VECTOR, LEAST_BY_VECTOR)),
            orient_pairs(picture_pairs, signatures, (LEAST_AS_THEY_ARE, LEAST_PLACED)),
        ]
    )


def _pairs_by_picture(frequencies: Floats) -> Rows:
    """Return the pairs that have similar frequencies apart from their signs, as first * n + second."""
    count = len(frequencies)
    index = _index(np.abs(frequencies[:, 0]))

    def search(number: int, begin: int) -> Rows:
        nearest, least = NEAREST_BY_PICTURE[number > 0], LEAST_PLACED if number else LEAST_AS_THEY_ARE
        likeness, rows = index.search(
            np.abs(frequencies[begin : begin + BLOCK, number]), min(nearest + 1, count)
        )
        query, column = np.nonzero((likeness >= least) & (rows >= 0))
        return _pairs(query + begin, rows[query, column], count)

    keys = [np.empty(0, np.int64)]
    # With threads of its own, a process forked after faiss has used them would wait for them forever.
    with ThreadPoolExecutor(cores(), initializer=faiss.omp_set_num_threads, initargs=(1,)) as executor:
        for begin in range(0, count, BLOCK):
            checkpoint()
            keys += executor.map(search, range(len(PLACINGS)), repeat(begin))
    return _distinct(np.concatenate(keys))


def _index(values: Floats) -> Any:
    """Return a faiss index of values (n, 80) by their product."""
    count, dimensions = values.shape
    flat = faiss.IndexFlatIP(dimensions)
    if count <= EXACT:
        flat.add(values)
        return flat
    lists = LISTS * int(np.sqrt(count))
    index = faiss.IndexIVFFlat(flat, dimensions, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # no warning on stderr
    index.train(values[spread_rows(count, TRAINED_ON * lists)])
    index.add(values)
    index.nprobe = PROBES
    return index


def _pairs(first: Rows, second: NDArray[np.integer[Any]], count: int) -> Rows:
    """Return each pair of different rows once, as smaller * count + larger; -1 is no row."""
    second = second.astype(np.int64)
    real = (second >= 0) & (first != second)
    low, high = np.minimum(first, second)[real], np.maximum(first, second)[real]
    return _distinct(low * count + high)


def _distinct(keys: Rows) -> Rows:
    """Return the keys sorted, each once; np.unique takes longer."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) > 0]
