"""Checks of the pixels of an image by itself: blank, damaged, with burned-in text."""

import numpy as np
from numpy.typing import NDArray

from cbir.images import Image
from cbir.ingest.checks.burned_in_text import find_burned_in_text
from cbir.ingest.checks.foreign_rows import has_foreign_rows

BLANK_DEVIATION = 1.5  # standard deviation of grey values
BLANK_SHARE = 0.999  # of pixels with the same value
BAND_SHARE = 0.04  # of the rows, that have one value
BAND_LEAST = 4  # rows
EXTREME = 3  # grey values beside the darkest and the brightest of the image: borders have them
BACKGROUND_SHARE = 0.05  # of the first rows with the value of the last ones: it is that of the background


def check_pixels(image: Image) -> list[str]:
    """Return what the pixels of an image show, in words of `cbir.ingest.checks.findings`: blank, damaged, text."""
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
