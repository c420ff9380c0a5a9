"""Values fitted to a collection behind an index, from a fixed sample, so that candidates do not change it."""

from threading import Lock

import numpy as np

from cbir.gallery import whitening
from cbir.gallery.knn import COPY, OTHERS, NearestDistances
from cbir.gallery.whitening import fit_space, plain_space
from cbir.search.index_vectors import Scale, Vectors
from cbir.store.base import normalisation
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.system.cancellation import run_to_end

SCALED = 1000  # images whose nearest other is asked from the index, in one batch


class SampledScale:
    """Scale of a collection behind a vector index, and distances between neighbours.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    profile : Profile
        Profile of the collection.
    previous : SampledScale, optional
        Of an earlier generation; what is fitted to the same sample is taken from it.
    """

    def __init__(self, vectors: Vectors, profile: Profile, previous: "SampledScale | None" = None) -> None:
        self._vectors, self._lock = vectors, Lock()
        self.fitted: Scale
        statistics = vectors.statistics
        parts = normalisation.part_bounds(profile, statistics)
        self._sampled, sample = vectors.sample(whitening.SAMPLE, IndexScope())
        self._distances: NearestDistances | None = None
        if previous is not None and previous._fits(statistics, self._sampled):
            space = previous.fitted.space
            self._distances = previous._distances
        elif profile.is_projected:
            space = plain_space(statistics.dimensions)
        else:
            space = fit_space(sample, parts)
        self.fitted = Scale(vectors.generation(), statistics, parts, profile.is_projected, space)

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
