"""Metrics of MedMNIST retrieval: mAP@k, mMV@k and ACC@k (Mahbod et al. 2024; Kalra et al. 2020 for the vote)."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.average_precision import average_precision
from cbir.evaluation.run_matrix import JudgedBlock


def precision_of_retrieved(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return mAP@k of MedMNIST (q,): mean precision at the relevant among the first `k` answers, 0 if there is none.

    It divides by the relevant images among the answers, AP@k of trec_eval by all relevant images: relevant answers
    at 1, 2 and 4 of 5 give (1/1 + 2/2 + 3/4) / 3 = 0.9167.
    """
    return average_precision(judged.hits[:, :k])


def majority_vote(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if the first `k` answers vote for the query's class, or it is among tied winners, else 0."""
    votes = class_votes(judged, k)
    votes_for_query = (judged.classes[:, :k] == judged.query_classes[:, None]).sum(axis=1)
    return np.where((votes_for_query > 0) & (votes_for_query == votes.max(axis=1, initial=0)), 1.0, 0.0)


def accuracy(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if any of the first `k` answers is relevant, else 0."""
    return np.where(judged.hits[:, :k].any(axis=1), 1.0, 0.0)


def class_votes(judged: JudgedBlock, k: int) -> NDArray[np.int64]:
    """Count for each of the first `k` answers those of its class, (q, k); 0 for an answer without a class."""
    classes = judged.classes[:, :k]
    votes = np.zeros(classes.shape, np.int64)
    for column in range(classes.shape[1]):
        votes += classes == classes[:, column : column + 1]
    votes[classes < 0] = 0
    return votes
