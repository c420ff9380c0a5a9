"""Synthetic radiographs with classes and codes, for demonstrations, tests and benchmarks."""

from cbir.datasets.phantoms.drawing import (
    PhantomFacts,
    PhantomRadiograph,
    draw_phantom,
    phantom_classes,
    phantom_facts,
)
from cbir.datasets.phantoms.phantom_files import write_phantoms

__all__ = [
    "PhantomFacts",
    "PhantomRadiograph",
    "draw_phantom",
    "phantom_classes",
    "phantom_facts",
    "write_phantoms",
]
