"""Selection of the next pairs: none twice, each selected image in at least one."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active import strategies
from service.features.annotate.active.candidate_pool import CandidatePool, Pair, Rows, pair_up

if TYPE_CHECKING:
    from cbir.learn.severity.sampled_ranker import SampledRanker  # imports torch


def select_pairs(
    strategy: str,
    severity: SeverityEstimate | None,
    used: Iterable[Pair],
    share_or_count: float | int,
    rng: np.random.Generator,
    allowed: NDArray[np.bool_] | None = None,
) -> Rows:
    """Select new pairs by a strategy.

    Parameters
    ----------
    strategy : str
        One of `strategies.names()`.
    severity : SeverityEstimate, optional
        Estimate for all n images; None for a strategy that needs none.
    used : iterable of pairs
        Pairs that must not be selected again, in either order.
    share_or_count : float or int
        Share (float, 0 to 1) or number (int) of the allowed images to select; about as many pairs are returned.
    rng : numpy.random.Generator
    allowed : (n,) bool, optional
        Images to select from; default all.

    Returns
    -------
    (m, 2) int64
        Rows of the images; empty if all pairs are used.

    Raises
    ------
    InvalidInput
        If arguments do not match.
    """
    selector = strategies.strategy(strategy)
    if severity is None and (allowed is None or selector.needs_severity):
        missing = "the severity of the images" if selector.needs_severity else "the mask of allowed images"
        raise InvalidInput(f"the strategy {strategy} needs {missing}")
    count = len(severity) if severity is not None else len(np.asarray(allowed))
    if selector.needs_encoder and severity is not None and severity.encoder_features is None:
        raise InvalidInput(f"the strategy {strategy} needs the encoder's features of the images")
    if allowed is not None and np.asarray(allowed).shape != (count,):
        raise InvalidInput(f"the mask of allowed images must have {count} entries, one per image")
    if severity is not None and not (
        np.isfinite(severity.mean).all() and np.isfinite(severity.variance).all()
    ):
        raise InvalidInput("severities must be finite numbers; at least one is not")
    pool = CandidatePool(count, severity, used, allowed)
    available = count if allowed is None else int(np.count_nonzero(allowed))
    images = min(share_of(share_or_count, available), len(pool.rows))
    return selector.pairs(pool, images, rng) if images else np.empty((0, 2), np.int64)


def starting_pairs(strategy: str, n: int, share: float, rng: np.random.Generator) -> Rows:
    """Select the pairs of the first round: by the strategy, if it does so, or `first_pairs`.

    Parameters
    ----------
    strategy : str
        One of `strategies.names()`.
    n : int
        Number of images.
    share : float
        Number of pairs as a share of the images, above 0 to 1.
    rng : numpy.random.Generator

    Returns
    -------
    (m, 2) int64

    Raises
    ------
    InvalidInput
        If there are fewer than two images.
    """
    if n < 2 or not strategies.strategy(strategy).selects_first_pairs:
        return first_pairs(n, share, None, rng)
    return select_pairs(strategy, None, (), share, rng, np.ones(n, bool))


def first_pairs(n: int, share: float, pairs: int | None, rng: np.random.Generator) -> Rows:
    """Draw the initial pairs, from random images (Kadota et al., section 3.1).

    Parameters
    ----------
    n : int
        Number of images.
    share : float
        Share of the images to draw, above 0 to 1; each occurs in at least one pair.
    pairs : int, optional
        Number of pairs; default the number of drawn images. If it is too small for them, fewer images are drawn.
    rng : numpy.random.Generator

    Returns
    -------
    (m, 2) int64

    Raises
    ------
    InvalidInput
        If there are fewer than two images or no pair.
    """
    if n < 2:
        raise InvalidInput(f"comparing needs two images; there {'is one' if n == 1 else 'are none'}")
    if pairs is not None and pairs < 1:
        raise InvalidInput(f"at least one initial pair is needed, not {pairs}")
    count = max(2, share_of(float(share), n))
    if pairs is not None:
        count = min(count, 2 * pairs)
    pool = CandidatePool(n, None, (), None)
    return pair_up(pool, rng.choice(n, count, replace=False), count if pairs is None else pairs, rng)


def share_of(share_or_count: float | int, total: int) -> int:
    """Return the number of `total` images that a share (float) or number (int) means; raise InvalidInput."""
    if isinstance(share_or_count, int | np.integer) and not isinstance(share_or_count, bool):
        if share_or_count < 0:
            raise InvalidInput(f"a number of images is 0 or more, not {share_or_count}")
        return min(int(share_or_count), total)
    if isinstance(share_or_count, float) and 0 <= share_or_count <= 1:
        return int(np.ceil(share_or_count * total - 1e-9))
    raise InvalidInput(f"a share is a float from 0 to 1, a number of images an int; not {share_or_count!r}")


def severity_for_strategy(strategy: str, ranker: "SampledRanker", images: NDArray[Any]) -> SeverityEstimate:
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
