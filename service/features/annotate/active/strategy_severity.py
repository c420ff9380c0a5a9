"""Severity estimates with what a strategy needs."""

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.learn.severity.sampled_ranker import SampledRanker
from service.features.annotate.active import strategies


def severity_for_strategy(strategy: str, ranker: SampledRanker, images: NDArray[Any]) -> SeverityEstimate:
    """Return the severity of images, with the encoder's features if a strategy needs them.

    Parameters
    ----------
    strategy : str
        One of `strategies.names()`.
    ranker : SampledRanker
        Fitted.
    images : (n, ...)
        Pictures or values, as the ranker takes them.

    Returns
    -------
    SeverityEstimate

    Raises
    ------
    InvalidInput
        If the strategy needs an encoder and the ranker learns from pictures.
    """
    severity = ranker.severity(images)
    if not strategies.strategy(strategy).needs_encoder:
        return severity
    return replace(severity, encoder_features=ranker.encoder_features(images))
