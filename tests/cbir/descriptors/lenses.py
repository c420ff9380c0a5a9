"""A slit-lamp model fitted to a few phantoms."""

from functools import cache
from pathlib import Path

import numpy as np

from cbir.descriptors.slit_lamp import LensFinder, fit_lens_finder, to_grey, write_lens_finder
from cbir.evaluation.datasets.phantoms.lens_phantom import LensPhantom, draw_lens


def draw_lenses(count: int, seed: int) -> list[LensPhantom]:
    """Lenses of 96 x 128 pixels."""
    random = np.random.default_rng(seed)
    return [draw_lens(grade, random, 96) for grade in random.uniform(0.5, 4.5, count)]


@cache
def fitted(count: int = 20) -> tuple[LensFinder, np.ndarray]:
    lenses = draw_lenses(count, 0)
    return fit_lens_finder([to_grey(lens.pixels) for lens in lenses], [lens.contour for lens in lenses])


def write_model(folder: Path, count: int = 20) -> Path:
    write_lens_finder(*fitted(count), folder)
    return folder
