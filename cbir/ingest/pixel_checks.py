"""Findings of the intake check, and those of an image by itself: blank, damaged, with burned-in text."""

from collections.abc import Iterable
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.images import Image
from cbir.images.image import row_blocks
from cbir.ingest.burned_in_text import find_burned_in_text
from cbir.store.records.records import FINDINGS_LABEL, Record

FINDINGS = {
    "text": "text is burned into the pixels",
    "blank": "the image shows nothing",
    "damaged": "a part of the image is missing or replaced",
    "inverted": "its negative looks more like the collection than it does",
    "modality": "it looks like images of another modality",
    "unlike": "nothing in the collection looks like it",
}

JOINED = "+"


def findings_of(record: Record) -> list[str]:
    """Return the findings in the label of a record, in the order of FINDINGS; unknown words are left out."""
    words = record.labels.get(FINDINGS_LABEL, "").split(JOINED)
    return [finding for finding in FINDINGS if finding in words]


def with_findings(record: Record, findings: Iterable[str]) -> Record:
    """Return the record with further findings in its label."""
    words = {*findings_of(record), *findings}
    if not words:
        return record
    value = JOINED.join(finding for finding in FINDINGS if finding in words)
    return replace(record, labels=record.labels | {FINDINGS_LABEL: value})


Grey = NDArray[np.uint8]

Numbers = NDArray[np.float32]

RUN = 20  # pixels of a row

OFF = 50.0  # grey values that a run of noise differs from the rows above and below, and from pixel to pixel

ALIKE = 0.3  # of this, that these rows differ from each other at most

SMOOTHER = 0.5  # of the noise, that one of these rows has at most; grids and halftones have as much

DIFFERENT = 10.0  # grey values that most pixels of the run differ; strokes of letters go on

MOST = 0.9  # of the pixels of the run

LEVELS, LEAST_LEVELS = 16, 9  # of a run of noise; letters and lines have few

CLIPPED_OFF = 90.0  # grey values that noise beyond the window of a DICOM image differs, which has few levels

LEAST_CLIPPED = 5  # levels of such noise

MOST_RUNS = 50  # that are looked at in a block of rows, those that differ most

STEPPED_BAND_LEAST = 3  # rows of one value

BESIDE = 3  # rows above and below that are looked at

JUMP = 8.0  # mean difference of the rows above and below from this value

STEP = 8  # pixels on each side of the place where a band starts or ends

STEP_SHARE = 0.75  # of them that differ from the value; strokes of letters are narrower


def has_foreign_rows(grey: Grey) -> bool:
    """Return whether a picture, (height, width), has rows with a run of noise, or a band of one value with a step."""
    return has_noisy_run(grey) or has_stepped_band(grey)


def has_noisy_run(grey: Grey) -> bool:
    """Return whether some pixels in a row are noise, unlike those above and below, which are alike and smoother."""
    if len(grey) < 3 or grey.shape[1] < RUN + 1:
        return False
    blocks = row_blocks(len(grey) - 2, grey.shape[1])
    return any(_has_noisy_run(grey[rows.start : rows.stop + 2]) for rows in blocks)


def _has_noisy_run(grey: Grey) -> bool:
    """Look at all rows but the first and the last."""
    values = grey.astype(np.float32)
    above, row, below = values[:-2], values[1:-1], values[2:]
    nearer = np.minimum(np.abs(row - above), np.abs(row - below))
    off = _mean_of_runs(nearer)
    apart = _mean_of_runs(np.abs(above - below))
    rough = _mean_of_runs(np.abs(np.diff(values, axis=1, append=values[:, -1:])))
    smoother = np.minimum(rough[:-2], rough[2:]) <= SMOOTHER * rough[1:-1]
    most = _mean_of_runs((nearer >= DIFFERENT).astype(np.float32)) >= MOST
    score = np.where((apart <= ALIKE * off) & smoother & most, np.minimum(off, rough[1:-1]), 0)
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
        if end - first < STEPPED_BAND_LEAST or first < BESIDE or end > len(grey) - BESIDE:
            continue
        value = int(grey[first, 0])
        if (grey[first:end, 0] != value).any():
            continue
        before = _edge(grey[first - BESIDE : first][::-1, ::-1], value)
        behind = _edge(grey[end : end + BESIDE], value)
        if min(before[0], behind[0]) >= JUMP and max(before[1], behind[1]) >= JUMP:
            return True
    return False


