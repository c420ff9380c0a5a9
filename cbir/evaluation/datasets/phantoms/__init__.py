"""Synthetic radiographs with classes and codes, CT series with lesions, and slit-lamp images with grades."""

from cbir.evaluation.datasets.phantoms.body_volume import PhantomSeries, draw_series, series_facts
from cbir.evaluation.datasets.phantoms.drawing import (
    PhantomRadiograph,
    draw_phantom,
    phantom_classes,
    phantom_facts,
)
from cbir.evaluation.datasets.phantoms.lens_phantom import write_lens_phantoms
from cbir.evaluation.datasets.phantoms.phantom_files import write_phantom_series, write_phantoms

__all__ = [
    "PhantomRadiograph", "PhantomSeries", "draw_phantom", "draw_series", "phantom_classes", "phantom_facts",
    "series_facts", "write_lens_phantoms", "write_phantom_series", "write_phantoms",
]  # fmt: skip
