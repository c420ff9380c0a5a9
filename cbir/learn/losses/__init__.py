"""Losses that train a network to rank. A new one is a class and a line here.

`ScoreLoss` and its subclasses take scores and relevance (batch, d). `embedding_loss` makes losses on embeddings
(n, k) and labels (n,) by name, those on scores included.
"""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from cbir.errors import InvalidInput
from cbir.learn.losses.embedding_losses import (
    METRIC_LOSSES,
    ClassificationLoss,
    CornLoss,
    MetricLoss,
    OrdinalLoss,
    RankNContrastLoss,
    SimilarityLoss,
    focal_loss,
)
from cbir.learn.losses.rank_losses import MapLoss, RecallAtKLoss, RecallLoss, RoadmapLoss, SpearmanLoss
from cbir.learn.losses.score_losses import (
    PartialAucLoss,
    PosAtTopLoss,
    RankNetLoss,
    ScoreLoss,
    SNdcgLoss,
    TopRankLoss,
    ranknet_loss,
)

__all__ = [
    "ClassificationLoss",
    "CornLoss",
    "MapLoss",
    "MetricLoss",
    "OrdinalLoss",
    "PartialAucLoss",
    "PosAtTopLoss",
    "RankNContrastLoss",
    "RankNetLoss",
    "RecallAtKLoss",
    "RecallLoss",
    "RoadmapLoss",
    "SNdcgLoss",
    "ScoreLoss",
    "SimilarityLoss",
    "SpearmanLoss",
    "TopRankLoss",
    "embedding_loss",
    "focal_loss",
    "names",
    "option_names",
    "ranknet_loss",
]

ON_SCORES: tuple[type[ScoreLoss], ...] = (
    SpearmanLoss,
    MapLoss,
    RecallLoss,
    TopRankLoss,
    PosAtTopLoss,
    PartialAucLoss,
    RankNetLoss,
    SNdcgLoss,
    RoadmapLoss,
    RecallAtKLoss,
)
FOCAL_GAMMA = 2.0
ON_GRADES = ("ordinal", "corn", "rank-n-contrast")  # labels are grades in ascending order


def names() -> tuple[str, ...]:
    """Return the names that `embedding_loss` accepts."""
    return (*(member.name for member in ON_SCORES), *METRIC_LOSSES, "cross-entropy", "focal", *ON_GRADES)


def option_names(name: str) -> tuple[str, ...]:
    """Return the options of the loss `name`. Raises InvalidInput for an unknown name."""
    parameters = inspect.signature(_maker(name, 1, 2)).parameters.values()
    return tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)


def embedding_loss(name: str, dimensions: int, classes: int, **options: Any) -> nn.Module:
    """Make a loss on embeddings (n, dimensions) and labels (n,) from 0 to classes - 1.

    Parameters
    ----------
    name : str
        One of `names()`.
    dimensions : int
        Length of an embedding.
    classes : int
        Number of classes.
    **options
        Options of the loss: see `option_names`.

    Returns
    -------
    nn.Module
        Its parameters, if any, are trained with the network.

    Raises
    ------
    InvalidInput
        If the name or an option is unknown, or an option is out of range or of another type.
    """
    accepted = option_names(name)
    if unknown := [option for option in options if option not in accepted]:
        listed = ", ".join(accepted) or "none"
        raise InvalidInput(f"the loss {name} does not take {', '.join(unknown)}; its options: {listed}")
    try:
        loss = _maker(name, dimensions, classes)(**options)
    except TypeError as error:
        raise InvalidInput(f"the loss {name} takes no such value: {error}") from error
    return SimilarityLoss(loss) if isinstance(loss, ScoreLoss) else loss


def _maker(name: str, dimensions: int, classes: int) -> Callable[..., nn.Module]:
    """Return a function whose parameters are the options of the loss."""
    makers: dict[str, Callable[..., nn.Module]] = {
        **{loss.name: loss for loss in ON_SCORES},
        **METRIC_LOSSES,
        "cross-entropy": lambda weights=None: ClassificationLoss(dimensions, classes, 0.0, weights),
        "focal": lambda gamma=FOCAL_GAMMA, weights=None: ClassificationLoss(
            dimensions, classes, gamma, weights
        ),
        "ordinal": lambda: OrdinalLoss(dimensions, classes),
        "corn": lambda: CornLoss(dimensions, classes),
        "rank-n-contrast": RankNContrastLoss,
    }
    if name not in makers:
        raise InvalidInput(f"there is no loss {name!r}; there are: {', '.join(makers)}")
    return makers[name]