def _edge(rows: Grey, value: int) -> tuple[float, float]:
    """Return how much the rows beside a band that ends in the first differ from it: along its edge, and at its end.

    Both are 0 where the band goes on in the second row, but less far in the third: it is the slant of a tilted film.
    """
    differences = np.abs(rows.astype(np.float32) - value)
    first, second, _ = differences
    ends, remains, goes_on = (int(np.append(np.flatnonzero(row), len(row))[0]) for row in differences)
    if remains - goes_on >= STEP:
        return 0.0, 0.0
    along = np.r_[second[:ends], first[ends:]]
    step = second[max(ends - STEP, 0) : ends], first[ends : ends + STEP]
    return float(along.mean()), min(_height(side) for side in step)


def _height(side: Numbers) -> float:
    """Return how much the pixels beside the place where a band ends differ from it; 0 if few of them do."""
    return float(side.mean()) if np.count_nonzero(side) >= max(STEP_SHARE * len(side), 1) else 0.0


def _mean_of_runs(values: Numbers) -> Numbers:
    """Return the means (h, w - RUN + 1) of RUN pixels of a row from each on."""
    return np.asarray(cv2.blur(values, (RUN, 1))[:, RUN // 2 : values.shape[1] - (RUN - 1) // 2], np.float32)


def _count_levels(row: Grey, start: int) -> int:
    return len(set((row[start : start + RUN] // (256 // LEVELS)).tolist()))


BLANK_DEVIATION = 1.5  # standard deviation of grey values

BLANK_SHARE = 0.999  # of pixels with the same value

BAND_SHARE = 0.04  # of the rows, that have one value

BAND_LEAST = 4  # rows

EXTREME = 3  # grey values beside the darkest and the brightest of the image: borders have them

BACKGROUND_SHARE = 0.05  # of the first rows with the value of the last ones: it is that of the background


def check_pixels(image: Image) -> list[str]:
    """Return what the pixels of an image show, in words of FINDINGS: blank, damaged, text."""
    grey = image.grey
    if is_blank(grey):
        return ["blank"]
    findings = ["damaged"] if is_damaged(image) else []
    if find_burned_in_text(grey) is not None:
        findings.append("text")
    return findings


def is_damaged(image: Image) -> bool:
    """Return whether a decoder concealed damage of an image, as far as it was asked, or its rows show damage."""
    return image.damaged or has_constant_band(image.grey) or has_foreign_rows(image.grey)


def is_blank(grey: NDArray[np.uint8]) -> bool:
    """Return whether a picture, (height, width), shows nothing: (nearly) one grey value."""
    counts = np.bincount(grey.ravel(), minlength=256)
    return bool(counts.max() >= BLANK_SHARE * grey.size or grey.std() < BLANK_DEVIATION)


def has_constant_band(grey: NDArray[np.uint8]) -> bool:
    """Return whether the last rows, (height, width), have one grey value that no border has, as after a truncation.

    Decoders fill what a truncated file lacks with grey. A border is as dark as the darkest pixels, as bright as the
    brightest, or as grey as the background in the first rows, such as air in a CT image.
    """
    value = int(grey[-1, 0])
    flat = np.flatnonzero((grey != value).any(axis=1))
    band = len(grey) - 1 - int(flat[-1]) if len(flat) else len(grey)
    if band < max(BAND_LEAST, BAND_SHARE * len(grey)):
        return False
    rest = grey[: len(grey) - band]
    if not rest.size or not int(rest.min()) + EXTREME < value < int(rest.max()) - EXTREME:
        return False
    return bool((rest[:BAND_LEAST] == value).mean() < BACKGROUND_SHARE)
