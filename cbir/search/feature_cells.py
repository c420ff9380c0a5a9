"""Cells of an image, the values of an encoder's finest map place by place, and the cells of two images that match.

The cosine of all pairs of cells as in Stylianou, Souvenir & Pless 2019 (Visualizing deep similarity networks), each
pair with its neighbours: a place matches if what surrounds it matches too. Cells are centred by the mean of both
images, since what all places have in common makes every pair of them alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.encoders.encoder_network import Prepared
from cbir.errors import InvalidInput
from cbir.images.scaling import window_means

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


SHORTEST = 1e-6  # a shorter cell has no direction
SCALES = (0.5, 0.36, 0.26)  # of the network's input; the query itself is 1
LEAST_CELLS = 2  # a side, of a smaller query


class MatchMaps(NamedTuple):
    """Match of each place with the best one of the other image, from 0 to 1.

    query, answer: (rows, columns) float32, from the upper left corner of the image.
    """

    query: Floats
    answer: Floats


def match_maps(query: FeatureCells, answer: FeatureCells, region: Area = WHOLE) -> MatchMaps:
    """Return the places of two images that match.

    Parameters
    ----------
    query, answer : FeatureCells
        Cells by one encoder.
    region : (float, float, float, float)
        Left, top, width and height of the part of the query to explain, as shares of its sides. Cells outside are 0
        in the map of the query, and do not count in that of the answer.
    """
    similarity = _with_neighbours(cosines(query.values, answer.values))
    weights = cells_in(query, region) * query.texture
    similarity *= np.minimum.outer(weights, answer.texture)
    of_query, of_answer = similarity.max(axis=(2, 3)), similarity.max(axis=(0, 1))
    return MatchMaps(_spread_over_image(of_query, query.area), _spread_over_image(of_answer, answer.area))


def cosines(query: Floats, answer: Floats) -> Floats:
    """Return the cosine of each pair of cells: (rows, columns, rows, columns) of query and answer.

    query, answer: (rows, columns, channels) float32. Cells are centred by the mean of all of both; those without a
    direction have the cosine 0.
    """
    both = np.concatenate([query.reshape(-1, query.shape[2]), answer.reshape(-1, answer.shape[2])])
    both = both / np.float32(max(float(np.abs(both).max()), SHORTEST))  # so that squares do not overflow
    both -= both.mean(axis=0)
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    both = np.where(lengths > SHORTEST, both / np.maximum(lengths, SHORTEST), 0.0)
    first = query.shape[0] * query.shape[1]
    return np.asarray(both[:first] @ both[first:].T).reshape(*query.shape[:2], *answer.shape[:2])


def _with_neighbours(similarity: Floats) -> Floats:
    """Return the mean of each pair's cosine and those of its eight neighbours in both images, within 0 and 1."""
    sums, counts = np.zeros_like(similarity), np.zeros_like(similarity)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            steps = (down, right, down, right)
            centres = tuple(_shifted(size, -step) for size, step in zip(similarity.shape, steps, strict=True))
            neighbours = tuple(
                _shifted(size, step) for size, step in zip(similarity.shape, steps, strict=True)
            )
            sums[centres] += similarity[neighbours]
            counts[centres] += 1
    return np.asarray(np.clip(sums / counts, 0.0, 1.0))


def _shifted(size: int, step: int) -> slice:
    return slice(max(step, 0), size + min(step, 0))


def cells_in(cells: FeatureCells, region: Area) -> NDArray[np.bool_]:
    """Return which cells (rows, columns) have their centre in a region of the image; the nearest one at least."""
    left, top, width, height = cells.area
    inside = [
        _centres_in(count, start, length, low, extent)
        for count, start, length, low, extent in (
            (cells.values.shape[0], top, height, region[1], region[3]),
            (cells.values.shape[1], left, width, region[0], region[2]),
        )
    ]
    return np.logical_and.outer(inside[0], inside[1])


