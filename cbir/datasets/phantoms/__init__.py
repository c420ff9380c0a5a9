"""Synthetic radiographs with true classes and codes, drawn by code, to demonstrate, test and measure on."""

from cbir.datasets.phantoms.files import write
from cbir.datasets.phantoms.phantom import Class, Facts, Phantom, classes, draw, facts

__all__ = ["Class", "Facts", "Phantom", "classes", "draw", "facts", "write"]
