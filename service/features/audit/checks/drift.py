"""Sources whose images change over time: the newest images of each week against earlier ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.system.cancellation import checkpoint
from service.features.audit.checks.audited_images import AuditedImages
from service.features.audit.checks.two_samples import compare_samples

WINDOW = 200  # newest images that are compared
REFERENCE = 800  # earlier images that they are compared with, a sample of whole blocks
OF_BLOCK = 20  # images of a block: slices of one patient tell little more
LEAST = 40  # images of each of the two; of fewer nothing is said
WEEKS = 52  # that are looked at, and in which one false alarm is accepted
LEAST_EXPECTED = 8  # images of a changed source
MONDAY = 4  # days from a Thursday, the first of January 1970, to the first Monday

Codes = NDArray[np.int64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DriftCheck:
    """Check of a source at the end of a week. p: see `compare_samples`. rows: of the least expected new images."""

    monday: date
    images: int
    p: float
    alarm: bool
    rows: tuple[int, ...]


@dataclass(frozen=True)
class SourceDrift:
    """Weekly checks of a source, the oldest first; none if its images were added in too few weeks."""

    source: str
    images: int
    checks: tuple[DriftCheck, ...]

    @property
    def alarms(self) -> int:
        """Number of alarms; those of consecutive checks are one, since they share images."""
        return count_alarms([check.alarm for check in self.checks])


def count_alarms(weeks: Sequence[bool]) -> int:
    """Return the number of runs of alarms in consecutive checks."""
    return sum(alarm and not before for before, alarm in pairwise([False, *weeks]))


def alarm_threshold(sources: int) -> float:
    """Return the p-value of an alarm: one false alarm is expected in a year of weekly checks of all sources."""
    return 1.0 / (WEEKS * max(sources, 1))


def find_drift(
    images: AuditedImages,
    source: Codes,
    names: list[str],
    progress: Progress = lambda done, total: None,
) -> list[SourceDrift]:
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
        checks = _check_source(images, rows, week[rows], threshold)
        drifts.append(SourceDrift(name, int(np.count_nonzero(source == code)), checks))
    progress(len(names), len(names))
    return drifts


def _check_source(
    images: AuditedImages, rows: Codes, week: Codes, threshold: float
) -> tuple[DriftCheck, ...]:
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
        checks.append(DriftCheck(monday, added, p, p <= threshold, tuple(least_expected.tolist())))
    return tuple(checks)


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
