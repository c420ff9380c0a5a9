"""Methods measured in memory, over all answers: many settings on the same queries, without run files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.candidates import Candidates
from cbir.evaluation.methods import Method
from cbir.evaluation.metrics.average_precision import average_precision
from cbir.evaluation.metrics.interpolated_precision import interpolated_precision
from cbir.evaluation.qrels import Qrels
from cbir.evaluation.run_matrix import RunMatrix, judged_blocks
from cbir.evaluation.runs import RunNotes, SearchProtocol
from cbir.evaluation.search_pool import SearchPool

RECALLS = (0.2, 0.4, 0.6, 0.8)
MEASURES = ("map", "p_at_1", "p_at_10", *(f"ip_{recall}" for recall in RECALLS))


@dataclass(frozen=True, eq=False)
class MethodScores:
    """A method's values (m, q) of `MEASURES` for each query, and the milliseconds (q,) each took to answer.

    scope: what was re-ranked. notes: what the re-ranker had to say of any query.
    """

    method: Method
    values: NDArray[np.float64]
    milliseconds: NDArray[np.float64]
    scope: str = ""
    notes: Sequence[str] = ()

    def mean(self, measure: str) -> float:
        """Mean over the queries of one of `MEASURES`."""
        return float(self.values[MEASURES.index(measure)].mean())


@dataclass(frozen=True, eq=False)
class MethodScorer:
    """The queries of `judgements`, leave-one-out among all candidates, without the query's own patient."""

    candidates: Candidates
    judgements: Qrels
    workers: SearchPool

    def measure(self, method: Method, progress: Callable[[int], None] = lambda more: None) -> MethodScores:
        """Answer every query; `progress` is told how many more are answered. Raises CollectionBusy."""
        terms = SearchProtocol(len(self.candidates))
        asked = [terms.ask(query, method) for query in self.judgements.queries]
        places = np.full((len(asked), len(self.candidates)), -1, np.int32)
        milliseconds, notices = np.empty(len(asked)), RunNotes()
        for number, found in enumerate(self.workers.search(asked, self.candidates.generation)):
            places[number, : len(found.numbers)] = self.candidates.places(found.numbers)
            milliseconds[number] = found.milliseconds
            notices.take(found)
            progress(1)
        measured = score_matrix(RunMatrix(places), self.judgements)
        return MethodScores(method, measured, milliseconds, notices.scope, sorted(notices.notes))


def score_matrix(answers: RunMatrix, judgements: Qrels) -> NDArray[np.float64]:
    """`MEASURES` (m, q) of each query."""
    found = np.empty((len(MEASURES), len(answers.places)))
    for which, judged in judged_blocks(answers, judgements):
        found[0, which] = average_precision(judged.hits, judged.relevant)
        found[1, which] = judged.hits[:, :1].sum(axis=1)
        found[2, which] = judged.hits[:, :10].sum(axis=1) / 10
        found[3:, which] = interpolated_precision(judged, RECALLS).T
    return found


def best_by_map(trials: Sequence[MethodScores]) -> MethodScores:
    """The trial of largest mAP; of equal ones the first."""
    return max(trials, key=lambda trial: trial.mean("map"))
