"""Estimate of how many images of a cohort are missing, with an interval."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from cbir.cohorts.judged_image import JudgedImage

Advice = Literal["continue", "nearly complete", "complete"]

# Fitted to half of the classes of composite images; bench/cohorts.py measures the coverage on the other half.
RECENT = 96  # last proposed images, on which the probabilities are checked
PRIOR = 1.0  # images, predicted and observed, before any was judged
TRUST = 0.8  # power of the ratio of observed to predicted images
SHAPE, SHAPE_PER_IMAGE = 1.0, 0.05  # of the gamma distribution of the error of the sum of probabilities
STRAYS, STRAYS_SHAPE = (
    0.02,
    0.2,
)  # images unlike all that are found, as a share of these; shape of its distribution
DRAWS = 4000
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
        """Whether to go on."""
        if self.recall_low >= COMPLETE:
            return "complete"
        return "nearly complete" if self.recall >= NEARLY else "continue"

    def _share(self, missing: float) -> float:
        return round(self.found / max(self.found + missing, 1.0), 4)


def estimate_missing(judged: Sequence[JudgedImage], expected: float, unjudged: int) -> MissingImages:
    """Return how many relevant images nobody has judged.

    The classifier's probabilities, summed over the images that are not judged, expect a number. What came of the last
    images corrects it: their probabilities were stated before they were judged, as in prequential testing (Dawid
    1984). The number is Poisson distributed with a rate of a gamma distribution, which narrows as more are found. To it
    comes a share of images that are unlike those found, mostly none. Counts of Poisson processes estimate what is
    missing in the reviews of documents, too (Stevenson & Bin-Hezam 2023, "Stopping methods for technology-assisted
    reviews based on point processes").

    Parameters
    ----------
    judged : sequence of JudgedImage
        Judgements in their order.
    expected : float
        Sum of the probabilities of the images that are not judged.
    unjudged : int
        Number of these images, the most that can be missing.
    """
    found = sum(image.relevant for image in judged)
    if not unjudged:
        return MissingImages(found, 0.0, 0, 0)
    recent = [image for image in judged if image.probability is not None][-RECENT:]
    predicted = sum(image.probability or 0.0 for image in recent)
    observed = sum(image.relevant for image in recent)
    rate = expected * ((observed + PRIOR) / (predicted + PRIOR)) ** TRUST
    shape = SHAPE + SHAPE_PER_IMAGE * found
    random = np.random.default_rng(0)  # the same estimate whenever it is asked for
    counts = random.poisson(rate * random.gamma(shape, 1 / shape, DRAWS))
    counts += random.poisson(STRAYS * found * random.gamma(STRAYS_SHAPE, 1 / STRAYS_SHAPE, DRAWS))
    np.minimum(counts, unjudged, out=counts)
    low, high = np.quantile(counts, [0.025, 0.975], method="nearest")
    return MissingImages(found, float(counts.mean()), int(low), int(high))
