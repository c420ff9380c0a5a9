"""Metrics of ranked images: average, capped and interpolated precision, ANMRR, votes, those of vectors, and ROC."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.qrels import JudgedBlock

ROUNDING = 1e-9  # 0.28 of 25 relevant images are 7, though 0.28 * 25 > 7 in floating point
PENALTY = 1.25  # rank, in K, of a relevant image that is not among the first K
BLOCK = 256  # queries


def _cutoff(k: int) -> int:
    if not isinstance(k, Integral) or k < 1:
        raise InvalidInput(f"k: a whole number, at least 1, not {k!r}")
    return k


def average_precision(
    hits: NDArray[np.bool_], relevant: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the AP (q,) of ranked answers: the sum of the precisions at the hits over the relevant images.

    `hits` (q, k) marks relevant answers, best first. `relevant` (q,) counts relevant images, retrieved or not, as
    trec_eval does; by default the hits themselves are counted. Without any, AP is 0.
    """
    rows, columns = np.nonzero(hits)
    counts = np.count_nonzero(hits, axis=1)
    position = np.arange(1, len(rows) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    sums = np.bincount(rows, position / (columns + 1), minlength=len(hits))
    return np.asarray(sums / np.maximum(counts if relevant is None else relevant, 1))


def capped_precision(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return the precision (q,) of the first min(k, R) answers, R being the number of relevant images.

    P@k of a class with fewer than `k` images could not reach 1.
    """
    counts = np.minimum(judged.relevant, _cutoff(k))
    counted = np.arange(judged.hits.shape[1])[None, :] < counts[:, None]
    return np.asarray((judged.hits & counted).sum(axis=1) / counts)


def interpolated_precision(judged: JudgedBlock, recalls: Sequence[float]) -> NDArray[np.float64]:
    """Return the largest precision (q, r) at any rank whose recall is at least each of `recalls`, in [0, 1].

    0 if the run does not reach that recall. Recall is of all relevant images, retrieved or not (Manning, Raghavan &
    Schuetze 2008, section 8.4).
    """
    needed = np.ceil(np.multiply.outer(judged.relevant, recalls) - ROUNDING).astype(np.int64)
    interpolated = np.zeros(needed.shape)
    for query, hits in enumerate(judged.hits):
        ranks = np.flatnonzero(hits) + 1
        if len(ranks):
            precisions = np.arange(1, len(ranks) + 1) / ranks
            best_from = np.append(np.maximum.accumulate(precisions[::-1])[::-1], 0.0)
            interpolated[query] = best_from[np.clip(needed[query] - 1, 0, len(ranks))]
    return interpolated


def nmrr_depth(relevant: NDArray[np.int64], most_relevant: int | None = None) -> NDArray[np.int64]:
    """Return the depth K (q,): min(4 NG, 2 GTM) for NG relevant images of a query, GTM the largest NG of all queries.

    `relevant` is NG (q,); `most_relevant` is GTM, by default the largest of `relevant`.
    """
    most = int(relevant.max()) if most_relevant is None else most_relevant
    return np.minimum(4 * relevant, 2 * most)


def nmrr(judged: JudgedBlock) -> NDArray[np.float64]:
    """Return NMRR (q,), 0 if all relevant images come first, 1 if none is among the first K.

    (AVR - 0.5 - NG/2) / (1.25 K - 0.5 - NG/2), AVR the mean rank of the NG relevant images, a rank beyond K
    counting as 1.25 K (Manjunath et al. 2001, Color and Texture Descriptors, section III; ISO/IEC 15938-8). For a
    run shallower than K it is an upper bound.
    """
    K, NG = nmrr_depth(judged.relevant, judged.most_relevant), judged.relevant
    ranks = np.arange(1, judged.hits.shape[1] + 1)
    counted = judged.hits & (ranks <= K[:, None])
    missed = NG - counted.sum(axis=1)
    average_rank = ((counted * ranks).sum(axis=1) + missed * PENALTY * K) / NG
    least = 0.5 + NG / 2
    return np.asarray((average_rank - least) / (PENALTY * K - least))


def precision_of_retrieved(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return mAP@k of MedMNIST (q,): mean precision at the relevant among the first `k` answers, 0 if there is none.

    It divides by the relevant images among the answers, AP@k of trec_eval by all relevant images: relevant answers
    at 1, 2 and 4 of 5 give (1/1 + 2/2 + 3/4) / 3 = 0.9167.
    """
    return average_precision(judged.hits[:, : _cutoff(k)])


def majority_vote(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if the first `k` answers vote for the query's class, or it is among tied winners, else 0."""
    votes = class_votes(judged, k)
    votes_for_query = (judged.classes[:, :k] == judged.query_classes[:, None]).sum(axis=1)
    return np.where((votes_for_query > 0) & (votes_for_query == votes.max(axis=1, initial=0)), 1.0, 0.0)


def accuracy(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if any of the first `k` answers is relevant, else 0."""
    return np.where(judged.hits[:, : _cutoff(k)].any(axis=1), 1.0, 0.0)


def class_votes(judged: JudgedBlock, k: int) -> NDArray[np.int64]:
    """Count for each of the first `k` answers those of its class, (q, k); 0 for an answer without a class."""
    classes = judged.classes[:, : _cutoff(k)]
    votes = np.zeros(classes.shape, np.int64)
    for column in range(classes.shape[1]):
        votes += classes == classes[:, column : column + 1]
    votes[classes < 0] = 0
    return votes


def knn_error(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if a vote of the first `k` answers gives another class than the query's, else 0.

    Of tied classes, that of the nearest answer wins. The mean is the error rate of ImageCLEF's automatic
    annotation tasks (Mueller et al. 2005, 2006).
    """
    votes = class_votes(judged, k)
    if not votes.shape[1]:
        return np.ones(len(votes))
    winner = votes.argmax(axis=1)[:, None]  # the first, hence nearest, of those with the most votes
    answered = np.take_along_axis(judged.classes, winner, axis=1)[:, 0]
    return np.asarray(answered != judged.query_classes, np.float64)


@dataclass(frozen=True)
class RetrievalScores:
    """Means over the queries that have a relevant image.

    ap: (n,) average precision of each query, NaN without a relevant image.
    """

    map: float
    p_at_1: float
    p_at_10: float
    ap: NDArray[np.float64]


def evaluate_vectors(
    queries: NDArray[np.float32],
    query_labels: NDArray[np.int64],
    gallery: NDArray[np.float32],
    gallery_labels: NDArray[np.int64],
    query_groups: NDArray[np.int64] | None = None,
    gallery_groups: NDArray[np.int64] | None = None,
) -> RetrievalScores:
    """Rank a gallery by Euclidean distance to each query; images of the query's label are relevant.

    Parameters
    ----------
    queries, gallery : (n, d) and (m, d) float32
    query_labels, gallery_labels : (n,) and (m,) int64
    query_groups, gallery_groups : (n,) and (m,) int64, optional
        Patients, or image numbers: images of the query's own group are neither hit nor miss.

    Returns
    -------
    RetrievalScores

    Raises
    ------
    InvalidInput
        For shapes that do not agree, and vectors that are not finite.
    """
    _check_labelled(queries, query_labels, query_groups, "queries")
    _check_labelled(gallery, gallery_labels, gallery_groups, "gallery")
    if queries.shape[1] != gallery.shape[1]:
        raise InvalidInput(f"queries have {queries.shape[1]} columns and the gallery {gallery.shape[1]}")
    if (query_groups is None) != (gallery_groups is None):
        raise InvalidInput("groups leave out images of the query's own: give those of queries and gallery")
    gallery = gallery.astype(
        np.float64
    )  # in float32 rounding decides where vectors are long beside distances
    lengths = (gallery**2).sum(axis=1)
    ap, first, tenth = (np.full(len(queries), np.nan) for _ in range(3))
    for start in range(0, len(queries), BLOCK):
        block = slice(start, min(start + BLOCK, len(queries)))
        distances = lengths - 2.0 * (queries[block] @ gallery.T)
        if query_groups is not None and gallery_groups is not None:
            distances[query_groups[block, None] == gallery_groups] = np.inf
        order = np.argsort(distances, axis=1, kind="stable")
        counted = np.isfinite(np.take_along_axis(distances, order, axis=1))
        hits = (gallery_labels[order] == query_labels[block, None]) & counted
        answerable = hits.any(axis=1)
        rows = np.arange(len(queries))[block][answerable]
        ap[rows] = average_precision(hits[answerable])
        first[rows] = hits[answerable, :1].sum(axis=1)
        tenth[rows] = hits[answerable, :10].sum(axis=1) / 10  # also of fewer answers, as trec_eval does
    return RetrievalScores(_mean(ap), _mean(first), _mean(tenth), ap)


def _check_labelled(
    vectors: NDArray[np.float32], labels: NDArray[np.int64], groups: NDArray[np.int64] | None, name: str
) -> None:
    if np.ndim(vectors) != 2:
        raise InvalidInput(f"{name} are vectors (n, d), not the shape {np.shape(vectors)}")
    for each in (labels, labels if groups is None else groups):
        if np.shape(each) != vectors.shape[:1]:
            raise InvalidInput(
                f"{name}: {len(vectors)} vectors need as many labels and groups, not {np.shape(each)}"
            )
    if wrong := int((~np.isfinite(vectors)).any(axis=1).sum()):
        raise InvalidInput(
            f"{name}: {wrong} of {len(vectors)} vectors are not finite; did a training diverge?"
        )


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


@dataclass(frozen=True, eq=False)
class Roc:
    """ROC curve: the point (0, 0), then a point for each distinct score, highest first; arrays (k,) float64.

    false_positives, true_positives: share of the negatives and of the positives scored at least `thresholds`.
    The first threshold is infinity: nothing is reported.
    """

    false_positives: NDArray[np.float64]
    true_positives: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    @property
    def vertical(self) -> float:
        """Upper end of the leftmost vertical part, 0 to 1; equal to Pos@Top."""
        return float(self.true_positives[self.false_positives == 0].max())

    def corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return false and true positives of both ends and of the points at which the curve turns."""
        across, up = np.diff(self.false_positives), np.diff(self.true_positives)
        turns = np.abs(across[:-1] * up[1:] - across[1:] * up[:-1]) > 1e-12
        mask = np.concatenate([[True], turns, [True]])
        return self.false_positives[mask], self.true_positives[mask]

    def at(self, false_positives: ArrayLike) -> NDArray[np.float64]:
        """Interpolate the share of true positives linearly at these shares of false positives.

        At 0, and at every other vertical part, the result is its upper end.
        """
        x = np.asarray(false_positives, np.float64)
        last = np.searchsorted(self.false_positives, x, side="right") - 1
        after = np.minimum(last + 1, len(self.false_positives) - 1)
        width = self.false_positives[after] - self.false_positives[last]
        share = (x - self.false_positives[last]) / np.where(width > 0, width, 1.0)
        rise = self.true_positives[after] - self.true_positives[last]
        return np.asarray(self.true_positives[last] + share * rise)


def roc(scores: ArrayLike, positive: ArrayLike) -> Roc:
    """Return the ROC of `scores` (n,) for the mask `positive` (n,); equal scores are one point.

    Raises InvalidInput as `check_scores` does.
    """
    from sklearn.metrics import roc_curve  # loads slowly

    values, mask = check_scores(scores, positive)
    distinct, ranks = np.unique(values, return_inverse=True)
    false_positives, true_positives, thresholds = roc_curve(mask, ranks, drop_intermediate=False)
    levels = distinct[thresholds[1:].astype(np.int64)].astype(np.float64)
    return Roc(false_positives, true_positives, np.concatenate([[np.inf], levels]))


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the area under the ROC of `scores` (n,) for the mask `positive` (n,).

    It is the share of pairs in which the positive scores higher, a tie counting one half (Hanley & McNeil 1982);
    eq. 1 of Zheng et al. counts a tie as nothing. Raises InvalidInput as `check_scores` does.
    """
    from sklearn.metrics import roc_auc_score

    values, mask = check_scores(scores, positive)
    ranks = np.unique(values, return_inverse=True)[1]  # scikit-learn refuses infinite scores
    return float(roc_auc_score(mask, ranks))


def check_scores(scores: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return `scores` (n,) as floats and `positive` (n,) as a mask. Infinite scores are allowed.

    Raises InvalidInput if shapes differ, a score is no number, a mark is not true or false (1 or 0), or there are no
    positives or no negatives.
    """
    values, marks = np.asarray(scores), np.asarray(positive)
    if values.dtype.kind not in "biuf":
        raise InvalidInput(f"scores are real numbers, not {values.dtype}")
    mask = marks.astype(bool)
    if not np.array_equal(marks, mask):
        raise InvalidInput(
            "positives are marked by true or 1, negatives by false or 0; there are other marks"
        )
    if values.shape != mask.shape or values.ndim != 1:
        raise InvalidInput(f"each image needs one score; got shapes {values.shape} and {mask.shape}")
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    if np.isnan(values).any():
        raise InvalidInput(
            f"{int(np.isnan(values).sum())} of {len(values)} scores are NaN; the training diverged"
        )
    if mask.all() or not mask.any():
        raise InvalidInput("ranking metrics need at least one positive and one negative image")
    return values, mask


def pos_at_top(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the share of positives scored above the highest negative, 0 to 1 (Zheng et al., Top-rank CNN, eq. 3).

    `scores` and the mask `positive` are (n,). A positive that ties with the highest negative does not count. The
    value is the length of the leftmost vertical part of the ROC. A single negative decides it, so it varies much
    between small sets. Raises InvalidInput as `check_scores` does.
    """
    values, mask = check_scores(scores, positive)
    return float((values[mask] > values[~mask].max()).mean())
