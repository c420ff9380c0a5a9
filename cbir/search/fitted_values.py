"""Values that are fitted to the whole collection, for searches in a part of it."""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from cbir.gallery import vector_blocks
from cbir.gallery.knn_graph import COPY, OTHERS, NearestDistances
from cbir.gallery.vector_blocks import Space, fit_space, plain_space
from cbir.search.view_vectors import ViewVectors
from cbir.store.base import normalisation
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile
from cbir.store.index.indexed_vectors import IndexedVectors
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.store.views.collection_view import View
from cbir.system.threads import run_to_end

SCALED = 1000  # images whose nearest other is asked from the index, in one batch


@dataclass(frozen=True, eq=False)
class FittedValues:
    """Values that are fitted to a whole collection, of one generation.

    parts: start and stop of each part of the descriptor. projected: vectors are compared as they are. space: for
    comparing neighbours.
    """

    generation: int
    statistics: Statistics
    parts: tuple[tuple[int, int], ...]
    projected: bool
    space: Space


def fitted_values(view: View) -> FittedValues:
    """Return what is fitted to the whole collection, of which `view` is the view."""
    gallery = view.gallery
    return FittedValues(view.generation, view.statistics, gallery.parts, gallery.projected, gallery.space)


# Normalised vectors of a collection by image number, as they are now; behind an index, calls may raise
# IndexUnavailable.
Vectors = ViewVectors | IndexedVectors


class SampledValues:
    """Values that are fitted to a sample of a collection behind a vector index, and distances between neighbours.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    profile : Profile
        Profile of the collection.
    previous : SampledValues, optional
        Of an earlier generation; what is fitted to the same sample is taken from it.
    """

    def __init__(self, vectors: Vectors, profile: Profile, previous: "SampledValues | None" = None) -> None:
        self._vectors, self._lock = vectors, Lock()
        self.fitted: FittedValues
        statistics = vectors.statistics
        parts = normalisation.part_bounds(profile, statistics)
        self._sampled, sample = vectors.sample(vector_blocks.SAMPLE, IndexScope())
        self._distances: NearestDistances | None = None
        if previous is not None and previous._fits(statistics, self._sampled):
            space = previous.fitted.space
            self._distances = previous._distances
        elif profile.is_projected:
            space = plain_space(statistics.dimensions)
        else:
            space = fit_space(sample, parts)
        self.fitted = FittedValues(vectors.generation(), statistics, parts, profile.is_projected, space)

    def is_of(self, generation: int, statistics: Statistics) -> bool:
        """Return whether it is fitted to a generation of the collection, with these statistics."""
        return self.fitted.generation == generation and self.fitted.statistics is statistics

    def _fits(self, statistics: Statistics, sampled: Numbers) -> bool:
        return self.fitted.statistics is statistics and np.array_equal(self._sampled, sampled)

    @property
    def nearest_distances(self) -> NearestDistances:
        """Distances of images to their nearest others, asked from the index when they are first needed."""
        return self._distances or run_to_end(self._ask_distances, self._lock)

    def _ask_distances(self) -> NearestDistances:
        if self._distances is None:
            numbers, sample = self._vectors.sample(SCALED, IndexScope())
            neighbours = self._vectors.nearest(sample, OTHERS + 1, IndexScope()) if len(numbers) else []
            nearest = [
                _nearest_other(number, each)
                for number, each in zip(numbers.tolist(), neighbours, strict=True)
            ]
            distances = np.array(nearest, np.float32)
            self._distances = NearestDistances(np.sort(distances[np.isfinite(distances)]))
        return self._distances


def _nearest_other(number: int, neighbours: Neighbours) -> float:
    """Return the distance of an image to the nearest that is no copy; infinite if none was found."""
    others = neighbours.distances[(neighbours.numbers != number) & (neighbours.distances > COPY)]
    return float(others.min(initial=np.inf))
