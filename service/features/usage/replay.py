"""Replay of logged queries with other methods, compared on the logged judgements and clicks."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.experiment import PairedDifference, compare_runs
from cbir.evaluation.position_bias import PositionBias, estimate_position_bias, group_shows
from cbir.evaluation.relevance import Candidates, select_candidates
from cbir.evaluation.runs import Method
from cbir.evaluation.search_pool import SearchPool, SearchTask, open_search_pool
from cbir.evaluation.significance import bootstrap_intervals
from cbir.search import Request
from cbir.search.query_parts import check_vectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.profile import Profile
from service.features.usage.replay_log import LoggedQuery, LoggedSearch, collect_queries

# Measures on judged images.
NAMES = ("bpref", "condensed AP", "condensed nDCG", "condensed RR", "mean rank")
LOWER_IS_BETTER = ("mean rank", "IPS mean rank")
TOP = 10  # answers of which the judged and the shown ones are counted
CLICK_NAMES = ("IPS DCG", "IPS mean rank")

Progress = Callable[[str, int, int], None]
Floats = NDArray[np.float64]


def judged_measures(
    answers: Sequence[str], relevant: Set[str], irrelevant: Set[str], depth: int
) -> dict[str, float]:
    """Return the measures of one ranking by judged images; those that the judgements cannot tell are nan.

    The condensed list has the judged images only, in their order, as in Sakai, Alternatives to Bpref (2007); measures
    of it compare relevant with judged irrelevant images, so both are needed, as for bpref. Images beyond the answers
    have no rank in the condensed list, and rank `depth` + 1 in the mean rank of the relevant images.

    Parameters
    ----------
    answers : sequence of str
        Image ids, best first, each once.
    relevant, irrelevant : set of str
        Ids of the judged images.
    depth : int
        Number of answers that were requested.

    Returns
    -------
    dict
        Value of each of NAMES.
    """
    values = dict.fromkeys(NAMES, float("nan"))
    if not relevant:
        return values
    ranks = {image: rank for rank, image in enumerate(answers, start=1)}
    values["mean rank"] = float(np.mean([ranks.get(image, depth + 1) for image in sorted(relevant)]))
    if irrelevant:
        condensed = [image in relevant for image in answers if image in relevant or image in irrelevant]
        values |= _condensed_measures(condensed, len(relevant), len(irrelevant))
    return values


def _condensed_measures(condensed: Sequence[bool], relevant: int, irrelevant: int) -> dict[str, float]:
    """Return bpref by Buckley & Voorhees, Retrieval Evaluation with Incomplete Information (2004), and the others.

    bpref is that of trec_eval: 1/R times the sum over the relevant answers of 1 - min(n, R, N) / min(R, N), with n
    irrelevant images before the answer, R relevant and N irrelevant ones judged.
    """
    hits = np.array(condensed, np.float64)
    ranks = np.arange(1, len(hits) + 1)
    bound = min(relevant, irrelevant)
    before = np.minimum(np.cumsum(1 - hits), bound)
    discounts = 1 / np.log2(ranks + 1)
    ideal = (1 / np.log2(np.arange(2, relevant + 2))).sum()
    first = int(hits.argmax()) + 1 if hits.any() else 0
    return {
        "bpref": float((hits * (1 - before / bound)).sum() / relevant),
        "condensed AP": float((hits * np.cumsum(hits) / ranks).sum() / relevant),
        "condensed nDCG": float((hits * discounts).sum() / ideal),
        "condensed RR": 1 / first if first else 0.0,
    }


@dataclass(frozen=True)
class ReplayPlan:
    """Settings of a replay.

    eta: of the position bias, None to estimate it from the log. clip: largest weight of a click. depth: answers to
    each query. jobs: processes.
    """

    collection: Path
    methods: Sequence[Method]
    depth: int = 1000
    eta: float | None = None
    clip: float = 20.0
    seed: int = 0
    jobs: int = 1


@dataclass(frozen=True, eq=False)
class ReplayedMeasure:
    """A measure of r methods over the q queries that have it.

    values: (r, q). means, low, high: (r,), with 95 % bootstrap intervals. differences: from the first method.
    """

    name: str
    queries: Sequence[str]
    values: Floats
    means: Floats
    low: Floats
    high: Floats
    differences: Sequence[PairedDifference | None]


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """Results for r methods.

    collection: facts of `Collection.info`. searches: number in the log. left_out: of them by reason. judged_share,
    shown_share: (r,) share of the first ten answers that were judged for the query, and that any logged search has
    shown for it.
    """

    plan: ReplayPlan
    collection: dict[str, Any]
    searches: int
    queries: Sequence[LoggedQuery]
    left_out: dict[str, int]
    bias: PositionBias
    measures: Sequence[ReplayedMeasure]
    judged_share: Floats
    shown_share: Floats


def replay_log(
    plan: ReplayPlan, log: Sequence[LoggedSearch], settings: Settings, progress: Progress
) -> ReplayResult:
    """Search again with the queries of a usage log, and measure each method.

    Parameters
    ----------
    plan : ReplayPlan
    log : sequence of LoggedSearch
        Searches of the collection.
    settings : Settings
        Of the searches.
    progress : callable
        Gets the stage, steps done and steps in all.

    Raises
    ------
    InvalidInput
        If no search can be replayed, or a vector is not one of the collection's profile.
    """
    with (
        Collection(plan.collection) as collection,
        open_search_pool(plan.collection, settings, plan.jobs) as pool,
    ):
        candidates = select_candidates(collection)
        images = frozenset(record.image_id for record in candidates.records)
        queries, left_out = collect_queries(log, collection.profile.hash, images)
        if not queries:
            raise InvalidInput(
                f"none of the {len(log)} logged searches can be replayed: {_in_words(left_out)}; open or judge "
                "answers on the search page first"
            )
        _check_queries(queries, collection.profile)
        runs = [_answers(method, queries, candidates, pool, plan.depth, progress) for method in plan.methods]
        facts = collection.info()
    bias = position_bias(queries, plan.eta)
    measures = _measures(queries, runs, bias, plan)
    judged = [_share(queries, run, lambda query: query.relevant | query.irrelevant) for run in runs]
    seen = [_share(queries, run, _shown_images) for run in runs]
    return ReplayResult(
        plan, facts, len(log), queries, left_out, bias, measures, np.array(judged), np.array(seen)
    )


def _check_queries(queries: Iterable[LoggedQuery], profile: Profile) -> None:
    for query in queries:
        if query.vector is not None:
            try:
                check_vectors(query.vector, profile)
            except InvalidInput as error:
                raise InvalidInput(f"the usage log is damaged at {query.name}: {error}") from None


def _in_words(left_out: dict[str, int]) -> str:
    return (
        ", ".join(f"{count} with {reason}" for reason, count in sorted(left_out.items()))
        or "the log is empty"
    )


def _answers(
    method: Method,
    queries: Sequence[LoggedQuery],
    candidates: Candidates,
    pool: SearchPool,
    depth: int,
    progress: Progress,
) -> list[tuple[str, ...]]:
    """Return the ids of the answers to each query."""
    request = Request(k=depth, rerank=method.rerank, parameters=method.parameters)
    contents = {record.image_id: record.content_hash for record in candidates.records}
    tasks = [
        SearchTask(query.image_id, query.vector, contents.get(query.image_id or "", ""), request)
        for query in queries
    ]
    return pool.search_ids(tasks, candidates, lambda done: progress(method.name, done, len(queries)))


def position_bias(queries: Iterable[LoggedQuery], eta: float | None) -> PositionBias:
    """Return the position bias with `eta`, or for None the one estimated from the plain searches of `queries`."""
    if eta is not None:
        return PositionBias(eta, None, None, 0, "stated")
    shows = (
        (query.name, image, rank, image in search.opened)
        for query in queries
        for search in query.plain
        for rank, image in enumerate(search.answers, start=1)
    )
    return estimate_position_bias(group_shows(shows))


def _measures(
    queries: Sequence[LoggedQuery],
    runs: Sequence[Sequence[Sequence[str]]],
    bias: PositionBias,
    plan: ReplayPlan,
) -> list[ReplayedMeasure]:
    values = np.array(
        [
            [
                [
                    *judged_measures(answers, query.relevant, query.irrelevant, plan.depth).values(),
                    *weighted_clicks(query, answers, bias, plan),
                ]
                for query, answers in zip(queries, run, strict=True)
            ]
            for run in runs
        ]
    )
    names = (*NAMES, *CLICK_NAMES)
    return [_measure(name, queries, values[:, :, m], plan) for m, name in enumerate(names)]


def weighted_clicks(
    query: LoggedQuery, answers: Sequence[str], bias: PositionBias, plan: ReplayPlan
) -> tuple[float, float]:
    """Return the DCG and the mean rank of the opened images in a new ranking, by inverse propensity weights.

    A click at rank r of the shown list weighs 1 / propensity(r), at most `plan.clip`: answers further down are seen
    less often, so that a click on them stands for more (Joachims, Swaminathan & Schnabel, Unbiased Learning-to-Rank
    with Biased Feedback, 2017, equation 4). DCG is the weighted sum of 1 / log2(1 + new rank) by shown list; the mean
    rank is normalised by the sum of the weights (Swaminathan & Joachims 2015). Both are nan without clicks.

    Parameters
    ----------
    query : LoggedQuery
    answers : sequence of str
        New ranking; images beyond it gain 0, and have rank `plan.depth` + 1.
    bias : PositionBias
    plan : ReplayPlan
    """
    if not query.clicks:
        return float("nan"), float("nan")
    ranks = {image: rank for rank, image in enumerate(answers, start=1)}
    new = np.array([ranks.get(click.image, plan.depth + 1) for click in query.clicks], np.float64)
    weights = 1 / bias.propensities(np.array([click.rank for click in query.clicks]))
    weights = np.minimum(weights, plan.clip)
    gains = np.where(new <= plan.depth, 1 / np.log2(1 + new), 0.0)
    return float(weights @ gains / len(query.plain)), float(weights @ new / weights.sum())


def _measure(name: str, queries: Sequence[LoggedQuery], values: Floats, plan: ReplayPlan) -> ReplayedMeasure:
    """Average over the queries for which the measure is defined; values: (r, q), nan for all methods or for none."""
    defined = ~np.isnan(values).any(axis=0)
    values = values[:, defined]
    names = [queries[index].name for index in np.flatnonzero(defined).tolist()]
    count = len(values)
    if not names:
        nothing = np.full(count, np.nan)
        return ReplayedMeasure(name, [], values, nothing, nothing, nothing, [None] * count)
    low, high = bootstrap_intervals(values, seed=plan.seed)
    differences = compare_runs(values[:, None, :], plan.seed)
    return ReplayedMeasure(name, names, values, values.mean(axis=1), low, high, differences)


def _shown_images(query: LoggedQuery) -> frozenset[str]:
    return frozenset(image for search in query.plain for image in search.answers)


def _share(
    queries: Sequence[LoggedQuery],
    run: Sequence[Sequence[str]],
    images_of: Callable[[LoggedQuery], frozenset[str]],
) -> float:
    """Return the share of the first answers that are among the images that `images_of` returns for their query."""
    counts: Counter[bool] = Counter()
    for query, answers in zip(queries, run, strict=True):
        images = images_of(query)
        counts.update(image in images for image in answers[:TOP])
    return counts[True] / max(counts.total(), 1)
