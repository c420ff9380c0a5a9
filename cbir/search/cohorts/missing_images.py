"""Judged images of a cohort, and an estimate of how many are missing, with an interval."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from cbir.gallery.vector_blocks import Doubles

Advice = Literal["continue", "nearly complete", "complete"]
# Chosen on half of the classes of composite images; bench/cohorts.py measures the coverage on the other half.
RECENT = 96  # last proposed images, on which the sum of probabilities is checked
PRIOR = 1.0  # images, predicted and observed, before any was judged
SHAPE = 2.0  # of the gamma distribution of the error of the sum of probabilities
IMPROBABLE = 0.2  # probability of images below which one that is relevant was not expected
# Improbable images judged until two thirds of the strays are found: how many is not known.
SEARCHED = (50.0, 100.0, 200.0, 400.0, 800.0)
DRAWS = 4000


class ProposedImage(NamedTuple):
    """Image to judge next.

    probability: that it is relevant, as estimated. drawn: it was drawn at random, and is not among the most probable.
    """

    image_id: str
    probability: float
    drawn: bool


class JudgedImage(NamedTuple):
    """Judged image. probability, drawn: as it was proposed; None for an image that the user has found otherwise."""

    image_id: str
    relevant: bool
    probability: float | None = None
    drawn: bool = False


STRAYS, STRAYS_SHAPE = 0.03, 0.3  # such images as a share of those found, before any was judged; shape


REMOTE, REMOTE_SHAPE = 0.75, 0.3  # images that no search by likeness finds, mean and shape


COMPLETE, NEARLY = 0.95, 0.9  # recall


class MissingImages(NamedTuple):
    """Estimate of a cohort.

    found: number of images judged relevant. missing: expected number of others. low, high: its 95 % interval.
    """

    found: int
    missing: float
    low: int
    high: int

    @property
    def recall(self) -> float:
        """Estimated share of the cohort that is found."""
        return self._share(self.missing)

    @property
    def recall_low(self) -> float:
        """Lower end of the 95 % interval of the recall."""
        return self._share(self.high)

    @property
    def recall_high(self) -> float:
        """Upper end of the 95 % interval of the recall."""
        return self._share(self.low)

    @property
    def advice(self) -> Advice:
        """Advice to go on or to stop."""
        if self.recall_low >= COMPLETE:
            return "complete"
        return "nearly complete" if self.recall >= NEARLY else "continue"

    def _share(self, missing: float) -> float:
        return round(self.found / max(self.found + missing, 1.0), 4)


def estimate_missing(judged: Sequence[JudgedImage], expected: float, unjudged: int) -> MissingImages:
    """Return an estimate of the relevant images that have not been judged.

    The classifier's probabilities, summed over the images that are not judged, expect a number. What came of the last
    images corrects it: their probabilities were stated before they were judged (prequential testing, Dawid 1984). The
    number is Poisson distributed, and its rate gamma distributed about that.

    Strays are relevant images that the classifier does not expect. Those found among the improbable images, and the
    number of these that were judged, give a gamma distribution of the rate of those that are left. How fast they
    turn up is not known: each speed of SEARCHED has the weight that the places of the strays among the improbable
    images give it. All parts are Poisson processes, as in the reviews of documents (Stevenson & Bin-Hezam 2023,
    "Stopping methods for technology-assisted reviews based on point processes"). Remote images, a group unlike all
    that were found, leave no trace before one of them is seen: they add the same to the upper end of each cohort.

    Parameters
    ----------
    judged : sequence of JudgedImage
        Judgements in their order.
    expected : float
        Sum of the probabilities of the images that are not judged.
    unjudged : int
        Number of these images, the most that can be missing.
    """
    found_count = sum(image.relevant for image in judged)
    if not unjudged:
        return MissingImages(found_count, 0.0, 0, 0)
    proposed = [(image.probability, image.relevant) for image in judged if image.probability is not None]
    random = np.random.default_rng(0)  # the same estimate whenever it is asked for
    expected_counts = random.poisson(_corrected(expected, proposed) * random.gamma(SHAPE, 1 / SHAPE, DRAWS))
    strays = random.poisson(_draw_strays(found_count, proposed, random))
    left_share = unjudged / (unjudged + len(judged))
    remote = random.poisson(random.gamma(REMOTE_SHAPE, REMOTE * left_share / REMOTE_SHAPE, DRAWS))
    counts = np.minimum(expected_counts + strays + remote, unjudged)
    low = np.quantile(np.minimum(expected_counts, unjudged), 0.025, method="nearest")
    high = np.quantile(counts, 0.975, method="nearest")
    return MissingImages(found_count, float(np.clip(counts.mean(), low, high)), int(low), int(high))


def _corrected(expected: float, proposed: Sequence[tuple[float, bool]]) -> float:
    recent = proposed[-RECENT:]
    predicted = sum(probability for probability, _ in recent)
    observed = sum(relevant for _, relevant in recent)
    return float(expected * (observed + PRIOR) / (predicted + PRIOR))


def _draw_strays(
    found_count: int, proposed: Sequence[tuple[float, bool]], random: np.random.Generator
) -> Doubles:
    """Return draws (DRAWS,) of the expected number of strays that are left.

    Strays turn up with a rate that falls exponentially with the improbable images judged. The number of all strays
    has a gamma prior, which is integrated out to weigh the speeds of the fall.
    """
    improbable = [(probability, relevant) for probability, relevant in proposed if probability < IMPROBABLE]
    stray_ranks = np.array([rank + 0.5 for rank, (_, relevant) in enumerate(improbable) if relevant])
    surplus = max(sum(relevant - probability for probability, relevant in improbable), 0.0)
    shape, rate = STRAYS_SHAPE + surplus, STRAYS_SHAPE / (STRAYS * max(found_count, 1))
    lengths = np.array(SEARCHED)
    searched = -np.expm1(-len(improbable) / lengths)
    mean_rank = stray_ranks.mean() if len(stray_ranks) else 0.0
    logs = -shape * np.log(rate + searched) - surplus * (np.log(lengths) + mean_rank / lengths)
    weights = np.exp(logs - logs.max())
    speeds = random.choice(len(lengths), DRAWS, p=weights / weights.sum())
    return random.gamma(shape, 1.0, DRAWS) * (1.0 - searched[speeds]) / (rate + searched[speeds])
