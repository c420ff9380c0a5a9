"""Sources whose images change over time: the newest images of each week against earlier ones.

Three statistics have one permutation test. The maximum mean discrepancy (Gretton et al. 2012, A kernel two-sample
test) sees a shift of many images, the novelty of the newer ones, ranked as in conformal prediction (Vovk et al.
2005), a few that are unlike all others, and the shares of newer images among neighbours (after Schilling 1986,
Multivariate two-sample tests based on nearest neighbors) a few that resemble each other, even where there are others
like them.

"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from cbir.gallery.vector_blocks import Floats
from cbir.system.threads import checkpoint
from service.features.audit.audited_images import AuditedImages
from service.features.audit.messages import DriftSource, DriftWeek

NEIGHBOUR = 3  # the older image whose likeness counts: a third of a kind is none of its own
NEAR_BLOCKS = 5  # whose shares of newer ones count
POWER = 4  # of these shares: five newer neighbours of one image tell more than one of each of five
ROUNDING = 1e-6  # of lengths and cosines
DECIMALS = 6  # of statistics: of images that are all alike they differ by rounding
PERMUTATIONS = 999
AT_ONCE = 250  # permutations: memory
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
WINDOW = 200  # newest images that are compared
REFERENCE = 800  # earlier images that they are compared with, a sample of whole blocks
OF_BLOCK = 20  # images of a block: slices of one patient tell little more
LEAST = 40  # images of each of the two; of fewer nothing is said
WEEKS = 52  # that are looked at, and in which one false alarm is accepted
LEAST_EXPECTED = 8  # images of a changed source
MONDAY = 4  # days from a Thursday, the first of January 1970, to the first Monday
Progress = Callable[[int, int], None]


def compare_samples(
    units: Floats, block: Codes, newer: NDArray[np.bool_], permutations: int = PERMUTATIONS, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that the newer images are drawn as the others are.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of one block, as of one patient, stay together when images are exchanged; all are in the same set.
    newer : (n,) bool
        True for the newer images.
    permutations : int
        Number of random exchanges; no p-value is below 1 / (permutations + 1).
    seed : int
        Of the exchanges.

    Returns
    -------
    float
        1 if a set has fewer than two blocks.
    """
    if min(len(np.unique(block[newer])), len(np.unique(block[~newer]))) < 2:
        return 1.0
    statistics = SetStatistics(units, block, ~newer)
    generator = np.random.default_rng(seed)
    parts = [statistics(newer[:, None].astype(np.float32))]
    for start in range(0, permutations, AT_ONCE):
        count = min(AT_ONCE, permutations - start)
        parts.append(statistics(exchange_blocks(block, int(np.count_nonzero(newer)), count, generator)))
    # Each statistic as its rank among its exchanges: one with a long tail does not hide the other.
    above = np.stack([permutations + 1 - rankdata(each, "min") for each in np.concatenate(parts, axis=1)])
    smallest = above.min(axis=0)
    return float(np.count_nonzero(smallest <= smallest[0]) / (permutations + 1))


class SetStatistics:
    """Discrepancy, difference in mean novelty, and neighbourhood of the newer images, for divisions into two sets.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of one block are in the same set, and are no neighbours of each other.
    older : (n,) bool
        True for the images that novelty is measured against.
    """

    def __init__(self, units: Floats, block: Codes, older: NDArray[np.bool_]) -> None:
        cosines = np.asarray(units @ units.T, np.float32)
        self._kernel = gaussian_kernel(cosines)
        self._novelty = novelty_scores(cosines, block, older)
        _, self._first, self._of_image, sizes = np.unique(
            block, return_index=True, return_inverse=True, return_counts=True
        )
        self._weights = (1.0 / sizes[self._of_image]).astype(np.float32)
        centred = units - units.mean(axis=0)
        centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), ROUNDING)
        self._near = nearest_blocks(centred @ centred.T, self._of_image)

    def __call__(self, newer: Floats) -> Numbers:
        """Return the three statistics, (3, b), of b divisions (n, b), 1 for the newer images."""
        inside = newer.sum(axis=0)
        weights = newer / inside - (1.0 - newer) / (len(newer) - inside)
        discrepancy = np.einsum("nb,nb->b", weights, self._kernel @ weights)
        each = np.stack([discrepancy, self._novelty @ weights, self._neighbourhood(newer)])
        return np.asarray(np.round(each, DECIMALS), np.float64)

    def _neighbourhood(self, newer: Floats) -> Numbers:
        """Return the mean (b,), over newer blocks and their images, of the power of the share of newer neighbours."""
        newer_blocks = newer[self._first]
        shares = sum(newer_blocks[column] for column in self._near.T) / self._near.shape[1]
        total = np.einsum("nb,nb,n->b", shares**POWER, newer, self._weights)
        return np.asarray(total / newer_blocks.sum(axis=0), np.float64)


