"""Comparison of re-rankers, each with its best parameters, and those with a parameter P with every P."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.experiment import PairedDifference, compare_runs
from cbir.evaluation.qrels import Qrels, RunMatrix, judged_blocks
from cbir.evaluation.rank_metrics import average_precision, interpolated_precision
from cbir.evaluation.relevance import Candidates
from cbir.evaluation.runs import Method, RunNotes, SearchProtocol
from cbir.evaluation.search_pool import SearchPool
from cbir.evaluation.significance import bootstrap_intervals
from cbir.rerank import reranker_class
from cbir.rerank.reranker import POSITIVES

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


CLASS_SIZES = ((2, 10), (11, 50), (51, 200), (201, None))  # images of a class, as a query sees it

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several re-rankers on the same queries.

    members: scores of each re-ranker with its best parameters, `none` first. by_p: the same for each P. sizes: (q,)
    images of each query's class, including itself and excluding others of its patient.
    """

    members: dict[str, MethodScores]
    by_p: dict[str, dict[int, MethodScores]]
    sizes: NDArray[np.int64]
    seed: int

    def within(self, smallest: int, largest: int | None) -> "Comparison":
        """Return the part of queries whose class has from `smallest` to `largest` images; it may be empty."""
        mask = (self.sizes >= smallest) & (self.sizes <= (largest or self.sizes.max(initial=0)))
        parts = {
            name: replace(scores, values=scores.values[:, mask], milliseconds=scores.milliseconds[mask])
            for name, scores in self.members.items()
        }
        return Comparison(parts, {}, self.sizes[mask], self.seed)


def compare_methods(
    names: Sequence[str], tuning: MethodScorer, reporting: MethodScorer, seed: int, progress: Progress
) -> Comparison:
    """Choose the parameters of re-rankers by mAP on one set of queries, and score them on another.

    Parameters
    ----------
    names : sequence of str
        Re-rankers; `none` is always among them.
    tuning, reporting : MethodScorer
        Queries to choose parameters with, and to report on.
    seed : int
        Of the bootstrap intervals.
    progress : callable
        Gets a line for each score.

    Raises
    ------
    CollectionBusy
        If the collection changes meanwhile.
    """
    members: dict[str, MethodScores] = {}
    by_p: dict[str, dict[int, MethodScores]] = {}
    for name in dict.fromkeys(("none", *names)):
        tried = _score_grid(name, tuning, progress)
        best = best_by_map(tried).method
        of_p = {P: [scores for scores in tried if scores.method.parameters.get("P") == P] for P in POSITIVES}
        best_of_p = {P: best_by_map(some).method for P, some in of_p.items() if some}
        distinct = {method.name: method for method in (best, *best_of_p.values())}
        reported = {label: _report(method, reporting, progress) for label, method in distinct.items()}
        members[name] = reported[best.name]
        if best_of_p:
            by_p[name] = {P: reported[method.name] for P, method in best_of_p.items()}
    return Comparison(members, by_p, reporting.qrels.relevant + 1, seed)


def _score_grid(name: str, tuning: MethodScorer, progress: Progress) -> list[MethodScores]:
    """Score every point of a re-ranker's grid; a single point needs no scores."""
    grid = reranker_class(name).tuning_points()
    if len(grid) == 1:
        nothing = np.zeros((len(MEASURES), 1))
        return [MethodScores(_method(name, grid[0]), nothing, nothing[0])]
    tried = []
    for number, point in enumerate(grid, start=1):
        scores = tuning.score(_method(name, point))
        progress(f"choosing {number} of {len(grid)}: {scores.method.name}, mAP {scores.mean('map'):.4f}")
        tried.append(scores)
    return tried


def _report(method: Method, reporting: MethodScorer, progress: Progress) -> MethodScores:
    scores = reporting.score(method)
    progress(f"measured {method.name}: mAP {scores.mean('map'):.4f}")
    return scores


def _method(name: str, point: dict[str, Any]) -> Method:
    settings = [f":{parameter}={value:g}" for parameter, value in point.items()]
    return Method(name + "".join(settings), name, point)


def summarise_scores(members: dict[str, MethodScores], seed: int) -> dict[str, dict[str, Any]]:
    """Return figures with 95 % intervals for JSON, and the comparison of each of `members` with the first.

    p_holm is corrected for all members. `seed` is that of the bootstrap.
    """
    values = np.array([scores.values for scores in members.values()])
    r, m, q = values.shape
    low, high = (ends.reshape(r, m) for ends in bootstrap_intervals(values.reshape(r * m, q), seed=seed))
    compared = zip(members.items(), compare_runs(values, seed), low, high, strict=True)
    return {name: _summarise(scores, difference, *ends) for (name, scores), difference, *ends in compared}


def _summarise(
    scores: MethodScores,
    difference: PairedDifference | None,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> dict[str, Any]:
    means = {measure: scores.mean(measure) for measure in MEASURES}
    summary: dict[str, Any] = {
        "parameters": scores.method.parameters, "scope": scores.scope, "notes": scores.notes,
        **{measure: mean for measure, mean in means.items() if not measure.startswith("ip_")},
        "ip": {
            measure.removeprefix("ip_"): mean for measure, mean in means.items() if measure.startswith("ip_")
        },
        "ms": float(np.median(scores.milliseconds)),
        "intervals": {
            measure: [float(low[m]), float(high[m])] for m, measure in enumerate(MEASURES)
        },
    }  # fmt: skip
    if difference:
        summary["against_none"] = {
            measure: {
                "difference": float(difference.mean[m]), "p": float(difference.p[m]),
                "p_holm": float(difference.p_holm[m]),
            } for m, measure in enumerate(MEASURES)
        }  # fmt: skip
    return summary


def lead_over_rival(comparison: Comparison, method: str, excluded: Sequence[str]) -> dict[str, Any] | None:
    """Return the lead of a method over no re-ranking and over its best rival, with 95 % intervals.

    The rival is the best by mAP on the very queries that are reported, which is hard on the method.

    Parameters
    ----------
    comparison : Comparison
    method : str
        A member.
    excluded : sequence of str
        Members that do not count as rivals.

    Returns
    -------
    dict or None
        None if `method` is not a member or has no rival.
    """
    rivals = {name: scores for name, scores in comparison.members.items() if name not in excluded}
    if method not in comparison.members or not rivals:
        return None
    rival = max(rivals, key=lambda name: rivals[name].mean("map"))
    return {
        "method": method, "rival": rival, "minus_rival": _difference(comparison, method, rival),
        "minus_none": _difference(comparison, method, "none"),
    }  # fmt: skip


def _difference(comparison: Comparison, method: str, other: str) -> dict[str, dict[str, float]]:
    differences = comparison.members[method].values - comparison.members[other].values
    low, high = bootstrap_intervals(differences, seed=comparison.seed)
    return {
        measure: {"mean": float(differences[m].mean()), "low": float(low[m]), "high": float(high[m])}
        for m, measure in enumerate(MEASURES)
    }
