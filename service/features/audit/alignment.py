"""Alignment of two small pictures, and how much their detail agrees."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from service.features.audit.duplicate_pictures import Picture, to_square

COARSE = 32  # side of the pictures that are aligned first
STEPS = 3  # of an alignment; more find no more copies
WINDOW = 5  # pixels of the windows that are correlated
SMOOTHING = 1.0  # pixels of standard deviation: takes out what compression and interpolation change
CONTRAST = 3.0  # grey levels of standard deviation of a window that shows something
LEAST_WINDOWS = 20
QUANTILES = 2, 4, 50  # the half, the quarter and the fiftieth of the windows that agree least
LEAST_ROUGH = 0.7  # lower quartile below which a rough alignment is not refined; copies had at least 0.73
MOST_STRETCH = 1.06  # ratio of the two scales of an alignment: copies keep their proportions
SCALES = 0.8, 1.25
MOST_DEGREES = 20.0
STILL_DEGREES, STILL_SCALE = 1.0, 0.02  # within which a picture has not moved

IDENTITY = np.eye(2, 3, dtype=np.float32)
_NEIGHBOURHOOD = np.ones((WINDOW + 2, WINDOW + 2), np.uint8)


@dataclass(frozen=True, eq=False)
class Alignment:
    """Map of the first picture's pixels to the second's, with the quantiles of the correlation of their windows.

    transform: (2, 3) float32. median, quarter, weakest: of the correlation of windows, the last one that two in a
    hundred do not reach. covered: share of the first picture.
    """

    transform: Floats
    median: float
    quarter: float
    weakest: float
    covered: float

    @property
    def degrees(self) -> float:
        """Rotation, without sign."""
        a = self.transform
        return float(abs(np.degrees(np.arctan2(a[1, 0] - a[0, 1], a[0, 0] + a[1, 1]))))

    @property
    def scale(self) -> float:
        """Mean scale."""
        return float(np.sqrt(max(np.linalg.det(self.transform[:, :2].astype(float)), 0.0)))

    @property
    def moved(self) -> bool:
        """True if the second picture is rotated or scaled."""
        return self.degrees > STILL_DEGREES or abs(self.scale - 1) > STILL_SCALE

    @property
    def plausible(self) -> bool:
        """True if a copy can be rotated and scaled like this."""
        scales = np.linalg.svd(self.transform[:, :2].astype(float), compute_uv=False)
        proportional = scales[0] <= MOST_STRETCH * max(scales[1], 1e-6)
        return bool(
            proportional and SCALES[0] < self.scale < SCALES[1] and self.degrees < MOST_DEGREES
            and self.covered > 0.5
        )  # fmt: skip


class Windows(NamedTuple):
    """A smoothed picture (s, s), with mean and variance of the window about each pixel."""

    smoothed: Floats
    mean: Floats
    variance: Floats


def align_roughly(
    first: Picture, second: Picture, start: Floats = IDENTITY, known: Windows | None = None
) -> Alignment | None:
    """Align two pictures (s, s) that are rotated and cropped a little, by less detail; None if they are unlike.

    Parameters
    ----------
    first, second : (s, s) uint8
    start : (2, 3) float32
        Map from which the alignment begins.
    known : Windows, optional
        Of the first picture.
    """
    a, b = (np.asarray(cv2.equalizeHist(to_square(p, COARSE)), np.uint8) for p in (first, second))
    transform = _refine(a, b, scaled(start, COARSE / len(first)), blur=5)
    if transform is None:
        return None
    rough = compare(known or windows(first), second, scaled(transform, len(first) / COARSE))
    return rough if rough.quarter >= LEAST_ROUGH else None


def align_from(first: Picture, second: Picture, transform: Floats) -> Alignment:
    """Align two pictures (s, s) by a `transform` (2, 3), refined."""
    refined = _refine(first, second, transform, blur=3)
    aligned = compare(first, second, transform if refined is None else refined)
    return aligned if aligned.plausible else Alignment(aligned.transform, 0.0, 0.0, 0.0, aligned.covered)


def scaled(transform: Floats, factor: float) -> Floats:
    """Return a transform (2, 3) for pictures that are larger by a factor; the middle of a pixel is at 0."""
    larger = transform.copy()
    middle = (factor - 1) / 2  # of the first pixel, once larger
    larger[:, 2] = factor * transform[:, 2] + middle - transform[:, :2].sum(axis=1) * middle
    return larger


def _refine(first: Picture, second: Picture, start: Floats, blur: int) -> Floats | None:
    """Maximise the correlation (Evangelidis & Psarakis 2008); None if that fails, as for unlike pictures."""
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, STEPS, 1e-4)
    everywhere = np.full(second.shape, 255, np.uint8)
    try:
        _, transform = cv2.findTransformECC(
            first, second, start.copy(), cv2.MOTION_AFFINE, criteria, everywhere, blur
        )
    except cv2.error:
        return None
    return np.asarray(transform, np.float32)


def windows(picture: Picture, smoothing: float = SMOOTHING) -> Windows:
    """Smooth a picture (s, s) by so many pixels of standard deviation, and describe its windows."""
    smoothed = smooth(picture, smoothing)
    mean = _mean(smoothed)
    return Windows(smoothed, mean, np.maximum(_mean(smoothed * smoothed) - mean * mean, 0))


def compare(
    first: Picture | Windows, second: Picture, transform: Floats, smoothing: float = SMOOTHING
) -> Alignment:
    """Correlate windows of the first picture (s, s) with those that a transform (2, 3) finds in the second.

    smoothing: of both, in pixels of standard deviation.
    """
    a = first if isinstance(first, Windows) else windows(first, smoothing)
    if transform is IDENTITY:
        covered, inside = 1.0, _within_edges(len(second))
    else:
        second, covering = warp(second, transform)
        covered, inside = np.count_nonzero(covering) / covering.size, _away_from_edges(covering)
    b = windows(second, smoothing)
    covariance = _mean(a.smoothed * b.smoothed) - a.mean * b.mean
    telling = inside & (np.maximum(a.variance, b.variance) > CONTRAST**2)
    if np.count_nonzero(telling) < LEAST_WINDOWS:
        return Alignment(transform, 0.0, 0.0, 0.0, covered)
    correlation = (covariance / np.sqrt(np.maximum(a.variance * b.variance, 1e-6)))[telling]
    quantile_ranks = [len(correlation) // share for share in QUANTILES]
    correlation.partition(quantile_ranks)  # np.quantile takes five times as long
    median, quarter, weakest = correlation[quantile_ranks].tolist()
    return Alignment(transform, median, quarter, weakest, covered)


def warp(picture: Picture, transform: Floats) -> tuple[Picture, NDArray[np.bool_]]:
    """Return a picture (s, s) in the place of the first, and which pixels (s, s) it covers."""
    side = len(picture)
    warped = cv2.warpAffine(picture, transform, (side, side), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    full = np.full((side, side), 255, np.uint8)
    inside = cv2.warpAffine(full, transform, (side, side), flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP)
    return np.asarray(warped, np.uint8), np.asarray(inside) > 0


@cache
def _within_edges(side: int) -> NDArray[np.bool_]:
    return _away_from_edges(np.ones((side, side), bool))


def _away_from_edges(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels whose windows lie inside."""
    return cv2.erode(inside.view(np.uint8), _NEIGHBOURHOOD, borderValue=0) > 0


def smooth(picture: Picture, deviation: float) -> Floats:
    """Smooth a picture by a Gaussian of this standard deviation in pixels."""
    return np.asarray(cv2.GaussianBlur(picture.astype(np.float32), (0, 0), deviation), np.float32)


def _mean(values: Floats) -> Floats:
    return np.asarray(cv2.blur(values, (WINDOW, WINDOW)), np.float32)
