"""Descriptor of Huang et al. 2012: colour, texture and edges, 168 values."""

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.color_layout import ColorLayout
from cbir.descriptors.descriptor import Part, Parts
from cbir.descriptors.edge_histogram_150 import EdgeHistogram150
from cbir.descriptors.tamura import Tamura
from cbir.images import Image


class Huang2012:
    """Concatenation of `color_layout` (12), `tamura` (6) and `edge_histogram_150` (150).

    The paper gives only the total, 168; this is the split that adds up with each descriptor in its standard form.
    The parts have very different ranges: standardise them before computing distances.
    """

    name = "huang2012"
    dimensions = 168
    parts: Parts = (Part("color_layout", 0, 12), Part("tamura", 12, 18), Part("edge_histogram", 18, 168))
    _members = (ColorLayout(), Tamura(), EdgeHistogram150())

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (168,), float32."""
        return np.concatenate([member(image) for member in self._members])