def gaussian_kernel(cosines: Floats) -> Floats:
    """Return the kernel (n, n) whose width is the median distance, without the images' likeness to themselves."""
    squared = np.maximum(2.0 - 2.0 * cosines, 0.0)
    width = max(float(np.median(squared)), 1e-6)
    kernel = np.exp(-squared / width).astype(np.float32)
    np.fill_diagonal(kernel, 0.0)
    return np.asarray(kernel, np.float32)


def novelty_scores(cosines: Floats, block: Codes, older: NDArray[np.bool_]) -> Numbers:
    """Return a score (n,) for each image, high if it is unlike the older images of other blocks.

    The score is the squared logarithm of the rank of its likeness: few images unlike the others weigh much.

    Parameters
    ----------
    cosines : (n, n) float32
    block : (n,) int64
        Images of one block are not compared with each other.
    older : (n,) bool
        True for the older images.
    """
    others = np.where(block[:, None] == block[older], -1.0, cosines[:, older])
    position = others.shape[1] - min(NEIGHBOUR, others.shape[1])
    likeness = np.partition(others, position, axis=1)[:, position]
    return np.asarray(np.log(rankdata(likeness) / (len(likeness) + 1)) ** 2)


def nearest_blocks(cosines: Floats, of_image: Codes) -> Codes:
    """Return for each image the other blocks (n, k) that have the images most like it.

    Parameters
    ----------
    cosines : (n, n) float32
    of_image : (n,) int64
        Numbers of the blocks, from 0 to at least 1; k is NEAR_BLOCKS, or their number without one if that is less.
    """
    order = np.argsort(of_image, kind="stable")
    starts = np.searchsorted(of_image[order], np.arange(of_image.max() + 1))
    likeness = np.maximum.reduceat(cosines[:, order], starts, axis=1)
    # Among equals, as in images that are all alike, the first would be the older ones.
    likeness += ROUNDING * np.random.default_rng(0).random(likeness.shape, np.float32)
    likeness[np.arange(len(of_image)), of_image] = -np.inf
    k = min(NEAR_BLOCKS, len(starts) - 1)
    return np.asarray(np.argpartition(likeness, -k, axis=1)[:, -k:], np.int64)


def exchange_blocks(block: Codes, count: int, permutations: int, generator: np.random.Generator) -> Floats:
    """Return divisions (n, permutations) into sets, 1 for the newer.

    Parameters
    ----------
    block : (n,) int64
        Images of one block are in the same set.
    count : int
        Newer images, about.
    permutations : int
        Number of divisions.
    generator : numpy.random.Generator
    """
    names, sizes = np.unique(block, return_counts=True)
    of_image = np.searchsorted(names, block)
    divisions = np.empty((len(block), permutations), np.float32)
    for number in range(permutations):
        order = generator.permutation(len(names))
        nearest = int(np.abs(np.cumsum(sizes[order]) - count).argmin()) + 1
        newer = np.zeros(len(names), np.float32)
        newer[order[: min(nearest, len(names) - 1)]] = 1.0
        divisions[:, number] = newer[of_image]
    return divisions


def count_alarms(weeks: Sequence[bool]) -> int:
    """Return the number of runs of alarms in consecutive checks, which share images."""
    return sum(alarm and not before for before, alarm in pairwise([False, *weeks]))


def alarm_threshold(sources: int) -> float:
    """Return the p-value of an alarm: one false alarm is expected in a year of weekly checks of all sources."""
    return 1.0 / (WEEKS * max(sources, 1))


