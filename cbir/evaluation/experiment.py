"""One evaluation from plan to figures: queries, judgements, runs, measures and how sure they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.candidates import Candidates, select_candidates
from cbir.evaluation.methods import Method
from cbir.evaluation.metrics.anmrr import nmrr_depth
from cbir.evaluation.metrics.interpolated_precision import interpolated_precision
from cbir.evaluation.metrics.named_metrics import Metric, check_metric_gains, compute_metrics
from cbir.evaluation.qrels import Qrels, build_qrels
from cbir.evaluation.query_images import (
    EvalQuery,
    leave_one_out,
    queries_from_files,
    read_query_list,
    sample_queries,
)
from cbir.evaluation.relevance import Relevance
from cbir.evaluation.run_matrix import RunMatrix, judged_blocks
from cbir.evaluation.runs import EvalRun, RunWriter, SearchProtocol
from cbir.evaluation.search_pool import SearchPool, open_search_pool
from cbir.evaluation.significance import bootstrap_intervals, randomisation_test
from cbir.settings import Settings
from cbir.store import Collection

RECALLS = tuple(step / 20 for step in range(21))  # of the precision-recall curves
TOP = 10  # answers among which unjudged ones are counted

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class EvalPlan:
    """What to evaluate.

    queries: a csv of files, None for leave-one-out. sample, seed: how many queries are drawn, evenly from the
    classes; None: all. depth: answers to each query that are kept, 0 for all. level: see `judge`.
    """

    collection: Path
    queries: Path | None
    relevance: Relevance
    methods: Sequence[Method]
    measures: Sequence[Metric]
    depth: int = 1000
    sample: int | None = None
    seed: int = 0
    where: tuple[str, ...] = ()
    same_patient: bool = False
    level: int | None = None
    jobs: int = 1


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """A run against the first one, each (m,): mean difference, p of the randomisation test, p after Holm."""

    difference: NDArray[np.float64]
    p: NDArray[np.float64]
    corrected: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EvalResult:
    """What came out, for r runs, m measures and q queries.

    collection: facts of `Collection.info`. asked: queries there were, before a sample or a lack of labels.
    values: (r, m, q). means, low, high: (r, m), with 95 % bootstrap intervals. against: a run's comparison with the
    first, None for that itself. curves: (r, 21) interpolated precision, mean over the queries.
    unjudged: (r,) share of the first ten answers without a judgement. shallow: queries for which the runs do not
    reach as deep as ANMRR looks.
    """

    plan: EvalPlan
    collection: dict[str, Any]
    candidates: Candidates
    asked: int
    judgements: Qrels
    runs: Sequence[EvalRun]
    values: NDArray[np.float64]
    means: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    against: Sequence[PairedDifference | None]
    curves: NDArray[np.float64]
    unjudged: NDArray[np.float64]
    shallow: int
    depth: int


def run_evaluation(plan: EvalPlan, settings: Settings, folder: Path, progress: Progress) -> EvalResult:
    """Carry out a plan; run files go to `folder`. progress: is told stage, steps done and steps in all.

    Raises InvalidInput, UnreadableImage, NotFound or CollectionBusy.
    """
    with (
        Collection(plan.collection) as collection,
        open_search_pool(plan.collection, settings, plan.jobs) as pool,
    ):
        among = select_candidates(collection, plan.where)
        asked, queries = _queries(plan, collection, among, pool, progress)
        judgements = build_qrels(
            among, queries, plan.relevance, level=plan.level, same_patient=plan.same_patient
        )
        check_metric_gains(plan.measures, max(judgements.spread, 1))
        terms = SearchProtocol(plan.depth or max(len(among), 1), plan.where, plan.same_patient)
        folder.mkdir(parents=True, exist_ok=True)
        runner = RunWriter(collection, among, judgements.queries, terms, settings, folder)
        runs = [
            runner.run(method, pool, _counter(method.name, judgements, progress)) for method in plan.methods
        ]
        facts = collection.info()
    progress("measures", 0, 1)
    evaluation = _measure(plan, facts, among, asked, judgements, runs)
    progress("measures", 1, 1)
    return evaluation


def _counter(stage: str, judgements: Qrels, progress: Progress) -> Callable[[int], None]:
    done, total = 0, len(judgements.queries)

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(stage, done, total)

    return count


def _queries(
    plan: EvalPlan, collection: Collection, among: Candidates, pool: SearchPool, progress: Progress
) -> tuple[int, list[EvalQuery]]:
    """How many queries there are, and those to run."""
    if plan.queries is None:
        labels = [record.labels for record in among.records]
        return len(labels), leave_one_out(
            among, sample_queries(labels, plan.relevance, plan.sample, plan.seed)
        )
    entries = read_query_list(plan.queries)
    chosen = sample_queries([said for _, said in entries], plan.relevance, plan.sample, plan.seed)
    described = []
    for one in pool.describe([entries[row][0] for row in chosen]):
        described.append(one)
        progress("query images", len(described), len(chosen))
    return len(entries), queries_from_files(entries, chosen, described, collection.secret)


def _measure(
    plan: EvalPlan,
    facts: dict[str, Any],
    among: Candidates,
    asked: int,
    judgements: Qrels,
    runs: Sequence[EvalRun],
) -> EvalResult:
    values = np.array([compute_metrics(plan.measures, run.answers, judgements) for run in runs])
    r, m, q = values.shape
    low, high = bootstrap_intervals(values.reshape(r * m, q), seed=plan.seed)
    answers = runs[0].answers
    deepest = nmrr_depth(judgements.relevant)
    within = min(answers.depth, len(among) - 1)
    return EvalResult(
        plan=plan, collection=facts, candidates=among, asked=asked, judgements=judgements, runs=runs,
        values=values, means=values.mean(axis=2), low=low.reshape(r, m), high=high.reshape(r, m),
        against=compare_runs(values, plan.seed),
        curves=np.array([_curve(run.answers, judgements) for run in runs]),
        unjudged=np.array([_unjudged(run.answers, judgements) for run in runs]),
        shallow=int((np.minimum(deepest, len(among) - 1) > within).sum()), depth=answers.depth,
    )  # fmt: skip


def compare_runs(values: NDArray[np.float64], seed: int) -> list[PairedDifference | None]:
    """Compare each run with the first; `values` are (r, m, q), and None stands for the first itself.

    p values are corrected for the runs compared, metric by metric.
    """
    from statsmodels.stats.multitest import multipletests

    p = np.array([randomisation_test(run - values[0], seed=seed) for run in values[1:]])
    if not len(p):
        return [None]
    corrected = np.array([multipletests(column, method="holm")[1] for column in p.T]).T
    compared = zip(values[1:], p, corrected, strict=True)
    return [None, *(PairedDifference((run - values[0]).mean(axis=1), *both) for run, *both in compared)]


def _curve(answers: RunMatrix, judgements: Qrels) -> NDArray[np.float64]:
    total = np.zeros(len(RECALLS))
    for _, judged in judged_blocks(answers, judgements):
        total += interpolated_precision(judged, RECALLS).sum(axis=0)
    return total / len(answers.places)


def _unjudged(answers: RunMatrix, judgements: Qrels) -> float:
    first = answers.places[:, :TOP]
    given = first >= 0
    return float(((judgements.classes[first] < 0) & given).sum() / max(given.sum(), 1))
