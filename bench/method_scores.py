"""Scores of methods in memory, over complete rankings: many settings on the same queries, without run files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.rank_metrics import average_precision, interpolated_precision
from cbir.evaluation.qrels import Qrels, RunMatrix, judged_blocks
from cbir.evaluation.relevance import Candidates
from cbir.evaluation.runs import Method, RunNotes, SearchProtocol
from cbir.evaluation.search_pool import SearchPool

RECALLS = (0.2, 0.4, 0.6, 0.8)
MEASURES = ("map", "p_at_1", "p_at_10", *(f"ip_{recall}" for recall in RECALLS))


@dataclass(frozen=True, eq=False)
class MethodScores:
    """Scores of one method.

    values: (m, q) of `MEASURES` for each query. milliseconds: (q,) of each search. scope: images that were
    re-ranked. notes: remarks of the re-ranker.
    """

    method: Method
    values: NDArray[np.float64]
    milliseconds: NDArray[np.float64]
    scope: str = ""
    notes: Sequence[str] = ()

    def mean(self, measure: str) -> float:
        """Return the mean over the queries of one of `MEASURES`."""
        return float(self.values[MEASURES.index(measure)].mean())


@dataclass(frozen=True, eq=False)
class MethodScorer:
    """Scores methods on the queries of `qrels`: leave-one-out, without images of the query's own patient."""

    candidates: Candidates
    qrels: Qrels
    pool: SearchPool

    def score(self, method: Method, progress: Callable[[int], None] = lambda count: None) -> MethodScores:
        """Run every query; `progress` gets the number of new answers. Raises CollectionBusy."""
        protocol = SearchProtocol(len(self.candidates))
        tasks = [protocol.task(query, method) for query in self.qrels.queries]
        positions = np.full((len(tasks), len(self.candidates)), -1, np.int32)
        milliseconds, notes = np.empty(len(tasks)), RunNotes()
        for row, result in enumerate(self.pool.search(tasks, self.candidates.generation)):
            positions[row, : len(result.numbers)] = self.candidates.positions(result.numbers)
            milliseconds[row] = result.milliseconds
            notes.add(result)
            progress(1)
        values = score_matrix(RunMatrix(positions), self.qrels)
        return MethodScores(method, values, milliseconds, notes.scope, sorted(notes.notes))


def score_matrix(run: RunMatrix, qrels: Qrels) -> NDArray[np.float64]:
    """Return `MEASURES` (m, q) of each query of `run` by `qrels`."""
    values = np.empty((len(MEASURES), len(run.positions)))
    for queries, block in judged_blocks(run, qrels):
        values[0, queries] = average_precision(block.hits, block.relevant)
        values[1, queries] = block.hits[:, :1].sum(axis=1)
        values[2, queries] = block.hits[:, :10].sum(axis=1) / 10
        values[3:, queries] = interpolated_precision(block, RECALLS).T
    return values


def best_by_map(scores: Sequence[MethodScores]) -> MethodScores:
    """Return the scores of largest mAP; of equal ones the first."""
    return max(scores, key=lambda of_method: of_method.mean("map"))
