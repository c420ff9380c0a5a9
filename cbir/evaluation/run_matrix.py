"""A run in memory: the ranked answers to every query, and what the judgements say of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.qrels import Qrels

BLOCK = 256  # queries looked at together: some megabytes

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RunMatrix:
    """places: (q, k) int32 of the candidates, best first; -1 behind the last answer of a query."""

    places: NDArray[np.int32]

    @property
    def depth(self) -> int:
        return int(self.places.shape[1])


@dataclass(frozen=True, eq=False)
class JudgedBlock:
    """The answers to q queries as the measures see them, best first.

    gains: (q, k), 0 where an answer is not relevant and behind the last one. hits: (q, k), gain at least `level`.
    classes: (q, k) of the answers, -1: not judged or behind the last one. query_classes: (q,).
    relevant: (q,) relevant images in the collection, answered or not, at least 1. most_relevant: the largest of
    those numbers among all queries, not only these.
    """

    gains: Whole
    hits: NDArray[np.bool_]
    classes: Whole
    query_classes: Whole
    relevant: Whole
    most_relevant: int


def judged_blocks(answers: RunMatrix, judgements: Qrels) -> Iterator[tuple[slice, JudgedBlock]]:
    """The answers with their judgements, some queries at a time; the slice says which."""
    relevant = judgements.relevant
    gain_of = np.zeros(len(judgements.classes) + 1, np.int64)  # the last one stands for "no answer"
    class_of = np.append(judgements.classes, -1)
    for start in range(0, len(answers.places), BLOCK):
        which = slice(start, min(start + BLOCK, len(answers.places)))
        places = answers.places[which]
        gains = np.empty(places.shape, np.int64)
        for row, query in enumerate(range(which.start, which.stop)):
            gain_of[judgements.places[query]] = judgements.gains[query]
            np.take(gain_of, places[row], out=gains[row], mode="wrap")
            gain_of[judgements.places[query]] = 0
        yield (
            which,
            JudgedBlock(
                gains,
                gains >= judgements.level,
                class_of[places],
                judgements.query_classes[which],
                relevant[which],
                int(relevant.max()),
            ),
        )
