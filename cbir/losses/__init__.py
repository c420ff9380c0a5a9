"""Losses that teach a network to rank. A new one is a file and a line here.

On scores and relevance (batch, d): `ScoreLoss` and its kinds. On embeddings (n, k) and labels (n,): what
`embedding_loss` gives by name, those of the first kind included.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from cbir.errors import InvalidInput
from cbir.losses.classification import ClassificationLoss, focal_loss
from cbir.losses.metric_learning import METRIC_LOSSES, MetricLoss
from cbir.losses.ordinal_loss import OrdinalLoss
from cbir.losses.ranknet import RankNetLoss, ranknet_loss
from cbir.losses.s_ndcg_loss import SNdcgLoss
from cbir.losses.score_loss import ScoreLoss
from cbir.losses.similarity_loss import SimilarityLoss
from cbir.losses.sodeep import MapLoss, RecallLoss, SpearmanLoss
from cbir.losses.toprank import PosAtTopLoss, TopRankLoss

__all__ = [
    "ClassificationLoss",
    "MapLoss",
    "MetricLoss",
    "OrdinalLoss",
    "PosAtTopLoss",
    "RankNetLoss",
    "RecallLoss",
    "SimilarityLoss",
    "SNdcgLoss",
    "ScoreLoss",
    "SpearmanLoss",
    "TopRankLoss",
    "embedding_loss",
    "focal_loss",
    "names",
    "ranknet_loss",
]

ON_SCORES: tuple[type[ScoreLoss], ...] = (
    SpearmanLoss,
    MapLoss,
    RecallLoss,
    TopRankLoss,
    PosAtTopLoss,
    RankNetLoss,
    SNdcgLoss,
)
GAMMA = {"cross-entropy": 0.0, "focal_loss": 2.0}
ORDINAL = "ordinal"  # which takes labels for grades in their order


def names() -> tuple[str, ...]:
    """What `embedding_loss` knows."""
    return (*(member.name for member in ON_SCORES), *METRIC_LOSSES, *GAMMA, ORDINAL)


def embedding_loss(name: str, dimensions: int, classes: int, **options: Any) -> nn.Module:
    """The loss called `name`, to be called with embeddings (n, dimensions) and labels (n,) below `classes`.

    It may have parameters of its own, which learn with the network. Raises InvalidInput for an unknown name, with
    those there are, or for an option that the loss does not have or that is out of range.
    """
    made: dict[str, Callable[..., nn.Module]] = {
        **{member.name: _on_similarities(member) for member in ON_SCORES},
        **{rival: _rival(rival) for rival in METRIC_LOSSES},
        **{of: _classifier(dimensions, classes, gamma) for of, gamma in GAMMA.items()},
        ORDINAL: lambda **options: OrdinalLoss(dimensions, classes, **options),
    }
    if name not in made:
        raise InvalidInput(f"there is no loss {name!r}; there are: {', '.join(made)}")
    try:
        return made[name](**options)
    except TypeError as error:
        raise InvalidInput(f"the loss {name} does not have the options {', '.join(options)}") from error


def _on_similarities(member: type[ScoreLoss]) -> Callable[..., nn.Module]:
    return lambda **options: SimilarityLoss(member(**options))


def _rival(name: str) -> Callable[..., nn.Module]:
    return lambda **options: MetricLoss(name, **options)


def _classifier(dimensions: int, classes: int, gamma: float) -> Callable[..., nn.Module]:
    return lambda **options: ClassificationLoss(dimensions, classes, **{"gamma": gamma, **options})