def find_drift(
    images: AuditedImages,
    source: Codes,
    names: list[str],
    progress: Progress = lambda done, total: None,
) -> list[DriftSource]:
    """Check each source for each of its last weeks with new images.

    Parameters
    ----------
    images : AuditedImages
        n images, in the order in which they were added.
    source : (n,) int64
        Codes of their sources; -1: none.
    names : list of str
        Sources by code.
    progress : callable
        Called with sources done and sources in all.
    """
    week = (images.added.astype("datetime64[D]").astype(np.int64) - MONDAY) // 7
    has_day = ~np.isnat(images.added)
    threshold = alarm_threshold(len(names))
    drifts = []
    for code, name in enumerate(names):
        progress(code, len(names))
        rows = np.flatnonzero((source == code) & has_day)
        weeks = _check_source(images, rows, week[rows], threshold)
        alarms, count = count_alarms([week.alarm for week in weeks]), int(np.count_nonzero(source == code))
        drifts.append(DriftSource(source=name, images=count, alarms=alarms, weeks=weeks))
    progress(len(names), len(names))
    return drifts


def _check_source(images: AuditedImages, rows: Codes, week: Codes, threshold: float) -> list[DriftWeek]:
    checks = []
    order = np.argsort(week, kind="stable")
    rows, week = rows[order], week[order]
    for number in np.unique(week)[1:][-WEEKS:].tolist():
        checkpoint()
        stop = int(np.searchsorted(week, number, side="right"))
        start = max(stop - WINDOW, 0)
        newer = rows[start:stop]
        earlier = rows[:start][~np.isin(images.block[rows[:start]], images.block[newer])]
        if min(len(newer), len(earlier)) < LEAST:
            continue
        p, least_expected = check_window(images.units, images.block, earlier, newer, threshold)
        monday = (np.datetime64(0, "D") + (number * 7 + MONDAY)).item()
        added = stop - int(np.searchsorted(week, number))
        alarm, rows_shown = p <= threshold, least_expected.tolist() if p <= threshold else []
        image_ids = [images.image_ids[row] for row in rows_shown]
        p = round(p, DECIMALS)
        checks.append(DriftWeek(monday=monday, images=added, p=p, alarm=alarm, image_ids=image_ids))
    return checks


def check_window(
    units: Floats, block: Codes, earlier: Codes, newer: Codes, threshold: float
) -> tuple[float, Codes]:
    """Compare rows `newer` with a sample of `earlier`; return the p-value and the least expected of the new rows.

    Parameters
    ----------
    units : (n, d) float32
    block : (n,) int64
    earlier, newer : (e,), (m,) int64
        Rows without common blocks.
    threshold : float
        p-value of an alarm, which decides how many permutations are needed to tell.
    """
    newer = newer[block_ranks(block[newer]) < OF_BLOCK]
    reference = sample_blocks(block, earlier[block_ranks(block[earlier]) < OF_BLOCK], REFERENCE)
    rows = np.concatenate([reference, newer])
    is_newer = np.arange(len(rows)) >= len(reference)
    permutations = max(999, round(4 / threshold))
    p = compare_samples(units[rows], block[rows], is_newer, permutations)
    likeness = np.partition(units[newer] @ units[reference].T, -3, axis=1)[:, -3]
    return p, newer[np.argsort(likeness, kind="stable")[:LEAST_EXPECTED]]


def block_ranks(block: Codes) -> Codes:
    """Return for each image (n,) the number of earlier images of its block (n,)."""
    order = np.argsort(block, kind="stable")
    ascending = block[order]
    ranks = np.empty(len(block), np.int64)
    ranks[order] = np.arange(len(block)) - np.searchsorted(ascending, ascending)
    return ranks


def sample_blocks(block: Codes, rows: Codes, most: int) -> Codes:
    """Return rows of whole blocks in random order, at most `most`, and of two blocks at least.

    A sample of images instead of blocks would leave fewer of each patient than the newer images have, which differ
    then without any change.

    Parameters
    ----------
    block : (n,) int64
    rows : (m,) int64
        Rows to take from.
    most : int
        Number of rows.
    """
    names, of_row, sizes = np.unique(block[rows], return_inverse=True, return_counts=True)
    order = np.random.default_rng(0).permutation(len(names))
    fitting = int(np.searchsorted(np.cumsum(sizes[order]), most, side="right"))
    return rows[np.isin(of_row, order[: max(fitting, 2)])]
