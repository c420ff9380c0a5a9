"""Images of a collection as an audit reads them: vectors, patients, and when each was added."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cbir.errors import InvalidInput
from cbir.evaluation.relevance import encode_values
from cbir.gallery.vector_blocks import Floats
from cbir.settings import Settings
from cbir.store import Collection


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
