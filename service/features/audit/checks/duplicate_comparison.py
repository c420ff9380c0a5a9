"""Comparison of candidate pairs, block by block."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.features.audit.checks.duplicate_pictures import PictureReader, Pictures, Squares
from service.features.audit.checks.duplicate_proof import Proof, prove
from service.features.audit.checks.pair_orientation import PlacedPairs, list_pairs
from service.features.audit.checks.picture_workers import PictureWorkers

TOGETHER = 256  # pairs that a thread or process compares one after the other

Proved = tuple[tuple[int, int], Proof]  # rows of a pair of duplicates, and why


class PairBlock(NamedTuple):
    """Pairs to compare, as rows of `squares` (n of them). rows: (n,) int64, their rows among all images."""

    pairs: PlacedPairs
    squares: Squares
    rows: NDArray[np.int64]


def compare_pairs(
    workers: PictureWorkers,
    squares: Squares,
    candidates: PlacedPairs,
    progress: Callable[[int, int], None],
) -> Iterator[Proved]:
    """Yield the pairs that are duplicates, in their order.

    Parameters
    ----------
    workers : PictureWorkers
    squares : Squares
    candidates : PlacedPairs
        Of their rows.
    progress : callable
        Called with pairs done and in all.
    """
    count = len(candidates.pairs)
    starts = range(0, count, TOGETHER)
    blocks = (_cut_out(squares, candidates, slice(start, start + TOGETHER)) for start in starts)
    for start, proved in zip(starts, workers.map(_compare, blocks), strict=True):
        progress(min(start + TOGETHER, count), count)
        yield from proved


def _cut_out(squares: Squares, candidates: PlacedPairs, part: slice) -> PairBlock:
    """Return some pairs with the squares that they need."""
    pairs = PlacedPairs._make(values[part] for values in candidates)
    rows = np.unique(pairs.pairs)
    return PairBlock(pairs._replace(pairs=np.searchsorted(rows, pairs.pairs)), squares.of(rows), rows)


def _compare(reader: PictureReader, block: PairBlock) -> list[Proved]:
    records = reader.collection.records(block.squares.numbers.tolist())
    pictures, rows = Pictures(reader, block.squares, records), block.rows.tolist()
    proofs = ((pair, prove(pictures, pair)) for pair in list_pairs(block.pairs))
    return [((rows[pair.first], rows[pair.second]), proof) for pair, proof in proofs if proof]
