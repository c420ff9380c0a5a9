"""Cells of images for region search, and the places of an image that are like a region.

Cells are values of an encoder's map, projected to few dimensions; a region's are laid over an image's at every place,
at several sizes. The score of a place is the mean cosine of the region's cells, each with the best of the cell below
it and that one's eight neighbours, which count a little less, so that bent and slightly larger or smaller likenesses
count too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_network import Prepared
from cbir.errors import InvalidInput
from cbir.search.regions.explanation import explaining_encoder
from cbir.search.regions.feature_cells import Area, FeatureCells, Floats, cells_in, feature_cells
from cbir.store.base.profile import Profile
from cbir.store.snapshot.derived_files import CellProjection

DIMENSIONS = 32
WHITENING = 0.25  # power of the variances that axes are divided by: 0 is plain PCA, 0.5 whitens
LARGEST = 127  # of int8
MOST_CELLS = 7  # a side, of a region that is compared: of larger ones some are left out
SHORTEST = 1e-6
SIZES = (0.75, 1.0, 1.33)  # of the region in the image
ASIDE = 0.05  # that the cosine of a neighbour counts less
FEW = 8  # cells of a region by which candidates are found
BLOCK = 256  # images compared at a time
Places = NDArray[np.int64]


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


@dataclass(frozen=True, eq=False)
class RegionTemplate:
    """Cells of a region. As of `region_cells.template_of`.

    cells: (m, d) float32. weights: (m,) float32, which add up to 1. rows, columns: (m,) int64.
    """

    cells: Floats
    weights: Floats
    rows: Places
    columns: Places

    def thinned(self) -> "RegionTemplate":
        """Return the region with at most FEW of its cells, those with most texture in each of its parts."""
        if len(self.cells) <= FEW:
            return self
        parts = np.array_split(np.arange(len(self.cells)), FEW)
        kept = np.array([part[self.weights[part].argmax()] for part in parts])
        weights = self.weights[kept]
        return RegionTemplate(self.cells[kept], weights / weights.sum(), self.rows[kept], self.columns[kept])

    def match(self, stored: NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Return where images are most like the region.

        Parameters
        ----------
        stored : (n, side, side, d) int8
            Cells of images; LARGEST is 1.

        Returns
        -------
        scores : (n,) float32
            Mean cosine at the best place, from -1 to 1.
        boxes : (n, 4) float32
            Left, top, width and height of that place, as shares of the image's sides.
        """
        count, side = stored.shape[:2]
        values = stored.reshape(-1, stored.shape[3]).astype(np.float32)
        cosines: Floats = (self.cells @ values.T) / np.float32(LARGEST)
        near = _best_neighbours(cosines.reshape(-1, count, side, side))
        scores, boxes = np.full(count, -np.inf, np.float32), np.zeros((count, 4), np.float32)
        for rows, columns in self._placements(side):
            down, across = side - int(rows.max()), side - int(columns.max())
            sums = np.zeros((count, down, across), np.float32)
            for cell, weight in enumerate(self.weights):
                row, column = rows[cell], columns[cell]
                sums += weight * near[cell, :, row : row + down, column : column + across]
            places = sums.reshape(count, -1).argmax(axis=1)
            best = sums.reshape(count, -1)[np.arange(count), places]
            better = best > scores
            scores[better] = best[better]
            size = np.full(count, side - across + 1), np.full(count, side - down + 1)
            found = np.stack([places % across, places // across, *size], axis=1) / np.float32(side)
            boxes[better] = found[better]
        return scores, boxes

    def _placements(self, side: int) -> list[tuple[Places, Places]]:
        """Return the rows and columns of the cells at each size that fits into `side` cells, each once."""
        found = dict[bytes, tuple[Places, Places]]()
        for size in SIZES:
            rows, columns = (np.rint(places * size).astype(np.int64) for places in (self.rows, self.columns))
            if max(rows.max(), columns.max()) < side:
                found[rows.tobytes() + columns.tobytes()] = rows, columns
        if not found:  # an image with fewer cells than the region's
            found[b""] = tuple(np.minimum(places, side - 1) for places in (self.rows, self.columns))  # type: ignore[assignment]
        return list(found.values())


def _best_neighbours(cosines: Floats) -> Floats:
    """Return the largest of each value (m, n, rows, columns) and of those of its eight neighbours less ASIDE."""
    best = cosines.copy()
    np.maximum(best[:, :, 1:], cosines[:, :, :-1], out=best[:, :, 1:])
    np.maximum(best[:, :, :-1], cosines[:, :, 1:], out=best[:, :, :-1])
    wide = best.copy()
    np.maximum(wide[..., 1:], best[..., :-1], out=wide[..., 1:])
    np.maximum(wide[..., :-1], best[..., 1:], out=wide[..., :-1])
    wide -= ASIDE
    return np.maximum(cosines, wide, out=wide)
