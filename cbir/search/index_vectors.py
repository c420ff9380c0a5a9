"""Interface of a collection's vectors for searches: `view_vectors`, or behind a vector index `indexed_vectors`."""

from dataclasses import dataclass
from typing import Protocol

from cbir.gallery.numbered_graph import NumberedGraph
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import Space
from cbir.store.base.normalisation import Statistics
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.store.limited_collection import LimitedCollection


@dataclass(frozen=True, eq=False)
class Scale:
    """What is fitted to a whole collection, of one generation.

    parts: start and stop of each part of the descriptor. projected: vectors are compared as they are. space: for
    comparing neighbours.
    """

    generation: int
    statistics: Statistics
    parts: tuple[tuple[int, int], ...]
    projected: bool
    space: Space


class Vectors(Protocol):
    """Normalised vectors of a collection by image number, as they are now, also where the index is behind.

    Every call may raise IndexUnavailable.
    """

    @property
    def statistics(self) -> Statistics:
        """Statistics that normalise a query."""

    @property
    def index_name(self) -> str:
        """Name of the index that searches."""

    @property
    def compares_all(self) -> bool:
        """Whether the index compares all images, so that many nearest take little longer than few."""

    def __len__(self) -> int:
        """Return the number of images."""

    def over(self, limited: LimitedCollection) -> "Vectors":
        """Return the vectors of the images that a limited view of the collection shows."""

    def for_search(self) -> "Vectors":
        """Return the vectors as they are now, for the calls of one search."""

    def generation(self) -> int:
        """Return the generation of the collection."""

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return k images of `scope` for each of the `queries` (q, d), fewer only where fewer match.

        Distances are exact.
        """

    def graph(self) -> NumberedGraph | None:
        """Return the stored k-NN graph of the collection; None without one."""

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of `numbers` that are not deleted, ascending, and their vectors (n, d)."""

    def sample(self, count: int, scope: IndexScope) -> tuple[Numbers, Floats]:
        """Return a fixed random sample of `scope`: numbers, ascending, and vectors; all where fewer match."""

    def within(self, numbers: Numbers, scope: IndexScope) -> Numbers:
        """Return those of `numbers` that are in `scope`, ascending."""

    def count(self, scope: IndexScope) -> int | None:
        """Return how many images are in `scope`; None where counting takes long."""
