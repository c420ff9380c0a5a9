"""Rows of a picture that are not of it: bytes that replace others in data without any redundancy.

Uncompressed pixels lie in a file row by row. Other bytes in their midst are a run of noise in a row whose neighbours
are alike; zeros are a band of one value from somewhere in a row to somewhere in another. No picture ends so.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

Grey = NDArray[np.uint8]
Numbers = NDArray[np.float32]

RUN = 20  # pixels of a row
OFF = 50.0  # grey values that a run of noise differs from the rows above and below, and from pixel to pixel
ALIKE = 0.3  # of this, that these rows differ from each other at most
DIFFERENT, MOST = (
    10.0,
    0.9,
)  # grey values that at least this share of the run differs; strokes of letters go on
LEVELS, LEAST_LEVELS = 16, 9  # of a run of noise; letters and lines have few
CLIPPED_OFF, LEAST_CLIPPED = (
    90.0,
    5,
)  # noise beyond the window of a DICOM image has few levels too, and differs more
MOST_RUNS = 50  # that are looked at, those that differ most

BAND_LEAST = 3  # rows of one value
JUMP = 8.0  # mean difference of the rows above and below from this value
STEP = 8  # pixels on each side of the place where a band starts or ends


def has_foreign_rows(grey: Grey) -> bool:
    """Return whether a picture, (height, width), has rows with a run of noise, or a band of one value with a step."""
    return has_noisy_run(grey) or has_stepped_band(grey)


def has_noisy_run(grey: Grey) -> bool:
    """Return whether some pixels in a row are noise, unlike those above and below, which are alike."""
    if len(grey) < 3 or grey.shape[1] < RUN + 1:
        return False
    values = grey.astype(np.float32)
    above, row, below = values[:-2], values[1:-1], values[2:]
    nearer = np.minimum(np.abs(row - above), np.abs(row - below))
    off = _mean_of_runs(nearer)
    apart = _mean_of_runs(np.abs(above - below))
    rough = _mean_of_runs(np.abs(np.diff(row, axis=1, append=row[:, -1:])))
    most = _mean_of_runs((nearer >= DIFFERENT).astype(np.float32)) >= MOST
    score = np.where((apart <= ALIKE * off) & most, np.minimum(off, rough), 0)
    places = np.flatnonzero(score > OFF)
    places = places[np.argsort(-score.ravel()[places])][:MOST_RUNS]
    return any(
        _count_levels(grey[1 + place // score.shape[1]], place % score.shape[1])
        >= (LEAST_CLIPPED if score.ravel()[place] >= CLIPPED_OFF else LEAST_LEVELS)
        for place in places
    )


def has_stepped_band(grey: Grey) -> bool:
    """Return whether rows of one value lie within a picture, and start or end in the middle of a row."""
    flat = (grey == grey[:, :1]).all(axis=1)
    edges = np.flatnonzero(np.diff(np.r_[False, flat, False].astype(np.int8)))
    for first, end in edges.reshape(-1, 2).tolist():
        if end - first < BAND_LEAST or first < 2 or end > len(grey) - 2:
            continue
        value = int(grey[first, 0])
        if (grey[first:end, 0] != value).any():
            continue
        before = _edge(grey[first - 2 : first][::-1, ::-1], value)
        behind = _edge(grey[end : end + 2], value)
        if min(before[0], behind[0]) >= JUMP and max(before[1], behind[1]) >= JUMP:
            return True
    return False


def _edge(rows: Grey, value: int) -> tuple[float, float]:
    """Return how much two rows differ from the band that ends in the first: along its edge, and at its end."""
    first, second = np.abs(rows.astype(np.float32) - value)
    ends = int(np.append(np.flatnonzero(first), len(first))[0])
    along = np.r_[second[:ends], first[ends:]]
    step = second[max(ends - STEP, 0) : ends], first[ends : ends + STEP]
    return float(along.mean()), min((float(side.mean()) if side.size else 0.0) for side in step)


def _mean_of_runs(values: Numbers) -> Numbers:
    """Return the means (h, w - RUN + 1) of RUN pixels of a row from each on."""
    return np.asarray(cv2.blur(values, (RUN, 1))[:, RUN // 2 : values.shape[1] - (RUN - 1) // 2], np.float32)


def _count_levels(row: Grey, start: int) -> int:
    return len(set((row[start : start + RUN] // (256 // LEVELS)).tolist()))
