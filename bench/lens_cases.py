"""Slit-lamp phantoms as graded cases: found by a shape model of others, measured, and graded by an observer."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from cbir.descriptors.slit_lamp import LensFinder, fit_lens_finder, to_grey
from cbir.errors import UnreadableImage
from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.evaluation.datasets.phantoms.lens_phantom import SEVERITIES, draw_lens
from cbir.images import Image

AGREEMENT = 0.65  # of two observers (Klein et al. 1990, as Huang et al. 2010 cite it)
ANNOTATED = 40  # phantoms in the training of the shape model
PICTURED = 20  # images of the figure

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]


def observe(severity: Floats, random: np.random.Generator) -> Floats:
    """Draw an observer's whole grades, with the scatter at which two observers agree on 65 % of images."""
    first, second = random.normal(size=(2, 200, len(severity)))

    def excess(scatter: float) -> float:
        return (
            float((np.rint(severity + scatter * first) == np.rint(severity + scatter * second)).mean())
            - AGREEMENT
        )

    return np.rint(severity + brentq(excess, 0.01, 3.0) * random.normal(size=len(severity)))


class Cases(NamedTuple):
    """Features (n, 6) of lenses that were found, true severity (n,), and pictures of the last `PICTURED`."""

    features: Floats
    severity: Floats
    pictures: list[NDArray[np.uint8]]


def phantoms(count: int, scatter: float) -> Cases:
    """Draw lenses, find them with a model of others, and measure them."""
    random = np.random.default_rng(0)
    finder, _ = fit_phantoms(ANNOTATED, random, scatter)
    severity, features, pictures = [], [], []
    for grade in random.uniform(*SEVERITIES, count):
        pixels = draw_lens(grade, random, scatter=scatter).pixels
        try:
            features.append(finder.measure(Image(pixels)))
        except UnreadableImage:  # refused
            continue
        severity.append(grade)
        pictures = [*pictures[-PICTURED + 1 :], pixels]
    return Cases(np.array(features), np.array(severity), pictures)


def fit_phantoms(count: int, random: np.random.Generator, scatter: float) -> tuple[LensFinder, Floats]:
    """Fit a shape model to phantoms; return it, and the errors of left-out ones."""
    annotated = [draw_lens(grade, random, scatter=scatter) for grade in random.uniform(*SEVERITIES, count)]
    return fit_lens_finder(
        [to_grey(phantom.pixels) for phantom in annotated], [phantom.contour for phantom in annotated]
    )


def lenses(count: int) -> Rows:
    """Return a row per size of the training set: errors of outlines, and which images have no lens."""
    random = np.random.default_rng(1)
    new = [
        draw_lens(random.uniform(*SEVERITIES), random, height, scatter=scatter)
        for height in (96, 240, 480)
        for scatter in (1.0, 4.0)
        for _ in range(count // 6)
    ]
    others = [draw_phantom(index, 0, 256).pixels for index in range(100)]
    others = [pixels if pixels.ndim == 3 else np.dstack([pixels] * 3) for pixels in others]
    rows: Rows = []
    for size in (10, 20, 40, 120):
        finder, left_out = fit_phantoms(size, random, 1.0)
        errors, refused = [], 0
        for phantom in new:
            try:
                outline = finder.find(Image(phantom.pixels))
            except UnreadableImage:
                refused += 1
                continue
            errors.append(np.linalg.norm(outline - phantom.contour, axis=1).mean() / len(phantom.pixels))
        misfits = [finder.search(Image(pixels))[0] / finder.limit for pixels in others]
        rows.append(
            {
                "images": f"{size}",
                "left out, mean": 100 * left_out.mean(),
                "new, mean": 100 * np.mean(errors),
                "new, largest": 100 * max(errors),
                "new, refused": refused / len(new) * 100,
                "others / limit": min(misfits),
            }
        )
    return rows
