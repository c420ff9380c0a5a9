"""Synthetic radiographs with classes and codes, for demonstrations, tests and benchmarks."""

from cbir.datasets.phantoms.drawing import PhantomRadiograph, draw_phantom, phantom_classes, phantom_facts
from cbir.datasets.phantoms.phantom_files import write_phantoms

__all__ = ["PhantomRadiograph", "draw_phantom", "phantom_classes", "phantom_facts", "write_phantoms"]
