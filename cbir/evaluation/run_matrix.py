"""Runs in memory: the ranked answers to every query, and their relevance."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.qrels import Qrels

BLOCK = 256  # queries at a time: some megabytes

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RunMatrix:
    """Answers to q queries.

    positions: (q, k) int32 of candidates, best first; -1 after the last answer of a query.
    """

    positions: NDArray[np.int32]

    @property
    def depth(self) -> int:
        """Number of answers to each query, k."""
        return int(self.positions.shape[1])


@dataclass(frozen=True, eq=False)
class JudgedBlock:
    """Relevance of the answers to q queries, best first.

    gains: (q, k), 0 if an answer is not relevant and after the last one. hits: (q, k), gain at least the level.
    classes: (q, k) of the answers, -1: not judged or after the last one. query_classes: (q,).
    relevant: (q,) number of relevant images in the collection, retrieved or not, at least 1. most_relevant: the
    largest such number of all queries of the run.
    """

    gains: Ints
    hits: NDArray[np.bool_]
    classes: Ints
    query_classes: Ints
    relevant: Ints
    most_relevant: int


def judged_blocks(run: RunMatrix, qrels: Qrels) -> Iterator[tuple[slice, JudgedBlock]]:
    """Yield the relevance of the answers of `run` by `qrels`, a slice of the queries at a time."""
    relevant = qrels.relevant
    gain_of = np.zeros(len(qrels.classes) + 1, np.int64)  # the last element is for "no answer"
    class_of = np.append(qrels.classes, -1)
    for start in range(0, len(run.positions), BLOCK):
        queries = slice(start, min(start + BLOCK, len(run.positions)))
        positions = run.positions[queries]
        gains = np.empty(positions.shape, np.int64)
        for row, query in enumerate(range(queries.start, queries.stop)):
            gain_of[qrels.positions[query]] = qrels.gains[query]
            np.take(gain_of, positions[row], out=gains[row], mode="wrap")
            gain_of[qrels.positions[query]] = 0
        yield (
            queries,
            JudgedBlock(
                gains,
                gains >= qrels.level,
                class_of[positions],
                qrels.query_classes[queries],
                relevant[queries],
                int(relevant.max()),
            ),
        )
