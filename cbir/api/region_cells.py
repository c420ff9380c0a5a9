"""Computing the cells of a collection's images, which regions are searched for in."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.descriptors.encoders import Encoder
from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Rows, spread_rows
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search.feature_cells import FeatureCells, feature_cells
from cbir.search.region_cells import fit_cell_projection, region_encoder, stored_cells
from cbir.store import Collection
from cbir.store.snapshot.derived_files import (
    CellProjection,
    has_cells,
    keep_cells,
    read_cells,
    write_part,
    write_projection,
)
from cbir.system.threads import cores

SAMPLE = 500  # images that the projection is fitted to
PART = 2048  # images of a file; an interrupted run loses at most these

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CellCounts:
    """Images of a run. images: with cells now. added: by this run. without_picture: of them, which match nothing."""

    images: int
    added: int
    without_picture: int


def compute_cells(collection: Collection, progress: Progress = lambda done, total: None) -> CellCounts:
    """Store the cells of the images that have none yet, and delete those of images that are gone.

    Parameters
    ----------
    collection : Collection
        Collection of an encoder of images.
    progress : callable
        Called with images done and images to do. What it raises ends the run; a later run goes on from there.

    Raises
    ------
    InvalidInput
        If the profile's encoder has no cells, no image has a picture, or a patient was erased meanwhile.
    """
    encoder, folder = region_encoder(collection.profile), collection.folder
    read = partial(_read_cells, collection, encoder, settings.load().max_pixels)
    stored = read_cells(folder)
    if stored is None:
        projection = _fit(_present(collection), read)
        write_projection(folder, projection)
        missing = _present(collection)
    else:
        keep_cells(folder, _present(collection))
        projection = stored.projection
        missing = np.setdiff1d(_present(collection), stored.numbers())
    without, done = 0, 0
    for start in range(0, len(missing), PART):
        numbers = missing[start : start + PART]
        records = np.zeros(len(numbers), projection.record)
        records["number"] = numbers
        for place, cells in enumerate(_read_all(numbers, read)):
            if cells is None:
                without += 1
            else:
                records["cells"][place] = stored_cells(projection, cells)
            done += 1
            progress(done, len(missing))
        if not has_cells(folder):
            raise InvalidInput(
                "images of a patient were erased meanwhile, and the cells with them; run it again"
            )
        write_part(folder, records)
        keep_cells(folder, _present(collection))  # of images that were deleted meanwhile
    stored = read_cells(folder)
    return CellCounts(0 if stored is None else len(stored.numbers()), len(missing), without)


def _present(collection: Collection) -> Rows:
    """Return the numbers of the images that are not deleted."""
    view = collection.view()
    return view.gallery.ids if view.rows is None else view.gallery.ids[view.rows]


def _fit(numbers: Rows, read: Callable[[int], FeatureCells | None]) -> CellProjection:
    sample = numbers[spread_rows(len(numbers), SAMPLE)] if len(numbers) else numbers
    images = [cells for cells in _read_all(sample, read) if cells is not None]
    if not images:
        raise InvalidInput("no image of the collection has a file or a thumbnail to compute cells from")
    return fit_cell_projection(images)


def _read_all(
    numbers: NDArray[np.int64], read: Callable[[int], FeatureCells | None]
) -> Iterator[FeatureCells | None]:
    """Yield the cells of images in their order, read on all cores."""
    with ThreadPoolExecutor(cores()) as executor:
        for start in range(0, len(numbers), 64):  # so that few are in memory, and an interruption is quick
            yield from executor.map(read, numbers[start : start + 64].tolist())


def _read_cells(collection: Collection, encoder: Encoder, pixels: int, number: int) -> FeatureCells | None:
    record = collection.records([number]).get(number)
    image = None if record is None else read_stored_image(collection, record, pixels)
    if image is None:
        return None
    return feature_cells(encoder, encoder.prepare(image), image.width, image.height)
