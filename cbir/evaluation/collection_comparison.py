"""Compare two collections of the same images, which differ in their profiles, by searches with the same images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.relevance import encode_values
from cbir.evaluation.significance import bootstrap_intervals, randomisation_test
from cbir.search import Request, Searcher
from cbir.settings import Settings
from cbir.store import Collection

MAX_LABELS = 10  # keys compared by default, the most frequent ones
MOST_DIFFERENT = 10  # queries listed

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of both collections. low, high: 95 % interval of b - a; p: of Fisher's paired randomisation test."""

    name: str
    a: float
    b: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class ComparedLabel:
    """Metrics with the images of the query's value of a label as relevant. queries: those that have any."""

    label: str
    queries: int
    metrics: list[ComparedMetric]


@dataclass(frozen=True)
class ComparedQuery:
    """A query. overlap: share of the first k that both find; correlation: Kendall's tau of these, None below two.

    a, b: ids of the first k.
    """

    image_id: str
    overlap: float
    correlation: float | None
    a: list[str]
    b: list[str]


@dataclass(frozen=True)
class Comparison:
    """Result of `compare_collections`. milliseconds: median time of a query for k answers, of both collections.

    skipped: queries that were left out, since a collection lost the image meanwhile.
    """

    images: tuple[int, int]
    in_both: int
    milliseconds: tuple[float, float]
    queries: list[ComparedQuery]
    labels: list[ComparedLabel]
    skipped: int = 0

    @property
    def overlaps(self) -> NDArray[np.float64]:
        """Overlap (q,) of each query."""
        return np.array([query.overlap for query in self.queries])

    @property
    def correlation(self) -> float | None:
        """Mean of the queries' correlations; None if no query has one."""
        values = [query.correlation for query in self.queries if query.correlation is not None]
        return float(np.mean(values)) if values else None

    def most_different(self) -> list[ComparedQuery]:
        """Return the queries with the least overlap, of these those with the least correlation."""

        def likeness(query: ComparedQuery) -> tuple[float, float]:
            return query.overlap, -2.0 if query.correlation is None else query.correlation

        return sorted(self.queries, key=likeness)[:MOST_DIFFERENT]


