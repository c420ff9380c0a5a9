"""Check of images against the collection that gets them: inverted, unlike it, or of another modality."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from cbir.descriptors.encoder_descriptor import encoder_of
from cbir.errors import NotFound
from cbir.gallery.knn import OTHERS, NearestDistances, compare_all, nearest_of
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.ingest.checks.familiarity import LEAST_FAMILIAR, Familiarity, columns_of_maxima
from cbir.ingest.checks.findings import findings_of, with_findings
from cbir.store import Collection
from cbir.store.records.records import Entry, Record

COMPARED = 2000  # images of the collection that others are compared with
FAMILIAR = 10_000  # the same by the values of the encoder
LEAST_IMAGES = 100  # of a collection that says what fits
UNLIKE = 0.001  # familiarity, or likeness without an encoder, up to which nothing in the collection is like an image
NEIGHBOURS = 7  # that all have another modality
CLOSER = 1.05  # times as near as the image: the collection has the negative
ATTEMPTS = 3  # to read images while others delete some
AT_HOME = 0.02  # least likeness of such a negative, else both are foreign


class CollectionCheck:
    """Compares images with a sample of a collection, as it was when the check was made.

    Distances are those of searches; whether an image is unlike the collection is seen by the values of an encoder,
    if there is one. A collection of fewer than 100 images flags nothing, and one of fewer than 250, or 1,000 without
    an encoder, nothing as unlike it.
    """

    def __init__(self, collection: Collection) -> None:
        self._statistics = collection.statistics()
        self._sample: Floats | None = None
        self._familiarity: Familiarity | None = None
        if self._statistics is None or len(collection) < LEAST_IMAGES:
            return
        encoder = encoder_of(collection.profile.descriptor)
        numbers, raw = spread_vectors(collection, FAMILIAR if encoder else COMPARED)
        if not len(numbers):
            return
        records = collection.records(numbers.tolist())
        if encoder and len(numbers) >= LEAST_FAMILIAR:
            self._encoder_values = encoder.dimensions
            maxima = columns_of_maxima(encoder.card.outputs)
            patients = patient_numbers(records, numbers)
            self._familiarity = Familiarity(raw[:, : encoder.dimensions], patients, maxima)
        rows = spread_rows(len(numbers), COMPARED)
        numbers = numbers[rows]
        self._sample = self._statistics.normalise(raw[rows])
        nearest = nearest_to_others(self._sample)
        self._scale = NearestDistances(np.sort(nearest[np.isfinite(nearest)]))
        self._modalities = [
            records[number].labels.get("modality", "") if number in records else ""
            for number in numbers.tolist()
        ]

    def check(self, entries: Sequence[Entry], inverted: Sequence[Floats | None]) -> list[Entry]:
        """Return the entries with further findings in the label `intake`.

        Parameters
        ----------
        entries : sequence of (Record, (d,) float32)
            Records with raw vectors.
        inverted : sequence of (d,) float32 or None
            Raw vectors of the negatives, where they are known.
        """
        if self._sample is None:
            return list(entries)
        return [
            (with_findings(record, self._findings(record, vector, negative)), vector)
            for (record, vector), negative in zip(entries, inverted, strict=True)
        ]

    def _findings(self, record: Record, vector: Floats, negative: Floats | None) -> list[str]:
        if "blank" in findings_of(record):
            return []
        labels, distances = record.labels, self._distances(vector)
        nearest = float(distances.min())
        if negative is not None and self._is_inverted(nearest, float(self._distances(negative).min())):
            return ["inverted"]
        if self._is_unlike(vector, nearest):
            return ["unlike"]
        declared = labels.get("modality")
        return ["modality"] if declared and self._is_other_modality(declared, distances) else []

    def _is_unlike(self, vector: Floats, nearest: float) -> bool:
        """Return whether an image at distance `nearest` is stranger than nearly all images."""
        if self._familiarity is None:
            return (self._scale.likeness(nearest) or 1.0) <= UNLIKE
        values = np.asarray(vector[None, : self._encoder_values], np.float32)
        return float(self._familiarity.familiarity(values)[0]) <= UNLIKE

    def _is_inverted(self, nearest: float, of_negative: float) -> bool:
        """Return whether the negative is clearly nearer to the collection, and at home in it."""
        return nearest > CLOSER * of_negative and (self._scale.likeness(of_negative) or 0.0) > AT_HOME

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


def spread_vectors(collection: Collection, most: int) -> tuple[Rows, Floats]:
    """Return numbers (n,) and raw vectors (n, d) of at most `most` images, evenly spread.

    They are read again if one of them is deleted meanwhile; there are none if that goes on.
    """
    for _ in range(ATTEMPTS):
        numbers = collection.matching_numbers(())
        numbers = numbers[spread_rows(len(numbers), most)]
        try:
            return numbers, collection.raw_vectors(numbers)
        except NotFound:  # an image was deleted just now
            continue
    return np.empty(0, np.int64), np.empty((0, 0), np.float32)


def patient_numbers(records: Mapping[int, Record], numbers: Rows) -> Rows:
    """Return a number (n,) for the patient of each image; an image of an unknown patient has one of its own."""
    of_patients: dict[str | int, int] = {}
    keys = ((number in records and records[number].patient_key) or number for number in numbers.tolist())
    return np.array([of_patients.setdefault(key, len(of_patients)) for key in keys], np.int64)


def nearest_to_others(sample: Floats) -> Floats:
    """Return the distance (n,) of each vector to its nearest other; infinite if the nearest ones are copies."""
    return nearest_of(VectorBlocks((sample,)), np.arange(len(sample)), compare_all(sample, OTHERS)[0])
