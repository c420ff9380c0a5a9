"""Images of a collection as an audit reads them: vectors, patients, sources, neighbours and outliers."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cbir.errors import InvalidInput
from cbir.evaluation.relevance import encode_values
from cbir.gallery.knn import EXACT, compare_all
from cbir.gallery.knn_lists import nearest_in_lists, sort_into_lists
from cbir.gallery.vector_blocks import Floats, plain_space
from cbir.settings import Settings
from cbir.store import Collection

LABEL = "source"  # that names the source, if images have it
MOST_SOURCES = 50
ALL_IMAGES = "all images"
SPARE = 45  # neighbours beyond those asked for: slices of one patient, and copies, are left out
NEIGHBOUR = 5  # an image is as far away as its fifth nearest: some images of a rare kind are no outliers yet
FENCE = 3.0  # standard deviations of the logarithm of the distances, told from their median deviation
DEVIATION = 1.4826  # standard deviations of a normal distribution in one median deviation
SMALLEST = 1e-6  # distance; a copy is at 0


@dataclass(frozen=True, eq=False)
class AuditedImages:
    """n images of a collection.

    numbers: (n,) int64, ascending. image_ids, sources: a text each. units: (n, d) float32, vectors of length 1.
    block: (n,) int64, the same number for images that are not independent: of one patient, or copies of each other.
    patient: (n,) int64; -1: unknown. added: (n,) datetime64[D]; NaT where the history does not tell.
    """

    numbers: NDArray[np.int64]
    image_ids: list[str]
    sources: list[str]
    units: Floats
    block: NDArray[np.int64]
    patient: NDArray[np.int64]
    added: NDArray[np.datetime64]

    def __len__(self) -> int:
        return len(self.numbers)

    def codes(self, collection: Collection, key: str) -> tuple[NDArray[np.int64], list[str]]:
        """Return the codes (n,) of the values of a label, -1 without one, and the values in alphabetical order."""
        labels = collection.labels_by_number(key)
        names = sorted(set(labels.values()))
        codes = {name: code for code, name in enumerate(names)}
        values = map(labels.get, self.numbers.tolist())
        return np.array([-1 if value is None else codes[value] for value in values], np.int64), names

    def joined(self, groups: Iterable[Iterable[int]]) -> "AuditedImages":
        """Return the same images with the copies of each group, given by their numbers, in one block."""
        return replace(self, block=join_blocks(self.block, self.numbers, groups))


def read_audited_images(collection: Collection, settings: Settings) -> AuditedImages:
    """Read the images of a collection; raises InvalidInput for one with too many vectors to load."""
    count, limit = len(collection), settings.exact_limit
    if count > limit:
        raise InvalidInput(f"an audit reads all vectors: it works up to {limit} images (setting exact_limit)")
    view = collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    numbers = view.gallery.ids[rows]
    units = view.gallery.space.transform(view.gallery.vectors(rows))[0] if len(rows) else np.empty((0, 1))
    listed = numbers.tolist()
    patient = encode_values(map(collection.patient_keys().get, listed), {})
    names, sources = collection.image_ids(), collection.sources()
    return AuditedImages(
        numbers,
        [names.get(number, "") for number in listed],
        [sources.get(number, "") for number in listed],
        np.asarray(units, np.float32),
        independent_blocks(patient),
        patient,
        _days_added(collection, numbers),
    )


def independent_blocks(patient: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a block (n,) for each patient, and one for each image without a patient (-1)."""
    block = patient.copy()
    unknown = patient < 0
    block[unknown] = patient.max(initial=-1) + 1 + np.arange(np.count_nonzero(unknown))
    return block