def compare_collections(
    first: Collection,
    second: Collection,
    settings: Settings,
    *,
    queries: int = 50,
    seed: int = 0,
    k: int = 10,
    rerank: str = "none",
    label_keys: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Search in two collections with the same images, without those of the query's own patient.

    Images that only one of the collections has are neither queries nor answers, nor are those that come meanwhile.
    Queries whose image is deleted meanwhile are skipped.

    Parameters
    ----------
    first, second : Collection
        Collections a and b. Labels and patients are those of a.
    settings : Settings
        Settings of the searches.
    queries : int
        Number of query images, drawn at random from those that both have.
    seed : int
    k : int
        Answers to compare.
    rerank : str
        Name of the re-ranker.
    label_keys : sequence of str
        Labels that relevant images share; by default the most frequent ones.
    progress : callable
        Gets the queries done and their number.

    Raises
    ------
    InvalidInput
        If the collections have fewer than two images in common, no image has one of the labels, or all
        images of queries are deleted meanwhile.
    """
    ids = [collection.image_ids() for collection in (first, second)]
    common = sorted(set(ids[0].values()) & set(ids[1].values()))
    if len(common) < 2:
        raise InvalidInput(
            f"{first.folder} and {second.folder} have {len(common)} images in common; nothing to compare"
        )
    labels = _LabelCodes(first, ids[0], common, label_keys)
    sides = [
        _Side(collection, of_side, common, settings)
        for collection, of_side in zip((first, second), ids, strict=True)
    ]
    drawn = np.random.default_rng(seed).permutation(len(common))[:queries].tolist()
    _search(sides, drawn[0], k, rerank)  # loads what the first search loads; not timed
    for side in sides:
        side.milliseconds.clear()
    compared = []
    for done, query in enumerate(drawn):
        progress(done, len(drawn))
        rankings = _search(sides, query, k, rerank)
        if rankings is None:
            continue
        labels.judge(query, rankings, k)
        compared.append(_compare_query(common, query, [ranking[:k] for ranking in rankings]))
    progress(len(drawn), len(drawn))
    if not compared:
        raise InvalidInput("the images of all queries were deleted meanwhile; compare the collections again")
    times = [float(np.median(side.milliseconds)) for side in sides]
    metrics = labels.compare(k, seed)
    return Comparison(
        (len(ids[0]), len(ids[1])),
        len(common),
        (times[0], times[1]),
        compared,
        metrics,
        skipped=len(drawn) - len(compared),
    )


class _Side:
    """One of the collections, with the images of the start. Positions are those of the ids that both have."""

    def __init__(
        self, collection: Collection, ids: dict[int, str], common: Sequence[str], settings: Settings
    ) -> None:
        self._searcher = Searcher(collection, settings)
        self._ids = common
        self._numbers = np.array(sorted(ids), np.int64)
        positions = {image_id: position for position, image_id in enumerate(common)}
        self._positions = np.array([positions.get(ids[number], -1) for number in self._numbers.tolist()])
        self.milliseconds: list[float] = []

    def search(self, query: int, k: int, rerank: str) -> Positions:
        """Return the positions of all images, best first; time a search for the first k.

        Raises NotFound if the query image has been deleted.

        Parameters
        ----------
        query : int
            Position of the query image.
        k : int
        rerank : str
            Name of the re-ranker.
        """
        collection = self._searcher.collection
        record = collection.record(self._ids[query])
        raw = collection.vector(record.image_id)
        request = Request(k=k, rerank=rerank, exclude_patient_key=record.patient_key)
        started = perf_counter()
        self._searcher.rank(raw, record.content_hash, request)
        self.milliseconds.append((perf_counter() - started) * 1000)
        everything = request.model_copy(update={"k": max(len(self._numbers), len(collection.view()))})
        numbers = self._searcher.rank(raw, record.content_hash, everything).numbers
        known = numbers[np.isin(numbers, self._numbers)]
        positions = self._positions[np.searchsorted(self._numbers, known)]
        return np.asarray(positions[positions >= 0])


def _search(sides: Sequence[_Side], query: int, k: int, rerank: str) -> list[Positions] | None:
    """Return the rankings of both sides, None if one no longer has the query image."""
    try:
        return [side.search(query, k, rerank) for side in sides]
    except NotFound:
        return None


def _compare_query(common: Sequence[str], query: int, best: Sequence[Positions]) -> ComparedQuery:
    a, b = (positions.tolist() for positions in best)
    shared = [position for position in a if position in b]
    correlation = None
    if len(shared) > 1:
        correlation = float(
            kendalltau(range(len(shared)), [b.index(position) for position in shared]).statistic
        )
    overlap = len(shared) / max(len(a), len(b), 1)
    return ComparedQuery(common[query], overlap, correlation, [common[p] for p in a], [common[p] for p in b])


@dataclass
class _LabelValues:
    """A label: codes (n,) of the values of all images, -1 without one; metrics (2,) of both sides, of each query."""

    codes: NDArray[np.int64]
    precision: list[list[float]] = field(default_factory=list)
    average: list[list[float]] = field(default_factory=list)


class _LabelCodes:
    """Labels by which answers are judged."""

    def __init__(
        self, collection: Collection, ids: dict[int, str], common: Sequence[str], keys: Sequence[str]
    ) -> None:
        counts = collection.label_keys()
        for key in keys:
            if key not in counts:
                raise InvalidInput(f"no image of {collection.folder} has the label {key}")
        frequent = sorted(counts, key=lambda key: (-counts[key], key))[:MAX_LABELS]
        self._labels: dict[str, _LabelValues] = {}
        for key in keys or frequent:
            values = {
                ids[number]: value
                for number, value in collection.labels_by_number(key).items()
                if number in ids
            }
            codes: dict[str, int] = {}
            encoded = encode_values(map(values.get, common), codes)
            if len(codes) > 1 or keys:  # one value tells nothing
                self._labels[key] = _LabelValues(encoded)

    def judge(self, query: int, rankings: Sequence[Positions], k: int) -> None:
        """Add the metrics of a query, unless it has no relevant image.

        Parameters
        ----------
        query : int
            Position of the query image.
        rankings : sequence of (n,) int64
            Positions of its answers of both sides, best first.
        k : int
        """
        for label in self._labels.values():
            code = label.codes[query]
            hits = [label.codes[ranking] == code for ranking in rankings]
            if code >= 0 and all(of_side.any() for of_side in hits):
                label.precision.append([float(of_side[:k].sum()) / k for of_side in hits])
                label.average.append([float(average_precision(of_side[None])[0]) for of_side in hits])

    def compare(self, k: int, seed: int) -> list[ComparedLabel]:
        """Return the metrics of the labels that queries could be judged by."""
        compared = []
        for key, label in self._labels.items():
            if not label.average:
                continue
            values = np.array([label.precision, label.average])  # metric, query, side
            differences = values[..., 1] - values[..., 0]
            p = randomisation_test(differences, seed=seed)
            low, high = bootstrap_intervals(differences, seed=seed)
            means = values.mean(axis=1)
            metrics = [
                ComparedMetric(name, *map(float, (*means[row], low[row], high[row], p[row])))
                for row, name in enumerate((f"P@{k}", "mAP"))
            ]
            compared.append(ComparedLabel(key, len(label.average), metrics))
        return compared
