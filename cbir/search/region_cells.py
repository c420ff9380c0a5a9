"""Search for images that have a like region anywhere: their cells, and the places that are like the region.

Cells are values of an encoder's map, projected to few dimensions; a region's are laid over an image's at every place,
at several sizes. The score of a place is the mean cosine of the region's cells, each with the best of the cell below
it and that one's eight neighbours, which count a little less, so that bent and slightly larger or smaller likenesses
count too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import QueryImage
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_network import Prepared
from cbir.errors import InvalidInput
from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.ranked import Box, Ranked
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search.explanation import explaining_encoder
from cbir.search.feature_cells import WHOLE, Area, FeatureCells, Floats, cells_in, feature_cells
from cbir.search.search_options import Request
from cbir.store import Collection
from cbir.store.base.profile import Profile
from cbir.store.snapshot.derived_files import CellProjection, RegionCells, read_cells
from cbir.store.views.collection_view import View
from cbir.system.threads import OneBlasThread, Stopwatch, checkpoint

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
CANDIDATES = 1000  # images best by a few cells of the region, which are compared by all of them
MOST_IMAGES = 100_000  # compared by their cells; of more, those nearest to the whole query are
NOT_RERANKED = "A region is searched for anywhere by its cells alone; the answer is not re-ranked."


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


@dataclass(frozen=True, eq=False)
class RegionQuery:
    """Region of an image to search for.

    image: the whole image, whose features are the input of the collection's encoder. area: the region, as shares of
    its sides.
    """

    image: QueryImage
    area: Area

    def ranker(
        self, collection: Collection, view: View, rows: Rows | None, request: Request, watch: Stopwatch
    ) -> Callable[[int], Ranked]:
        """Return a function that ranks `rows`, None for all, and returns the best ones; raises InvalidInput."""
        _check(request, self.area)
        encoder = region_encoder(collection.profile)
        cells = read_cells(collection.folder)
        if cells is None:
            raise InvalidInput(
                "anywhere: the collection has no cells of its images yet; "
                "`cbir collection regions --collection DIR` computes them"
            )
        size = self.image.width, self.image.height
        template = RegionTemplate(
            *template_of(encoder, cells.projection, self.image.features, size, self.area)
        )
        watch.lap("describe")
        rows = (np.arange(len(view.gallery)) if view.rows is None else view.rows) if rows is None else rows
        notes = [NOT_RERANKED] if request.rerank not in (None, "auto", NoReranking.name) else []
        missing = np.count_nonzero(~np.isin(view.gallery.ids[rows], cells.numbers()))
        if missing:
            notes.append(
                f"{missing} images were added later and are not searched; run `cbir collection regions` again."
            )
        if len(rows) > MOST_IMAGES:
            vector = self.image.vector(collection.profile.load_descriptor())
            distances = view.gallery.distances(view.statistics.normalise(vector), rows)
            rows = np.sort(rows[np.argpartition(distances, MOST_IMAGES)[:MOST_IMAGES]])
            notes.append(f"Only the {MOST_IMAGES} images nearest to the whole image were compared.")
        found, scores, boxes = compare_cells(cells, template, view.gallery.ids[rows])
        watch.lap("search")
        scope = "collection" if len(found) < CANDIDATES else f"{CANDIDATES} candidates"
        distances = np.sqrt(np.maximum(2 - 2 * scores, 0)).astype(np.float32)

        def rank(k: int) -> Ranked:
            best = top_k(scores, k)
            matches = dict(zip(found[best].tolist(), map(_rounded, boxes[best]), strict=True))
            return Ranked(
                found[best], scores[best], scores[best], distances[best], NoReranking.name, {}, scope,
                tuple(notes), matches=matches,
            )  # fmt: skip

        return rank


def compare_cells(cells: RegionCells, template: RegionTemplate, numbers: Rows) -> tuple[Rows, Floats, Floats]:
    """Compare a region with the stored cells of images.

    Parameters
    ----------
    cells : RegionCells
    template : RegionTemplate
    numbers : (n,) int64
        Numbers of the images; those without cells are left out.

    Returns
    -------
    numbers : (m,) int64
        Numbers of the images that were compared by all cells, at most CANDIDATES of them.
    scores : (m,) float32
        Mean cosine at the best place, from -1 to 1.
    boxes : (m, 4) float32
        Left, top, width and height of that place, as shares of the image's sides.
    """
    few = template.thinned()
    if len(numbers) > CANDIDATES and few is not template:
        candidates, first, _ = _compare(cells, few, numbers)
        numbers = candidates[top_k(first, CANDIDATES)]
    return _compare(cells, template, numbers)


def _compare(cells: RegionCells, template: RegionTemplate, numbers: Rows) -> tuple[Rows, Floats, Floats]:
    found, scores, boxes = list[Rows](), list[Floats](), list[Floats]()
    for part in cells.parts:
        places = np.flatnonzero(np.isin(part["number"], numbers))
        for start in range(0, len(places), BLOCK):
            checkpoint()
            records = part[places[start : start + BLOCK]]
            with OneBlasThread():  # of many small products
                score, box = template.match(records["cells"])
            found.append(records["number"])
            scores.append(score)
            boxes.append(box)
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.empty((0, 4), np.float32)
    return np.concatenate(found).astype(np.int64), np.concatenate(scores), np.concatenate(boxes)


def _rounded(box: Floats) -> Box:
    left, top, width, height = (round(float(value), 4) for value in box)
    return left, top, width, height


def _check(request: Request, area: Area) -> None:
    if area == WHOLE:
        raise InvalidInput("anywhere: needs region, the part of the image to search for")
    if request.examples or request.feedback:
        raise InvalidInput("anywhere: is for a region of one image, without examples and feedback")