def _centres_in(count: int, start: float, length: float, low: float, extent: float) -> NDArray[np.bool_]:
    centres = start + length * (np.arange(count) + 0.5) / count
    inside: NDArray[np.bool_] = (centres >= low) & (centres <= low + extent)
    if not inside.any():
        inside[np.abs(centres - low - extent / 2).argmin()] = True
    return inside


def _spread_over_image(values: Floats, area: Area) -> Floats:
    """Return a map of the whole image for one of its `area`, 0 elsewhere."""
    if area == WHOLE:
        return values.astype(np.float32)
    left, top, width, height = area
    rows, columns = (
        np.floor(((np.arange(count) + 0.5) / count - start) / length * count).astype(int)
        for count, start, length in ((values.shape[0], top, height), (values.shape[1], left, width))
    )
    covered = np.logical_and.outer(
        (rows >= 0) & (rows < len(rows)), (columns >= 0) & (columns < len(columns))
    )
    spread = values[np.clip(rows, 0, len(rows) - 1)][:, np.clip(columns, 0, len(columns) - 1)]
    return np.asarray(np.where(covered, spread, 0.0), np.float32)


def cells_by_scale(encoder: Encoder, pixels: Prepared, width: int, height: int) -> list[FeatureCells]:
    """Return the cells of a query, and of it made smaller.

    Parameters
    ----------
    encoder : Encoder
        An encoder of single images.
    pixels : (height, width, channels) uint8
        From `Encoder.prepare`.
    width, height : int
        Size of the image itself in pixels.
    """
    full_size = feature_cells(encoder, pixels, width, height)
    if encoder.image_input.fit != "squash":  # the others have borders, or lack a part
        return [full_size]
    return [full_size, *(_made_smaller(encoder, pixels, full_size, scale) for scale in SCALES)]


def _made_smaller(encoder: Encoder, pixels: Prepared, full_size: FeatureCells, scale: float) -> FeatureCells:
    """Return the cells of a query that takes a part of the network's input and is mirrored around it."""
    borders, parts = list[tuple[int, int]](), list[slice]()
    for cells, side in zip(full_size.values.shape[:2], pixels.shape[:2], strict=True):
        count = max(min(LEAST_CELLS, cells), round(cells * scale))
        first = (cells - count) // 2
        borders.append((round(first * side / cells), side - round((first + count) * side / cells)))
        parts.append(slice(first, first + count))
    (top, bottom), (left, right) = borders
    size = pixels.shape[1] - left - right, pixels.shape[0] - top - bottom
    small = cv2.resize(pixels.astype(np.uint8), size, interpolation=cv2.INTER_AREA)
    padded = cv2.copyMakeBorder(small, top, bottom, left, right, cv2.BORDER_REFLECT_101)
    surrounded: Prepared = np.asarray(padded, np.uint8).reshape(pixels.shape)
    cells = feature_cells(encoder, surrounded, pixels.shape[1], pixels.shape[0])
    return FeatureCells(cells.values[parts[0], parts[1]], cells.texture[parts[0], parts[1]])


def query_cells(
    encoder: Encoder, pixels: Prepared, width: int, height: int, region: Area = WHOLE
) -> list[FeatureCells]:
    """Return the cells of a query, of a whole one at several sizes; a region has the size that it has in its image.

    encoder, pixels, width, height: as of `cells_by_scale`. region: as of `match_maps`.
    """
    if region == WHOLE:
        return cells_by_scale(encoder, pixels, width, height)
    return [feature_cells(encoder, pixels, width, height)]


def best_match_maps(queries: Sequence[FeatureCells], answer: FeatureCells, region: Area = WHOLE) -> MatchMaps:
    """Return the places that match at the size of the query whose places match best on average.

    Parameters
    ----------
    queries : sequence of FeatureCells
        From `query_cells`.
    answer : FeatureCells
        Cells of a result.
    region : (float, float, float, float)
        As of `match_maps`.
    """
    maps = [match_maps(query, answer, region) for query in queries]
    means = [
        float(each.query.sum()) / max(float(query.texture.sum()), 1e-6)
        for query, each in zip(queries, maps, strict=True)
    ]
    return maps[int(np.argmax(means))]
