"""Check of images against the collection that gets them: inverted, unlike it, or of another modality.

An image is unlike it if it is strange among the neighbours of the collection's images: the mean of two distances, by
all values of the encoder and by its maxima alone. The first sees other anatomies, the second what is no medical image
at all. They are measured in directions that are divided by what images differ in from their nearest ones: those that
searches use know nothing of other kinds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_files import EncoderOutput
from cbir.descriptors.network_descriptors import encoder_of
from cbir.errors import NotFound
from cbir.gallery.knn import compare_all
from cbir.gallery.knn_graph import OTHERS, NearestDistances, nearest_of
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.ingest.pixel_checks import findings_of, with_findings
from cbir.store import Collection
from cbir.store.records.records import Entry, Record
from cbir.system.threads import OneBlasThread

NEIGHBOURS = 3

FITTED_ON = 2500  # images that directions are computed from

PAIRED_IN = 128  # directions that the nearest image is searched for in

RIDGE = 0.03  # of the mean variance between nearest images, added to it

SMALLEST = 1e-2  # distance, where nearest images are 1 apart in each direction: that of copies is rounding

DENSEST = 0.1  # of the median spread: copies of one image do not make all others strange

BLOCK = 250  # images compared at a time

Numbers = NDArray[np.float64]


class NeighbourSpace:
    """Compares vectors with n of a collection.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of the collection.
    patients : (n,) int64
        Images with the same number are no neighbours of each other.
    directions : int
        Number of directions, at most.
    """

    def __init__(self, vectors: Floats, patients: Rows, directions: int) -> None:
        with OneBlasThread():
            self._mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            principal = _principal_directions(vectors, self._mean, max(directions, PAIRED_IN))
            values = np.concatenate([(page - self._mean) @ principal for page in _pages(vectors)])
            paired, rows = (
                _unit(values[:, :PAIRED_IN], float(np.finfo(np.float32).tiny)),
                spread_rows(len(vectors), FITTED_ON),
            )
            nearest, _ = _neighbours(paired[rows], patients[rows], paired, patients, 1)
            values = values[:, :directions]
            whitening = _whitening(values[rows] - values[nearest[:, 0]])
            self._directions = principal[:, :directions] @ whitening
            self._values = values @ whitening
            rows, distances = _neighbours(self._values, patients, self._values, patients, NEIGHBOURS)
        self._spreads = np.maximum(distances[:, -1], DENSEST * np.median(distances[:, -1]))
        self.logs = self._log_ratios(rows, distances)

    def __call__(self, vectors: Floats) -> Numbers:
        """Return how far off vectors (m, d) are: a logarithm (m,) to be compared with `logs` (n,) of the collection.

        It is that of the distance to the third nearest image over the root of the mean of the same distance of the
        three, as in the local outlier factor (Breunig et al. 2000) but for the root.
        """
        values = (vectors - self._mean) @ self._directions
        return self._log_ratios(*_neighbours(values, None, self._values, None, NEIGHBOURS))

    def _log_ratios(self, rows: Rows, distances: Floats) -> Numbers:
        spread = np.maximum(self._spreads[rows].mean(axis=1, dtype=np.float64), SMALLEST)
        return np.asarray(np.log(np.maximum(distances[:, -1], SMALLEST)) - np.log(spread) / 2)


def _pages(vectors: Floats) -> list[Floats]:
    return [vectors[start : start + BLOCK] for start in range(0, len(vectors), BLOCK)]


def _unit(vectors: Floats, least: float) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, least), np.float32)


def _principal_directions(vectors: Floats, mean: Floats, count: int) -> Floats:
    """Return at most `count` directions (d, k) of length 1 with the greatest variance, in descending order."""
    from scipy.linalg import eigh  # only now: a service starts without it

    sample = vectors[spread_rows(len(vectors), FITTED_ON)] - mean
    size = len(sample)
    squares, weights = eigh(sample @ sample.T, subset_by_index=(max(size - count, 0), size - 1))
    weights = weights[:, squares > 1e-6 * max(squares[-1], np.finfo(np.float32).tiny)]
    directions = sample.T @ weights[:, ::-1]
    return np.asarray(directions / np.linalg.norm(directions, axis=0), np.float32)


def _whitening(differences: Floats) -> Floats:
    """Return the matrix (k, k) after which `differences` (n, k) have about the same variance in all directions."""
    scatter = (differences.T @ differences).astype(np.float64) / len(differences) / 2
    size = len(scatter)
    scatter += max(RIDGE * float(np.trace(scatter)) / max(size, 1), 1e-12) * np.eye(size)
    return np.linalg.inv(np.linalg.cholesky(scatter)).T.astype(np.float32)


def _neighbours(
    vectors: Floats, patients: Rows | None, others: Floats, their_patients: Rows | None, count: int
) -> tuple[Rows, Floats]:
    """Return rows (m, count) of the nearest `others` of other patients, and their distances, ascending."""
    squares = np.einsum("ij,ij->i", others, others)
    rows, distances = np.empty((len(vectors), count), np.int64), np.empty((len(vectors), count), np.float32)
    for start in range(0, len(vectors), BLOCK):
        page = slice(start, start + BLOCK)
        block = vectors[page]
        products = block @ others.T
        squared = squares - 2 * products
        if patients is not None and their_patients is not None:
            squared[patients[page, None] == their_patients] = np.inf
        near = np.argpartition(squared, count - 1, axis=1)[:, :count]
        ordered = np.take_along_axis(squared, near, axis=1)
        order = np.argsort(ordered, axis=1)
        rows[page] = np.take_along_axis(near, order, axis=1)
        lengths = np.einsum("ij,ij->i", block, block)[:, None]
        distances[page] = np.sqrt(np.maximum(np.take_along_axis(ordered, order, axis=1) + lengths, 0))
    return rows, distances


DIRECTIONS, DIRECTIONS_OF_MAXIMA = 64, 256

USUAL = 0.99  # of the images of the collection are less strange than 1

LEAST_DIFFERENCE = 1e-3  # difference between a usual image and the median, and length of a vector

ROUNDING = 1e-3  # of the strangeness

TAIL = 25  # strangest images of the collection, which say how rare stranger ones are

LEAST_FAMILIAR = 10 * TAIL  # images of a collection: its strangest tenth is the tail


def columns_of_maxima(outputs: Sequence[EncoderOutput]) -> slice:
    """Return the columns of the maxima in the vectors of an encoder, which come last; empty if there are none."""
    count = sum(output.dimensions for output in outputs)
    first = count
    for output in reversed(outputs):
        if output.pooling != "max":
            break
        first -= output.dimensions
    return slice(first, count)


class Familiarity:
    """Compares vectors with n of a collection.

    Parameters
    ----------
    vectors : (n, d) float32
        Raw values of the encoder; n > 3.
    patients : (n,) int64
        Numbers of the patients: images of one are not compared with each other, unless there are too few patients.
    maxima : slice
        Columns that are maxima.
    """

    def __init__(self, vectors: Floats, patients: Rows, maxima: slice) -> None:
        if len(vectors) - np.unique(patients, return_counts=True)[1].max() < NEIGHBOURS:
            patients = np.arange(len(vectors))
        self._columns = [slice(0, vectors.shape[1])]
        self._spaces = [NeighbourSpace(_unit(vectors, LEAST_DIFFERENCE), patients, DIRECTIONS)]
        if maxima.start < maxima.stop:
            self._columns.append(maxima)
            self._spaces.append(
                NeighbourSpace(_unit(vectors[:, maxima], LEAST_DIFFERENCE), patients, DIRECTIONS_OF_MAXIMA)
            )
        logs = [space.logs for space in self._spaces]
        self._scales = [(np.median(log), np.quantile(log, USUAL)) for log in logs]
        self._ascending = np.sort(self._strangeness(logs))

    def familiarity(self, vectors: Floats) -> Numbers:
        """Return the share (m,) of images like those of the collection that are at least as strange, up to 1.

        vectors: (m, d) float32, raw values of the encoder. The smaller of two p-values: that of a conformal anomaly
        detector (Laxhammar & Falkman 2010), which a small collection lets become no smaller than 1 / (n + 1), and one
        by its 25 strangest images: how often a distance is exceeded falls with a power of it (Hill 1975), and
        strangeness is its logarithm.
        """
        logs = [
            space(_unit(vectors[:, columns], LEAST_DIFFERENCE))
            for space, columns in zip(self._spaces, self._columns, strict=True)
        ]
        strangeness, count = self._strangeness(logs), len(self._ascending)
        at_least = count - np.searchsorted(self._ascending, strangeness - ROUNDING)
        counted = (1 + at_least) / (1 + count)
        tail = min(TAIL, count - 1)
        beyond = strangeness - ROUNDING - self._ascending[-1 - tail]
        usual = max(float((self._ascending[-tail:] - self._ascending[-1 - tail]).mean()), ROUNDING)
        extrapolated = tail / count * np.exp(-np.maximum(beyond, 0) / usual)
        return np.where(beyond > 0, np.minimum(counted, extrapolated), counted).astype(np.float64)

    def _strangeness(self, logs: list[Numbers]) -> Numbers:
        """Return the mean of the logarithms (m,); 0 is the median of the collection, and 1 its 99th percentile."""
        scaled = [
            (log - middle) / max(usual - middle, LEAST_DIFFERENCE)
            for log, (middle, usual) in zip(logs, self._scales, strict=True)
        ]
        return np.asarray(np.mean(scaled, axis=0))


COMPARED = 2000  # images of the collection that others are compared with

FAMILIAR = 10_000  # the same by the values of the encoder

LEAST_IMAGES = 100  # of a collection that says what fits

UNLIKE = 0.001  # familiarity, or likeness without an encoder, up to which nothing in the collection is like an image

SAME_MODALITY = 7  # that all have another modality

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
        near = np.argpartition(distances, SAME_MODALITY)[:SAME_MODALITY]
        (modality, count), *_ = Counter(self._modalities[row] for row in near).most_common(1)
        return bool(
            modality and count == SAME_MODALITY and modality != declared and declared in self._modalities
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
