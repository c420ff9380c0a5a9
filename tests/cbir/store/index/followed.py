"""A collection that an index follows, and what the index should answer, found without it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.index.open_index import CollectionIndex, open_index
from cbir.store.index.port import IndexScope, Neighbours
from cbir.store.writing.writer import Entry

DIMENSIONS = 6  # of the descriptor `tamura`


@dataclass
class Followed:
    """A collection with its index."""

    collection: Collection
    settings: Settings

    def __post_init__(self) -> None:
        self.index = self.opened()

    def opened(self) -> CollectionIndex:
        """Open the index again, as another process does."""
        index = open_index(self.collection, self.settings)
        assert index
        return index

    def filled(self, stop: int = 300) -> "Followed":
        """Add images up to number `stop`, end the indexing run, and let the index follow."""
        with self.collection.writer() as writer:
            writer.add(make_entries(0, stop))
            writer.finish()
        assert self.index.follower.follow()
        return self

    def ids(self) -> list[str]:
        """Ids of the images, in the order of their numbers."""
        return [image_id for _, image_id in sorted(self.collection.image_ids().items())]

    def exact(self, query: NDArray[np.float32], k: int, scope: IndexScope) -> Neighbours:
        """Compare the query with every image in the scope, one by one."""
        inside = [number for number, record in self.collection.iterate() if holds(record, scope)]
        numbers = np.array(inside, np.int64)
        vectors = np.zeros((0, DIMENSIONS), np.float32)
        if inside:
            vectors = self.index.vectors.statistics.normalise(self.collection.raw_vectors(numbers))
        distances = np.sqrt(((vectors.astype(np.float64) - query) ** 2).sum(axis=1))
        order = np.argsort(distances, kind="stable")[:k]
        return Neighbours(numbers[order], distances[order].astype(np.float32))

    def require_same(self) -> None:
        """Fail unless the index holds exactly the images of the collection, with their vectors."""
        opened = self.index.current.find()
        assert opened
        numbers = np.array(sorted(self.collection.image_ids()), np.int64)
        everything = np.arange(1, numbers.max(initial=0) + 1000)
        found, vectors = opened.index.vectors(everything)
        np.testing.assert_array_equal(found, numbers)
        assert len(opened.index) == len(numbers)
        expected = opened.statistics.normalise(self.collection.raw_vectors(numbers))
        np.testing.assert_array_equal(vectors, expected)

    def require_exact(self, scopes: Sequence[IndexScope], k: int = 12, seed: int = 0) -> None:
        """Fail unless each scope has the answers of a comparison with all of its images."""
        queries = np.random.default_rng(seed).normal(0, 1, (2, DIMENSIONS)).astype(np.float32)
        for scope in scopes:
            for query, found in zip(queries, self.index.vectors.nearest(queries, k, scope), strict=True):
                expected = self.exact(query, k, scope)
                np.testing.assert_array_equal(found.numbers, expected.numbers, err_msg=str(scope))
                np.testing.assert_allclose(found.distances, expected.distances, atol=1e-4)


def holds(record: Record, scope: IndexScope) -> bool:
    """Return whether an image is in a scope, by its record alone."""
    return (
        all(condition.holds_for(record.labels) for condition in scope.where)
        and all(
            record.patient_key == patient.key and (not record.study or record.study != patient.besides)
            for patient in scope.of_patients
        )
        and not (record.patient_key and record.patient_key in scope.without_patients)
        and record.content_hash not in scope.without_contents
        and not (scope.outside and (not record.instance or record.study == scope.outside.study))
    )


def make_entries(start: int, stop: int, part: str | None = None) -> list[Entry]:
    """Make the entries numbered start..stop-1: of seven patients and five studies, one in fifty rare."""
    entries = []
    for number in range(start, stop):
        content = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
        labels = {"part": part or ("knee", "hand", "foot")[number % 3]}
        record = Record(
            content_hash=content,
            source=f"/images/{number}.dcm",
            source_stamp="1",
            format="dicom",
            width=10,
            height=20,
            patient_key=f"{number % 7:032x}",
            study=f"1.2.{number % 5}",
            series=f"1.2.{number % 5}.1",
            instance=f"1.2.3.{number}" if number % 4 else "",
            labels=labels | ({"rare": "yes"} if number % 50 == 0 else {}),
        )
        entries.append(
            (record, np.random.default_rng(number).normal(5.0, 2.0, DIMENSIONS).astype(np.float32))
        )
    return entries
