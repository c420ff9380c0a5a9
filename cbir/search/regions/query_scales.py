"""Cells of a query at several sizes: what fills a cut-out is small in the images that have it."""

from collections.abc import Sequence

import cv2
import numpy as np

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.fit_image import Prepared
from cbir.search.regions.feature_cells import WHOLE, Area, FeatureCells, feature_cells
from cbir.search.regions.match_map import MatchMaps, match_maps

SCALES = (0.5, 0.36, 0.26)  # of the network's input; the query itself is 1
LEAST_CELLS = 2  # a side, of a smaller query


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
