"""Refit of a ranker's last layer by RankSVM or TopPush, on the features below it."""

import numpy as np
import torch
from numpy.typing import NDArray

from cbir.evaluation.metrics.roc import auc, pos_at_top
from cbir.learn.models.linear.ranking_estimator import LinearRanker
from cbir.learn.models.linear.ranking_svm import RankingSVM
from cbir.learn.models.linear.top_push import TopPush
from cbir.learn.models.scoring_network import ScoringNetwork
from cbir.learn.training.network_scoring import picture_features
from cbir.learn.training.patient_split import Parts

LAST_LAYERS = ("rank-svm", "top-push")
PENALTIES = (1e-2, 1e-1, 1.0, 1e1, 1e2)  # C and lambda: Zheng et al., section 4.3


def refit_last_layer(
    method: str,
    network: ScoringNetwork,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: Parts,
    device: str = "cpu",
) -> float:
    """Refit the last layer, with the penalty of the best validation Pos@Top, then AUC.

    Parameters
    ----------
    method : str
        One of LAST_LAYERS.
    network : ScoringNetwork
        Its last layer is replaced.
    pictures : (n, side, side) uint8
        Grey pictures.
    positive : (n,) bool
        Whether a picture is positive.
    parts : dict
        Rows of "training" and "validation".
    device : str
        cpu or cuda.

    Returns
    -------
    float
        The penalty, one of PENALTIES: C of the SVM, lambda of TopPush.
    """
    training, validation = parts["training"], parts["validation"]
    training_features = picture_features(network, pictures[training], device)
    validation_features = picture_features(network, pictures[validation], device)
    candidates: list[tuple[tuple[float, float], float, LinearRanker | RankingSVM]] = []
    for penalty in PENALTIES:
        linear = RankingSVM(penalty) if method == "rank-svm" else TopPush(penalty)
        linear.fit(training_features, positive[training].astype(np.int64))
        scores, is_positive = linear.predict(validation_features), positive[validation]
        measures = pos_at_top(scores, is_positive), auc(scores, is_positive)
        candidates.append((measures, penalty, linear))
    _, penalty, best = max(candidates, key=lambda candidate: candidate[0])
    weights = best.coef_ / best.scale_
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(weights)[None])
        network.head.bias.fill_(-float(best.mean_ @ weights))
    return penalty
