"""Images that may belong to a cohort, and how relevant they are to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, VectorBlocks, is_among, union
from cbir.search import Request, Searcher
from cbir.search.candidate_view import request_scope
from cbir.search.fitted_values import Vectors
from cbir.store import Collection
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.records.filter_conditions import Condition
from cbir.system.threads import OneBlasThread

QUERIES = 24  # relevant images that an index searches with
SAMPLE = 2000  # images that stand for those that it does not find
COMPANIONS = 10_000  # images of patients of whom one was found
PENALTY = 0.3  # C of the regression
BACKGROUND_WEIGHT = 0.3  # of an image that is not judged and counts as not relevant
STEPS = 100
HALVINGS = 50  # each halves what is left of the interval, at first as long as the evidence's range


class Companions(NamedTuple):
    """Images of patients with a relevant image.

    numbers: ascending, of all images of these patients. agreement: share of the judged ones that are relevant, with
    one assumed, and without the first relevant image of each patient.
    """

    numbers: Numbers
    agreement: float


NO_COMPANIONS = Companions(np.empty(0, np.int64), 0.0)


def find_companions(collection: Collection, relevant: Numbers, irrelevant: Numbers) -> Companions:
    """Return the images of the patients of relevant images.

    Parameters
    ----------
    collection : Collection
        Whose patient keys say which images are of a patient.
    relevant, irrelevant : (p,), (n,) int64
        Numbers of the judged images.
    """
    keys = collection.group_keys(relevant.tolist(), "patient")
    if not keys:
        return NO_COMPANIONS
    patients = set(keys.values())
    numbers = collection.numbers_of_patients(patients)
    hits, misses = len(keys) - len(patients), int(is_among(irrelevant, numbers).sum())
    return Companions(numbers, (hits + 1) / (hits + misses + 1))


@dataclass(frozen=True, eq=False)
class CohortPool:
    """Images that a cohort is searched in.

    numbers: (n,) int64, ascending, of all vectors here, with judged images outside of the search. vectors: of them.
    rows: ascending rows of the images that are searched; None for all. weights: (m,) how many images each of those
    rows stands for. total: number of images in the collection that are searched.
    """

    numbers: Numbers
    vectors: VectorBlocks
    rows: Rows | None
    weights: Doubles
    total: int

    def searched_rows(self) -> Rows:
        """Return the rows that are searched."""
        return np.arange(len(self.numbers)) if self.rows is None else self.rows

    def rows_of(self, numbers: Numbers) -> Rows:
        """Return the rows of image numbers that have one, in their order."""
        return np.searchsorted(self.numbers, numbers[is_among(numbers, self.numbers)])


def collect_pool(
    searcher: Searcher,
    where: Sequence[str | Condition],
    relevant: Numbers,
    judged: Numbers,
    companions: Numbers,
) -> CohortPool:
    """Return the images to search in.

    Parameters
    ----------
    searcher : Searcher
        Of the collection; where it searches by an index, the pool has the images near the relevant ones only.
    where : sequence of str or Condition
        Conditions on labels.
    relevant, judged : (p,), (j,) int64
        Numbers of the images judged relevant, in the order of judging, and of all that are judged.
    companions : (c,) int64
        Numbers of images that an index need not find.
    """
    scope = request_scope(searcher.collection, Request(where=list(where)), [])
    count = searcher.settings.indexed_candidates
    included = np.concatenate([judged, _spread(companions, COMPANIONS)])
    return searcher.vectors.read(
        lambda vectors: _candidates(vectors, scope, relevant, included, count),
        lambda: _all_images(searcher.collection, scope),
    )


def _all_images(collection: Collection, scope: IndexScope) -> CohortPool:
    view = collection.view()
    rows = view.select(collection.matching_rows(view, scope.where), np.empty(0, np.int64))
    total = len(view.gallery) if rows is None else len(rows)
    return CohortPool(view.gallery.ids, view.gallery, rows, np.ones(total), total)


def _candidates(
    vectors: Vectors, scope: IndexScope, relevant: Numbers, included: Numbers, count: int
) -> CohortPool:
    """Return the nearest images of the relevant ones, those that are named, and a sample of all."""
    _, queries = vectors.vectors(np.sort(_spread(relevant, QUERIES)))
    neighbours = vectors.nearest(queries, count, scope) if len(queries) else []
    near = union(*(each.numbers for each in neighbours))
    sample, _ = vectors.sample(SAMPLE, scope)
    numbers, matrix = vectors.vectors(union(near, sample, included))
    searched = vectors.within(union(near, sample, included), scope)
    searched = searched[is_among(searched, numbers)]
    total = vectors.count(scope)
    if total is None:
        total = len(vectors)
    is_counted_once = is_among(searched, union(near, included))
    weights = np.ones(len(searched))
    others = int((~is_counted_once).sum())
    if others:
        weights[~is_counted_once] = max(total - int(is_counted_once.sum()), others) / others
    return CohortPool(numbers, VectorBlocks((matrix,)), np.searchsorted(numbers, searched), weights, total)


def _spread(numbers: Numbers, count: int) -> Numbers:
    """Return at most `count` of the numbers, the last among them."""
    if len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)]


@dataclass(frozen=True, eq=False)
class RelevanceModel:
    """Learned probability that an image is relevant.

    coefficients: (d,) float32. spread: root mean square of the training values about their mean, which scales them.
    """

    coefficients: Floats
    bias: float
    spread: float = 1.0

    def probabilities(self, vectors: VectorBlocks, rows: Rows | None = None) -> Doubles:
        """Return the probabilities (m,) of all rows, or of ascending `rows`."""
        scores = np.empty(len(vectors) if rows is None else len(rows), np.float64)
        for where, part in vectors.chunks(rows):
            scores[where] = part @ self.coefficients
        return probability_of(scores + self.bias)


def probability_of(log_odds: Doubles) -> Doubles:
    """Return the probabilities (m,) of log odds (m,)."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -60.0, 60.0))))


