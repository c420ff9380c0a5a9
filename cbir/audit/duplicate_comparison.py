"""Comparison of candidate pairs on all cores: few by threads, many by processes."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.audit.duplicate_pictures import PictureReader, Pictures, Squares
from cbir.audit.duplicate_proof import Proof, prove
from cbir.audit.pair_orientation import PlacedPairs, list_pairs
from cbir.cancellation import checkpoint
from cbir.errors import CbirError
from cbir.ingest.process_pool import ProcessPool, WorkerDied, use_one_thread_silently
from cbir.store import Collection
from cbir.threads import cores

TOGETHER = 256  # pairs that a thread or process compares one after the other
AHEAD = 4  # such blocks that wait, for each core
# Threads hold Python's lock for almost half of a comparison; processes take two seconds to start.
LEAST_FOR_PROCESSES = 20_000  # pairs

Proved = tuple[tuple[int, int], Proof]  # rows of a pair of duplicates, and why


class Block(NamedTuple):
    """Pairs to compare, whose rows are those of `squares`. rows: (n,) int64, which these are among all."""

    pairs: PlacedPairs
    squares: Squares
    rows: NDArray[np.int64]


def compare_pairs(
    pictures: Pictures, candidates: PlacedPairs, progress: Callable[[int, int], None]
) -> Iterator[Proved]:
    """Yield the pairs that are duplicates, in their order.

    Parameters
    ----------
    pictures : Pictures
    candidates : PlacedPairs
        Of their rows.
    progress : callable
        Called with pairs done and in all.

    Raises
    ------
    CbirError
        If a process dies.
    """
    count = len(candidates.pairs)
    running = deque[tuple[int, Future[list[Proved]]]]()
    starts = iter(range(0, count, TOGETHER))
    with _comparer(pictures, count) as submit:
        for start in starts:
            end = min(start + TOGETHER, count)
            running.append((end, submit(PlacedPairs(*(values[start:end] for values in candidates)))))
            if len(running) > AHEAD * cores():
                yield from _finish(running, progress, count)
        while running:
            yield from _finish(running, progress, count)


def _finish(
    running: deque[tuple[int, Future[list[Proved]]]], progress: Callable[[int, int], None], count: int
) -> list[Proved]:
    """Wait for the first block."""
    checkpoint()
    end, future = running.popleft()
    try:
        proved = future.result()
    except WorkerDied as error:
        raise CbirError(
            "a process that compares pictures died, perhaps out of memory; run the audit again when more is free"
        ) from error
    progress(end, count)
    return proved


@contextmanager
def _comparer(pictures: Pictures, count: int) -> Iterator[Callable[[PlacedPairs], Future[list[Proved]]]]:
    """Yield what starts to compare a block of so many pairs in all."""
    if count < LEAST_FOR_PROCESSES or cores() == 1:
        with ThreadPoolExecutor(cores()) as executor:
            yield lambda pairs: executor.submit(_compare, pictures, pairs)
        return
    prepare = partial(_open_reader, pictures.reader.collection.folder, pictures.reader.most)
    with ProcessPool(_compare_block, cores(), prepare) as pool:
        yield lambda pairs: pool.submit(_cut_out(pictures.squares, pairs))


def _compare(pictures: Pictures, pairs: PlacedPairs) -> list[Proved]:
    proofs = ((pair, prove(pictures, pair)) for pair in list_pairs(pairs))
    return [((pair.first, pair.second), proof) for pair, proof in proofs if proof]


def _cut_out(squares: Squares, pairs: PlacedPairs) -> Block:
    """Return pairs with the squares that they need."""
    rows = np.unique(pairs.pairs)
    return Block(pairs._replace(pairs=np.searchsorted(rows, pairs.pairs)), squares.of(rows), rows)


_reader: PictureReader | None = None


def _open_reader(folder: Path, most: int) -> None:
    """Initialise a process."""
    global _reader
    use_one_thread_silently()
    _reader = PictureReader(Collection(folder), most)


def _compare_block(block: Block) -> list[Proved]:
    assert _reader is not None, "the initializer ran"
    proved = _compare(Pictures(_reader, block.squares), block.pairs)
    return [((int(block.rows[first]), int(block.rows[second])), proof) for (first, second), proof in proved]
