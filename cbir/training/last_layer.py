"""The last layer of a ranker learnt anew on the features of the others: RankSVM and TopPush on CNN features."""

import numpy as np
import torch
from numpy.typing import NDArray

from cbir.evaluation.triage import auc
from cbir.evaluation.metrics import top_precision
from cbir.models.linear.ranking_estimator import LinearRanker
from cbir.models.linear.ranking_svm import RankingSVM
from cbir.models.linear.top_push import TopPush
from cbir.models.scoring_network import ScoringNetwork
from cbir.training.network_scoring import picture_features

LAST_LAYERS = ("rank-svm", "top-push")
PENALTIES = (1e-2, 1e-1, 1.0, 1e1, 1e2)  # C, and lambda: Zheng et al., section 4.3


def refit_last_layer(
    method: str,
    ranker: ScoringNetwork,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: dict[str, NDArray[np.int64]],
    device: str = "cpu",
) -> float:
    """Learn the head of `ranker` anew from the training images; returns its C or lambda.

    That is the one of PENALTIES with the best Pos@Top on the images for validation, AUC deciding between equals.
    Pictures, positive and parts are those of `cbir.training.ranker_training.train_ranker`.
    """
    training, validation = parts["training"], parts["validation"]
    of_training = picture_features(ranker, pictures[training], device)
    of_validation = picture_features(ranker, pictures[validation], device)
    tried = []
    for penalty in PENALTIES:
        linear: LinearRanker = RankingSVM(penalty) if method == "rank-svm" else TopPush(penalty)
        linear.fit(of_training, positive[training].astype(np.int64))
        scores, wanted = linear.predict(of_validation), positive[validation]
        tried.append(((top_precision(scores, wanted), auc(scores, wanted)), penalty, linear))
    _, penalty, best = max(tried, key=lambda one: one[0])
    weights = best.coef_ / best.scale_
    with torch.no_grad():
        ranker.head.weight.copy_(torch.from_numpy(weights)[None])
        ranker.head.bias.fill_(-float(best.mean_ @ weights))
    return penalty
