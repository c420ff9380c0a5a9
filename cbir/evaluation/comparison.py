"""Re-rankers against each other: each with its best parameters, and those with a P with every P."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.experiment import PairedDifference, compare_runs
from cbir.evaluation.method_scores import MEASURES, MethodScorer, MethodScores, best_by_map
from cbir.evaluation.methods import Method
from cbir.evaluation.significance import bootstrap_intervals
from cbir.rerank import reranker_class
from cbir.rerank.reranker import POSITIVES

CLASS_SIZES = ((2, 10), (11, 50), (51, 200), (201, None))  # images of a class, as a query sees it

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """members: each re-ranker's trial with its chosen parameters, `none` first; by_p: the same with P given.

    Both on the queries reported on; sizes (q,): images of each query's class, itself among them, its patient's
    other ones not.
    """

    members: dict[str, MethodScores]
    by_p: dict[str, dict[int, MethodScores]]
    sizes: NDArray[np.int64]
    seed: int

    def within(self, least: int, most: int | None) -> "Comparison":
        """The queries whose class has from `least` to `most` images; there may be none."""
        held = (self.sizes >= least) & (self.sizes <= (most or self.sizes.max(initial=0)))
        parts = {
            name: replace(trial, values=trial.values[:, held], milliseconds=trial.milliseconds[held])
            for name, trial in self.members.items()
        }
        return Comparison(parts, {}, self.sizes[held], self.seed)


def compare_methods(
    names: Sequence[str], tuning: MethodScorer, reporting: MethodScorer, seed: int, progress: Progress
) -> Comparison:
    """Choose the parameters of the named re-rankers by mAP on the queries of `tuning`, measure on `reporting`.

    progress: is told in a line what was measured. Raises CollectionBusy.
    """
    members: dict[str, MethodScores] = {}
    by_p: dict[str, dict[int, MethodScores]] = {}
    for name in dict.fromkeys(("none", *names)):
        tried = _try(name, tuning, progress)
        best = best_by_map(tried).method
        of_p = {P: [trial for trial in tried if trial.method.parameters.get("P") == P] for P in POSITIVES}
        wanted = {P: best_by_map(some).method for P, some in of_p.items() if some}
        distinct = {method.name: method for method in (best, *wanted.values())}
        measured = {label: _report(method, reporting, progress) for label, method in distinct.items()}
        members[name] = measured[best.name]
        if wanted:
            by_p[name] = {P: measured[method.name] for P, method in wanted.items()}
    return Comparison(members, by_p, reporting.judgements.relevant + 1, seed)


def _try(name: str, tuning: MethodScorer, progress: Progress) -> list[MethodScores]:
    """Every point of a re-ranker's grid; where there is one alone, it need not be measured."""
    grid = reranker_class(name).tuning_points()
    if len(grid) == 1:
        nothing = np.zeros((len(MEASURES), 1))
        return [MethodScores(_method(name, grid[0]), nothing, nothing[0])]
    found = []
    for number, point in enumerate(grid, start=1):
        trial = tuning.measure(_method(name, point))
        progress(f"choosing {number} of {len(grid)}: {trial.method.name}, mAP {trial.mean('map'):.4f}")
        found.append(trial)
    return found


def _report(method: Method, reporting: MethodScorer, progress: Progress) -> MethodScores:
    trial = reporting.measure(method)
    progress(f"measured {method.name}: mAP {trial.mean('map'):.4f}")
    return trial


def _method(name: str, point: dict[str, Any]) -> Method:
    settings = [f":{parameter}={value:g}" for parameter, value in point.items()]
    return Method(name + "".join(settings), name, point)


def summarise_scores(trials: dict[str, MethodScores], seed: int) -> dict[str, dict[str, Any]]:
    """Of each trial its figures with 95 % intervals, and its comparison with the first one, for JSON.

    p_holm is corrected for all the trials compared here.
    """
    values = np.array([trial.values for trial in trials.values()])
    r, m, q = values.shape
    low, high = (ends.reshape(r, m) for ends in bootstrap_intervals(values.reshape(r * m, q), seed=seed))
    compared = zip(trials.items(), compare_runs(values, seed), low, high, strict=True)
    return {name: _facts(trial, against, *ends) for (name, trial), against, *ends in compared}


def _facts(
    trial: MethodScores, against: PairedDifference | None, low: NDArray[np.float64], high: NDArray[np.float64]
) -> dict[str, Any]:
    means = {measure: trial.mean(measure) for measure in MEASURES}
    found: dict[str, Any] = {
        "parameters": trial.method.parameters, "scope": trial.scope, "notes": trial.notes,
        **{measure: mean for measure, mean in means.items() if not measure.startswith("ip_")},
        "ip": {
            measure.removeprefix("ip_"): mean for measure, mean in means.items() if measure.startswith("ip_")
        },
        "ms": float(np.median(trial.milliseconds)),
        "intervals": {
            measure: [float(low[m]), float(high[m])] for m, measure in enumerate(MEASURES)
        },
    }  # fmt: skip
    if against:
        found["against_none"] = {
            measure: {
                "difference": float(against.difference[m]), "p": float(against.p[m]),
                "p_holm": float(against.corrected[m]),
            } for m, measure in enumerate(MEASURES)
        }  # fmt: skip
    return found


def lead_over_rival(contest: Comparison, own: str, ours: Sequence[str]) -> dict[str, Any] | None:
    """`own` minus no re-ranking, and minus the best by mAP of all that are not `ours`, with 95 % intervals.

    The rival is the best on the very queries that are reported, which is hard on `own`. None where there is no
    such member.
    """
    rivals = {name: trial for name, trial in contest.members.items() if name not in ours}
    if own not in contest.members or not rivals:
        return None
    rival = max(rivals, key=lambda name: rivals[name].mean("map"))
    return {
        "method": own, "rival": rival,
        "minus_rival": _difference(contest, own, rival), "minus_none": _difference(contest, own, "none"),
    }  # fmt: skip


def _difference(contest: Comparison, own: str, other: str) -> dict[str, dict[str, float]]:
    differences = contest.members[own].values - contest.members[other].values
    low, high = bootstrap_intervals(differences, seed=contest.seed)
    return {
        measure: {"mean": float(differences[m].mean()), "low": float(low[m]), "high": float(high[m])}
        for m, measure in enumerate(MEASURES)
    }
