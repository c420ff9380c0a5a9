"""Cells of images for region search: values of an encoder's map, projected to few dimensions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.fit_image import Prepared
from cbir.errors import InvalidInput
from cbir.search.regions.explanation import explaining_encoder
from cbir.search.regions.feature_cells import Area, FeatureCells, Floats, feature_cells
from cbir.search.regions.match_map import cells_in
from cbir.store.base.profile import Profile
from cbir.store.snapshot.derived_files import CellProjection

DIMENSIONS = 32
WHITENING = 0.25  # power of the variances that axes are divided by: 0 is plain PCA, 0.5 whitens
LARGEST = 127  # of int8
MOST_CELLS = 7  # a side, of a region that is compared: of larger ones some are left out
SHORTEST = 1e-6


def region_encoder(profile: Profile) -> Encoder:
    """Return the encoder whose cells region search compares; raises InvalidInput for a profile without one."""
    encoder = explaining_encoder(profile)
    if encoder is None or encoder.image_input.fit != "squash":
        raise InvalidInput(
            f"regions are searched for anywhere with encoders that see whole images; the profile {profile.name} "
            "has none"
        )
    return encoder


def fit_cell_projection(images: Sequence[FeatureCells]) -> CellProjection:
    """Fit the projection to the cells of at least one image: principal axes of standardised values.

    Cells without texture are left out, as long as others remain.
    """
    values = np.concatenate([image.values.reshape(-1, image.values.shape[2]) for image in images])
    shown = np.concatenate([image.texture.ravel() for image in images]) > 0
    values = (values[shown] if shown.sum() > 1 else values).astype(np.float64)
    deviations = np.maximum(values.std(axis=0), 1e-3)
    mean = values.mean(axis=0)
    standard = (values - mean) / deviations
    variances, axes = np.linalg.eigh(standard.T @ standard / len(standard))
    best = np.argsort(variances)[::-1][:DIMENSIONS]
    scales = deviations[:, None] * np.maximum(variances[best], 1e-3) ** WHITENING
    side = max(images[0].values.shape[:2])
    return CellProjection(mean.astype(np.float32), (axes[:, best] / scales).astype(np.float32), side)


def project_cells(projection: CellProjection, values: Floats) -> Floats:
    """Return cells (rows, columns, channels) as vectors (rows, columns, d) of length 1, or 0 without a direction."""
    projected = (values - projection.mean) @ projection.axes
    lengths = np.linalg.norm(projected, axis=2, keepdims=True)
    return np.asarray(
        np.where(lengths > SHORTEST, projected / np.maximum(lengths, SHORTEST), 0.0), np.float32
    )


def stored_cells(projection: CellProjection, cells: FeatureCells) -> NDArray[np.int8]:
    """Return the cells (side, side, d) of an image as they are stored; those without texture are 0."""
    values = project_cells(projection, cells.values) * (cells.texture > 0)[:, :, None]
    rows, columns = (
        np.arange(projection.side) * count // projection.side for count in cells.values.shape[:2]
    )
    return np.asarray(np.rint(values[rows][:, columns] * LARGEST), np.int8)


def template_of(
    encoder: Encoder, projection: CellProjection, pixels: Prepared, size: tuple[int, int], region: Area
) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells of a region of an image.

    Parameters
    ----------
    encoder : Encoder
        From `region_encoder`.
    projection : CellProjection
    pixels : (height, width, channels) uint8
        The whole image, from `Encoder.prepare`.
    size : (int, int)
        Width and height of the image in pixels.
    region : (float, float, float, float)
        Left, top, width and height, as shares of the image's sides.

    Returns
    -------
    cells : (m, d) float32
        Unit vectors, row by row.
    weights : (m,) float32
        Their texture; they add up to 1.
    rows, columns : (m,) int64
        Their places, from the upper left cell of the region.

    Raises
    ------
    InvalidInput
        If the region shows nothing.
    """
    image = feature_cells(encoder, pixels, *size)
    inside = cells_in(image, region)
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    first = rows[0], columns[0]
    rows, columns = (
        places[np.unique(np.linspace(0, len(places) - 1, min(len(places), MOST_CELLS)).round().astype(int))]
        for places in (rows, columns)
    )
    weights = image.texture[np.ix_(rows, columns)].ravel()
    if not weights.any():
        raise InvalidInput(
            "region: it shows one even grey, which is found anywhere; choose a part with structure"
        )
    values = project_cells(projection, image.values)[np.ix_(rows, columns)]
    across, down = np.meshgrid(columns - first[1], rows - first[0])
    cells = values.reshape(-1, values.shape[2])
    return cells, np.asarray(weights / weights.sum(), np.float32), down.ravel(), across.ravel()
