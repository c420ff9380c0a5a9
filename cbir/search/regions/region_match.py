"""Places of images that are like a region: its cells laid over an image's at every place, at several sizes.

The score of a place is the mean cosine of the region's cells, each with the best of the cell below it and that one's
eight neighbours, which count a little less, so that bent and slightly larger or smaller likenesses count too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.search.regions.feature_cells import Floats
from cbir.search.regions.region_cells import LARGEST

SIZES = (0.75, 1.0, 1.33)  # of the region in the image
ASIDE = 0.05  # that the cosine of a neighbour counts less
FEW = 8  # cells of a region by which candidates are found
BLOCK = 256  # images compared at a time

Places = NDArray[np.int64]


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