def learn_relevance(relevant: Floats, irrelevant: Floats, background: Floats) -> RelevanceModel:
    """Train a classifier; of images that are not judged a few count as not relevant, with a small weight.

    Nearly all images of a collection are not relevant, so a random one is a negative example (Cormack & Grossman
    2015, "Autonomy and reliability of continuous active learning", section 3).

    Parameters
    ----------
    relevant : (p, d) float32
        Vectors of the images judged relevant, p at least 1.
    irrelevant : (n, d) float32
        Vectors of those judged not relevant.
    background : (b, d) float32
        Vectors of random images that are not judged.
    """
    from sklearn.linear_model import LogisticRegression  # which takes a second to import

    vectors = np.vstack([relevant, irrelevant, background])
    truths = np.arange(len(vectors)) < len(relevant)
    if truths.all():  # nothing to tell them from
        return RelevanceModel(np.zeros(vectors.shape[1], np.float32), 0.0)
    weights = np.ones(len(vectors))
    weights[len(relevant) + len(irrelevant) :] = BACKGROUND_WEIGHT
    centre = vectors.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean((vectors - centre) ** 2))) or 1.0
    regression = LogisticRegression(C=PENALTY, max_iter=STEPS, tol=1e-3)
    with OneBlasThread():
        regression.fit((vectors - centre) / spread, truths, weights)
    coefficients = regression.coef_[0] / spread
    return RelevanceModel(
        coefficients.astype(np.float32), float(regression.intercept_[0] - coefficients @ centre), spread
    )


def add_evidence(probabilities: Doubles, evidence: Doubles, weights: Doubles) -> Doubles:
    """Return probabilities in another order with the same sum.

    Evidence says which images are more probable than others and not how many are relevant, so all log odds are moved
    by the same amount until the weighted sum is as it was.

    Parameters
    ----------
    probabilities : (n,) float64
        Of the classifier.
    evidence : (n,) float64
        What is added to the log odds.
    weights : (n,) float64
        How many images each one stands for.
    """
    if not len(probabilities) or np.ptp(evidence) == 0:
        return probabilities
    bounded = np.clip(probabilities, 1e-12, 1 - 1e-12)
    log_odds = np.log(bounded) - np.log1p(-bounded) + evidence
    total = float(weights @ bounded)
    low, high = -float(evidence.max()), -float(evidence.min())  # which give sums below and above the total
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if float(weights @ probability_of(log_odds + middle)) < total:
            low = middle
        else:
            high = middle
        if high - low < 1e-4:
            break
    return probability_of(log_odds + (low + high) / 2)


def likeness_margins(vectors: Floats, relevant: Floats, irrelevant: Floats) -> Doubles:
    """Return half the squared distance to the nearest irrelevant image less that to the nearest relevant one.

    Unlike the classifier's probability this sees one example at a time, so a group that lies apart counts as much
    as a large one.

    Parameters
    ----------
    vectors : (m, d) float32
        Of the images that are compared.
    relevant : (p, d) float32
        Of images judged relevant, p at least 1.
    irrelevant : (n, d) float32
        Of images judged not relevant; without any, only the nearest relevant image counts.

    Returns
    -------
    (m,) float64
    """
    margins = _nearness(vectors, relevant)
    return margins - _nearness(vectors, irrelevant) if len(irrelevant) else margins


def _nearness(vectors: Floats, examples: Floats) -> Doubles:
    """Return the negative half squared distances (m,) to the nearest example."""
    halves = np.einsum("nd,nd->n", examples, examples) / 2
    nearness = -np.einsum("md,md->m", vectors, vectors, dtype=np.float64) / 2
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        nearness[part] += (vectors[part] @ examples.T - halves).max(axis=1)
    return np.asarray(nearness, np.float64)
