"""Cells of an image: the values of an encoder's finest map, place by place."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.encoders.encoder_network import Prepared
from cbir.descriptors.networks.window_means import window_means
from cbir.errors import InvalidInput

MOST_CELLS = 16  # a side; finer maps are averaged, since all pairs of cells are compared
FLAT, FULL = 2.0, 6.0  # grey levels: cells whose pixels deviate less show nothing, and count wholly

Floats = NDArray[np.float32]
Area = tuple[float, float, float, float]
WHOLE: Area = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class FeatureCells:
    """Values of the cells of one image.

    values: (rows, columns, channels) float32, finite. texture: (rows, columns) float32, 0 for one grey, to 1.
    area: left, top, width and height of what the cells cover, as shares of the image.
    """

    values: Floats
    texture: Floats
    area: Area = WHOLE


def feature_cells(encoder: Encoder, pixels: Prepared, width: int, height: int) -> FeatureCells:
    """Return the cells of an image.

    Parameters
    ----------
    encoder : Encoder
        An encoder of single images.
    pixels : (height, width, channels) uint8
        From `Encoder.prepare`.
    width, height : int
        Size of the image itself in pixels.

    Raises
    ------
    InvalidInput
        If the encoder gives vectors without places.
    """
    maps = [values[0] for values in encoder.maps(pixels).values() if values.ndim == 4]
    finest = max(maps, key=lambda values: values[0].size, default=None)
    if finest is None or finest[0].size < 2:
        raise InvalidInput(f"the encoder {encoder.name} gives no values for places, which could be compared")
    values = _at_most(np.nan_to_num(finest, posinf=0.0, neginf=0.0).astype(np.float32))
    rows, columns = values.shape[:2]
    return _on_image(values, _texture(pixels, rows, columns), encoder.image_input, width, height)


def _at_most(values: Floats) -> Floats:
    """Return a map (channels, rows, columns) as (rows, columns, channels), with at most MOST_CELLS a side."""
    channels, rows, columns = values.shape
    if max(rows, columns) <= MOST_CELLS:
        return np.ascontiguousarray(values.transpose(1, 2, 0))
    weights = window_means(rows, columns, MOST_CELLS, 1 / MOST_CELLS)
    return np.asarray(weights @ values.reshape(channels, -1).T).reshape(MOST_CELLS, MOST_CELLS, channels)


def _texture(pixels: Prepared, rows: int, columns: int) -> Floats:
    """Return how much the grey values within each cell (rows, columns) deviate, from 0 for FLAT to 1 for FULL."""
    grey = pixels.mean(axis=2, dtype=np.float32)
    mean, squares = (
        cv2.resize(plane, (columns, rows), interpolation=cv2.INTER_AREA) for plane in (grey, grey * grey)
    )
    deviations = np.sqrt(np.maximum(squares - mean * mean, 0.0))
    return np.asarray(np.clip((deviations - FLAT) / (FULL - FLAT), 0.0, 1.0), np.float32)


def _on_image(values: Floats, texture: Floats, shape: EncoderInput, width: int, height: int) -> FeatureCells:
    """Leave out the cells of a border that the image was padded with; note the part that it was cut to."""
    ratio = (width / height) / (shape.width / shape.height)
    across, down = min(1.0, ratio), min(1.0, 1 / ratio)  # of the network's input that the image takes
    if shape.fit == "letterbox":
        rows, columns = (
            _inside(count, share) for count, share in zip(values.shape[:2], (down, across), strict=True)
        )
        return FeatureCells(values[rows, columns], texture[rows, columns])
    if shape.fit == "crop":
        return FeatureCells(values, texture, ((1 - down) / 2, (1 - across) / 2, down, across))
    return FeatureCells(values, texture)


def _inside(count: int, share: float) -> slice:
    """Return the cells, of `count`, whose centres lie in the middle `share`; one at least."""
    centres = (np.arange(count) + 0.5) / count
    inside = np.flatnonzero(np.abs(centres - 0.5) <= share / 2)
    return slice(inside[0], inside[-1] + 1) if len(inside) else slice(count // 2, count // 2 + 1)