def join_blocks(
    block: NDArray[np.int64], numbers: NDArray[np.int64], groups: Iterable[Iterable[int]]
) -> NDArray[np.int64]:
    """Join blocks (n,) of images that are in a group.

    Parameters
    ----------
    block : (n,) int64
    numbers : (n,) int64
        Image numbers, ascending.
    groups : iterable
        Numbers of images that are copies of each other; numbers of other images are left out.
    """
    edges = list[tuple[int, int]]()
    for group in groups:
        members = np.sort(np.fromiter(group, np.int64))
        rows = np.minimum(np.searchsorted(numbers, members), max(len(numbers) - 1, 0))
        rows = rows[numbers[rows] == members] if len(numbers) else rows[:0]
        edges += [(int(block[rows[0]]), int(block[row])) for row in rows[1:]]
    if not edges:
        return block
    size = int(block.max()) + 1
    first, second = np.array(edges).T
    graph = coo_array((np.ones(len(edges)), (first, second)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    return np.asarray(component[block], np.int64)


def _days_added(collection: Collection, numbers: NDArray[np.int64]) -> NDArray[np.datetime64]:
    """Return the day (n,) on which each image was added, NaT where the history has been pruned."""
    days = np.full(len(numbers), np.datetime64("NaT"), "datetime64[D]")
    for at, first, last in collection.additions():
        inside = slice(*np.searchsorted(numbers, [first, last + 1]))
        days[inside] = np.datetime64(datetime.fromisoformat(at).date())
    return days


def source_codes(
    collection: Collection, images: AuditedImages, key: str | None
) -> tuple[NDArray[np.int64], list[str], str | None]:
    """Return the codes (n,) of the sources of images, -1 without one, their names, and the label that names them.

    Without a label, the folders below the common one name the sources; of too many, all images are one source.

    Parameters
    ----------
    collection : Collection
        The audited collection.
    images : AuditedImages
        Its images.
    key : str or None
        Label that names the source; None: `source` if images have it, or the folder.

    Raises
    ------
    InvalidInput
        If the label `key` has too many values to be a source.
    """
    label = key or (LABEL if LABEL in collection.label_keys() else None)
    if label is not None:
        codes, names = images.codes(collection, label)
        if len(names) <= MOST_SOURCES:
            return codes, names, label
        if key:
            raise InvalidInput(
                f"the label {key} has {len(names)} values, too many for sources ({MOST_SOURCES})"
            )
    folders = [_folder(source) for source in images.sources]
    names = sorted(set(folders))
    if len(names) > MOST_SOURCES:
        return np.zeros(len(images), np.int64), [ALL_IMAGES], None
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[name] for name in folders], np.int64), names, None


def _folder(source: str) -> str:
    """Return the name of the folder of a file, or address."""
    return PurePosixPath(source.replace(os.sep, "/")).parent.name or ALL_IMAGES


@dataclass(frozen=True, eq=False)
class IndependentNeighbours:
    """The nearest images of other blocks for each of n images, nearest first.

    rows: (n, k) int64; -1 if fewer were found. distances: (n, k) float32, one minus the cosine; infinite without one.
    """

    rows: NDArray[np.int64]
    distances: Floats


def find_independent(units: Floats, block: NDArray[np.int64], k: int) -> IndependentNeighbours:
    """Find the nearest images of other blocks.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of the same block are no neighbours of each other.
    k : int
        Number of neighbours. Fewer are found for images with more than `SPARE` nearer images of their own block.
    """
    count = len(units)
    candidates = max(min(k + SPARE, count - 1), 1)
    if count > EXACT:
        neighbours, squared = nearest_in_lists(
            sort_into_lists(units, plain_space(units.shape[1])), candidates
        )
    else:
        neighbours, squared = compare_all(units, candidates)
    other = (neighbours >= 0) & (block[neighbours] != block[:, None]) if count else neighbours >= 0
    order = np.argsort(~other, axis=1, kind="stable")[:, :k]
    independent = np.take_along_axis(other, order, axis=1)
    rows = np.where(independent, np.take_along_axis(neighbours, order, axis=1), -1).astype(np.int64)
    distances = np.where(independent, np.take_along_axis(squared, order, axis=1) / 2, np.inf).astype(
        np.float32
    )
    return IndependentNeighbours(rows, distances)


@dataclass(frozen=True, eq=False)
class Outliers:
    """Images whose neighbours are far away, the furthest first.

    rows: (m,) rows of the images. distance: (n,) of every image to its fifth nearest, one minus the cosine.
    likeness: (n,) share of the images that are at least as far from their neighbours.
    """

    rows: NDArray[np.int64]
    distance: NDArray[np.float64]
    likeness: NDArray[np.float64]


def find_outliers(nearest: IndependentNeighbours) -> Outliers:
    """Find images that are further from their neighbours than nearly all others; none in a collection of a few."""
    count = len(nearest.rows)
    columns = nearest.distances[:, :NEIGHBOUR]
    finite = np.where(np.isfinite(columns), columns, -1.0)
    distance = finite.max(axis=1, initial=-1.0).astype(np.float64)  # of the furthest there is, for few images
    has_neighbours = distance >= 0
    distance[~has_neighbours] = 0.0
    ascending = np.sort(distance)
    likeness = (count - np.searchsorted(ascending, distance, side="left")) / max(count, 1)
    if count <= NEIGHBOUR:
        return Outliers(np.empty(0, np.int64), distance, likeness)
    logs = np.log(np.maximum(distance, SMALLEST))
    middle = np.median(logs[has_neighbours]) if has_neighbours.any() else 0.0
    spread = DEVIATION * np.median(np.abs(logs[has_neighbours] - middle)) if has_neighbours.any() else 0.0
    far = np.flatnonzero(has_neighbours & (logs > middle + max(FENCE * spread, SMALLEST)))
    return Outliers(far[np.argsort(-distance[far], kind="stable")], distance, likeness)
