"""Check of images against the collection that gets them: unlike it, or of another modality."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cbir.errors import NotFound
from cbir.gallery.nearest_distances import NearestDistances, without_snapshot
from cbir.gallery.vector_blocks import Floats, VectorBlocks, spread_rows
from cbir.intake.findings import with_findings
from cbir.store import Collection
from cbir.store.records import Entry

COMPARED = 2000  # images of the collection that others are compared with
LEAST_IMAGES = 100  # of a collection that says what fits
UNLIKE = 0.002  # likeness up to which nothing in the collection looks like an image
NEIGHBOURS = 7  # that all have another modality


class CollectionCheck:
    """Compares images with a sample of a collection, as it was when the check was made.

    Distances are those of searches. A collection of fewer than 100 images flags nothing.
    """

    def __init__(self, collection: Collection) -> None:
        self._statistics = collection.statistics()
        self._sample: Floats | None = None
        if self._statistics is None or len(collection) < LEAST_IMAGES:
            return
        numbers = collection.matching_numbers(())
        numbers = numbers[spread_rows(len(numbers), COMPARED)]
        try:
            self._sample = self._statistics.normalise(collection.raw_vectors(numbers))
        except NotFound:  # an image was deleted just now
            return
        self._scale: NearestDistances = without_snapshot(VectorBlocks((self._sample,)))
        records = collection.records(numbers.tolist())
        self._modalities = [
            records[number].labels.get("modality", "") if number in records else ""
            for number in numbers.tolist()
        ]

    def check(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, records with raw vectors (d,) float32, with further findings in the label `intake`."""
        if self._sample is None:
            return list(entries)
        return [
            (with_findings(record, self._findings(record.labels, vector)), vector)
            for record, vector in entries
        ]

    def _findings(self, labels: dict[str, str], vector: Floats) -> list[str]:
        distances = self._distances(vector)
        if (self._scale.likeness(float(distances.min())) or 1.0) <= UNLIKE:
            return ["unlike"]
        declared = labels.get("modality")
        return ["modality"] if declared and self._is_other_modality(declared, distances) else []

    def _is_other_modality(self, declared: str, distances: Floats) -> bool:
        near = np.argpartition(distances, NEIGHBOURS)[:NEIGHBOURS]
        (modality, count), *_ = Counter(self._modalities[row] for row in near).most_common(1)
        return bool(
            modality and count == NEIGHBOURS and modality != declared and declared in self._modalities
        )

    def _distances(self, vector: Floats) -> Floats:
        assert self._sample is not None
        assert self._statistics is not None
        normalised = self._statistics.normalise(np.asarray(vector, np.float32)[None])[0]
        return np.asarray(np.linalg.norm(self._sample - normalised, axis=1), np.float32)
