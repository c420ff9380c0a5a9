"""The port that every vector index implements: nearest images in a scope, vectors by number, changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.store.records.filter_conditions import Condition, DicomScope, PatientScope

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class IndexScope:
    """Images that may be answers: those for which everything here holds.

    where: label conditions. of_patients: each a patient whose images alone count. without_patients: keys of patients,
    without_contents: content hashes, whose images are left out. outside: as `DicomScope.excludes`.
    """

    where: tuple[Condition, ...] = ()
    of_patients: tuple[PatientScope, ...] = ()
    without_patients: tuple[str, ...] = ()
    without_contents: tuple[str, ...] = ()
    outside: DicomScope | None = None


@dataclass(frozen=True)
class IndexedImage:
    """Attributes of an image, which an index filters by. patient_key: "" for none."""

    number: int
    content_hash: str
    patient_key: str = ""
    study: str = ""
    series: str = ""
    instance: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class IndexPosition(NamedTuple):
    """Last state of the collection that an index has followed; stored in the index after the data.

    generation: of the collection. last_number: largest image number that it has seen. last_change: number of the last
    entry of the collection's history that it has seen. state: name of the state of the collection's database, which
    a database that was restored to an earlier state does not know.
    """

    generation: int
    last_number: int
    last_change: int
    state: str = ""


class Neighbours(NamedTuple):
    """Nearest images of a query, nearest first. numbers: (n,) int64. distances: (n,) float32, Euclidean.

    vectors: (n, d) float32, where an index sends them with its answers.
    """

    numbers: Numbers
    distances: Floats
    vectors: Floats | None = None


class VectorIndex(Protocol):
    """One edition of an index: normalised vectors (d,) float32 by image number.

    serves_vectors: whether it reads vectors by their numbers faster than the collection does. Every call may raise
    IndexUnavailable (cbir.errors) while the engine does not answer. Changes can be repeated: an interrupted one is
    run again.
    """

    serves_vectors: bool

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return up to k images of `scope` for each of the `queries` (q, d); fewer if the engine finds no more."""

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers that the index has of `numbers`, ascending, and their vectors (n, d)."""

    def put(self, images: Sequence[IndexedImage], vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""

    def delete(self, numbers: Numbers) -> None:
        """Delete images; unknown numbers are ignored."""

    def position(self) -> IndexPosition | None:
        """Return how far it has followed; None before the first fill has ended."""

    def set_position(self, position: IndexPosition) -> None:
        """Store how far it has followed, once everything before is durable."""

    def finish(self) -> None:
        """Make a first fill searchable: build the graph, load it."""

    def __len__(self) -> int: ...

    def drop(self) -> None:
        """Delete the edition."""

    def close(self) -> None:
        """Close connections."""
