"""Slit-lamp images of the lens: drawn phantoms, the lens found by an active shape model, and six features of it."""

from cbir.grading.slit_lamp.features import FEATURES, measure
from cbir.grading.slit_lamp.phantom import Phantom, draw
from cbir.grading.slit_lamp.shape_model import ActiveShapeModel

__all__ = ["FEATURES", "ActiveShapeModel", "Phantom", "draw", "measure"]
