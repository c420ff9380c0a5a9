"""Six features of the lens in slit-lamp images, which an active shape model finds (Huang et al. 2010)."""

from cbir.descriptors.slit_lamp.lens_features import FEATURES, measure_lens
from cbir.descriptors.slit_lamp.shape_model import ActiveShapeModel

__all__ = ["FEATURES", "ActiveShapeModel", "measure_lens"]
