"""Slit-lamp images of the lens: synthetic phantoms, segmentation by an active shape model, and six features."""

from cbir.grading.slit_lamp.features import FEATURES, measure_lens
from cbir.grading.slit_lamp.lens_phantom import LensPhantom, draw_lens
from cbir.grading.slit_lamp.shape_model import ActiveShapeModel

__all__ = ["FEATURES", "ActiveShapeModel", "LensPhantom", "draw_lens", "measure_lens"]
