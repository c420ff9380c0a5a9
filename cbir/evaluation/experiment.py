"""One evaluation from plan to results: queries, qrels, runs, metrics and their significance."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.named_metrics import Metric, check_metric_gains, compute_metrics
from cbir.evaluation.qrels import (
    EvalQuery,
    Qrels,
    RunMatrix,
    build_qrels,
    judged_blocks,
    leave_one_out,
    matching_entries,
    queries_from_files,
    read_query_list,
    sample_queries,
)
from cbir.evaluation.rank_metrics import interpolated_precision, nmrr_depth
from cbir.evaluation.relevance import Candidates, Relevance, select_candidates
from cbir.evaluation.runs import EvalRun, Method, RunWriter, SearchProtocol, long_run_name, read_external_run
from cbir.evaluation.search_pool import SearchPool, open_search_pool
from cbir.evaluation.significance import assign_folds, bootstrap_intervals, fold_means, randomisation_test
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.files import private_folder

RECALLS = tuple(step / 20 for step in range(21))  # of the precision-recall curves
UNJUDGED_DEPTH = 10  # answers among which unjudged ones are counted

Progress = Callable[[str, int, int], None]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvalPlan:
    """Settings of an evaluation.

    queries: a csv of files, None for leave-one-out. sample, seed: number of queries drawn evenly from the classes;
    None: all. depth: answers to each query, 0 for all. level: see `build_qrels`. queries_where: conditions on the
    queries; with any of them, images of the collection are queries even if `where` keeps them from the answers.
    run_files: further runs, read from files. folds: number of folds of the queries, 0 for none.
    """

    collection: Path
    queries: Path | None
    relevance: Relevance
    methods: Sequence[Method]
    metrics: Sequence[Metric]
    depth: int = 1000
    sample: int | None = None
    seed: int = 0
    where: tuple[str, ...] = ()
    same_patient: bool = False
    level: int | None = None
    jobs: int = 1
    queries_where: tuple[str, ...] = ()
    run_files: tuple[Path, ...] = ()
    folds: int = 0


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """A run against the first, each (m,): mean difference, p of the randomisation test, p after Holm."""

    mean: Floats
    p: Floats
    p_holm: Floats


@dataclass(frozen=True, eq=False)
class EvalResult:
    """Results for r runs, m metrics and q queries.

    collection: facts of `Collection.info`. query_count: queries before a sample or a lack of labels.
    values: (r, m, q). means, low, high: (r, m), with 95 % bootstrap intervals. differences: of each run from the
    first, None for that itself. curves: (r, 21) interpolated precision, mean over the queries.
    unjudged: (r,) share of the first ten answers without a judgement. shallow: queries for which the runs are
    shallower than ANMRR needs. by_fold: (r, m, f) means over the queries of each fold, None without folds.
    """

    plan: EvalPlan
    collection: dict[str, Any]
    candidates: Candidates
    query_count: int
    qrels: Qrels
    runs: Sequence[EvalRun]
    values: Floats
    means: Floats
    low: Floats
    high: Floats
    differences: Sequence[PairedDifference | None]
    curves: Floats
    unjudged: Floats
    shallow: int
    depth: int
    by_fold: Floats | None = None


def run_evaluation(plan: EvalPlan, settings: Settings, folder: Path, progress: Progress) -> EvalResult:
    """Carry out a plan.

    Parameters
    ----------
    plan : EvalPlan
    settings : Settings
        Of the searches.
    folder : Path
        For the run files.
    progress : callable
        Gets the stage, steps done and steps in all.

    Raises
    ------
    InvalidInput, UnreadableImage, NotFound, CollectionBusy
    """
    with (
        Collection(plan.collection) as collection,
        open_search_pool(plan.collection, settings, plan.jobs) as pool,
    ):
        candidates = select_candidates(collection, plan.where)
        query_count, queries = _find_queries(plan, collection, candidates, pool, progress)
        qrels = build_qrels(
            candidates, queries, plan.relevance, level=plan.level, same_patient=plan.same_patient
        )
        check_metric_gains(plan.metrics, max(qrels.spread, 1))
        folds = (
            assign_folds(qrels.queries, qrels.query_classes, plan.folds, plan.seed) if plan.folds else None
        )
        protocol = SearchProtocol(plan.depth or max(len(candidates), 1), plan.where, plan.same_patient)
        external = _distinct_names(
            plan, [read_external_run(path, candidates, qrels.queries, protocol) for path in plan.run_files]
        )
        private_folder(folder)
        writer = RunWriter(collection, candidates, qrels.queries, protocol, settings, folder)
        runs = [writer.run(method, pool, _counter(method.name, qrels, progress)) for method in plan.methods]
        facts = collection.info()
    progress("measures", 0, 1)
    result = _compute_result(plan, facts, candidates, query_count, qrels, [*runs, *external])
    if folds is not None:
        result = replace(result, by_fold=fold_means(result.values, folds))
    progress("measures", 1, 1)
    return result


def _distinct_names(plan: EvalPlan, external: Sequence[EvalRun]) -> list[EvalRun]:
    """Return the runs of files, those that are named like another run by their folder too."""
    counts = Counter(run.name for run in [*plan.methods, *(run.method for run in external)])
    runs = [
        replace(run, method=replace(run.method, name=long_run_name(path)))
        if counts[run.method.name] > 1
        else run
        for path, run in zip(plan.run_files, external, strict=True)
    ]
    counts = Counter(run.name for run in [*plan.methods, *(run.method for run in runs)])
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise InvalidInput(f"two runs are named {repeated[0]}; rename the run file")
    return runs


def _counter(stage: str, qrels: Qrels, progress: Progress) -> Callable[[int], None]:
    done, total = 0, len(qrels.queries)

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(stage, done, total)

    return count


def _find_queries(
    plan: EvalPlan, collection: Collection, candidates: Candidates, pool: SearchPool, progress: Progress
) -> tuple[int, list[EvalQuery]]:
    """Return the number of all queries, and the queries to run."""
    if plan.queries is None:
        if plan.queries_where:
            candidates = select_candidates(collection, plan.queries_where)
        # By picture: the order of indexing differs between collections of the same files.
        records = candidates.records
        order = sorted(range(len(records)), key=lambda position: records[position].image_id)
        labels = [records[position].labels for position in order]
        sample = sample_queries(labels, plan.relevance, plan.sample, plan.seed)
        return len(labels), leave_one_out(candidates, sorted(order[index] for index in sample))
    entries = read_query_list(plan.queries)
    matching = matching_entries(entries, plan.queries_where, plan.queries)
    sample = sample_queries([entries[row][1] for row in matching], plan.relevance, plan.sample, plan.seed)
    rows = [matching[index] for index in sample]
    described = []
    for file in pool.describe([entries[row][0] for row in rows]):
        described.append(file)
        progress("query images", len(described), len(rows))
    return len(matching), queries_from_files(entries, rows, described, collection.secret)


def _compute_result(
    plan: EvalPlan,
    facts: dict[str, Any],
    candidates: Candidates,
    query_count: int,
    qrels: Qrels,
    runs: Sequence[EvalRun],
) -> EvalResult:
    values = np.array([compute_metrics(plan.metrics, run.matrix, qrels) for run in runs])
    r, m, q = values.shape
    low, high = bootstrap_intervals(values.reshape(r * m, q), seed=plan.seed)
    depth, others = runs[0].matrix.depth, len(candidates) - 1
    needed = np.minimum(nmrr_depth(qrels.relevant), others)
    return EvalResult(
        plan=plan, collection=facts, candidates=candidates, query_count=query_count, qrels=qrels, runs=runs,
        values=values, means=values.mean(axis=2), low=low.reshape(r, m), high=high.reshape(r, m),
        differences=compare_runs(values, plan.seed),
        curves=np.array([_curve(run.matrix, qrels) for run in runs]),
        unjudged=np.array([_unjudged(run.matrix, qrels) for run in runs]),
        shallow=int((needed > min(depth, others)).sum()), depth=depth,
    )  # fmt: skip


def compare_runs(values: Floats, seed: int) -> list[PairedDifference | None]:
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


def _curve(run: RunMatrix, qrels: Qrels) -> Floats:
    total = np.zeros(len(RECALLS))
    for _, block in judged_blocks(run, qrels):
        total += interpolated_precision(block, RECALLS).sum(axis=0)
    return total / len(run.positions)


def _unjudged(run: RunMatrix, qrels: Qrels) -> float:
    first = run.positions[:, :UNJUDGED_DEPTH]
    answered = first >= 0
    return float(((qrels.classes[first] < 0) & answered).sum() / max(answered.sum(), 1))
