"""Other studies of a query's patient: by view, then by likeness, with the days between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cbir.descriptors import get as get_descriptor
from cbir.errors import NotFound
from cbir.gallery.vector_blocks import Doubles, Floats
from cbir.search import Searcher
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition, DicomScope, PatientScope
from cbir.store.records.records import days_between
from cbir.system.threads import checkpoint, take_turn

# Of the DICOM header, or of a manifest.
VIEW_LABELS = ("modality", "body_part", "view_position", "laterality")
MOST_QUERIES = 100  # images of a study that are compared, evenly spread
PAGE = 2000  # images of the patient whose vectors are read at a time
NO_PATIENT = "the patient of this image is not known: its file named none, or the collection has no key of it"
NO_OTHER = "the collection has no other study of this patient"
NO_OTHER_WHERE = "the collection has no other study of this patient that meets the conditions"


class PriorOrder(StrEnum):
    """Order of prior studies, after those of the same view come first."""

    likeness = "likeness"
    time = "time"


@dataclass(frozen=True)
class PriorRequest:
    """Parameters of a search for prior studies.

    order: by the likeness of their best images, or the nearest in time first. images: most images of a study.
    limit: most studies. where: conditions on labels.
    """

    order: PriorOrder = PriorOrder.likeness
    images: int = 4
    limit: int = 10
    where: Sequence[str | Condition] = ()


@dataclass(frozen=True)
class PriorImage:
    """An image of another study.

    query: the image of the query that it is most like. likeness: at most 1, which means equal vectors. distance:
    Euclidean, of the vectors that were compared. differing: labels of VIEW_LABELS that both have, with different
    values.
    """

    query: Record
    record: Record
    likeness: float
    distance: float
    differing: tuple[str, ...]

    @property
    def same_view(self) -> bool | None:
        """True for the same view, False for another one; None if the labels lack a view position."""
        if self.differing:
            return False
        return True if all("view_position" in record.labels for record in (self.query, self.record)) else None


@dataclass(frozen=True)
class PriorStudy:
    """Another study of the patient.

    study: UID; "" for images without one, which are together if they are of one day, else by themselves. count:
    number of its images that meet the conditions. days_before: days from it to the query, negative if it is later;
    None if unknown. images: best first.
    """

    study: str
    count: int
    days_before: int | None
    images: tuple[PriorImage, ...]

    @property
    def best(self) -> PriorImage:
        """Its best image."""
        return self.images[0]


@dataclass(frozen=True)
class PriorStudies:
    """Other studies of a patient, best first. total: number of all of them. reason: why there is none."""

    queries: list[Record]
    studies: list[PriorStudy]
    total: int
    reason: str = ""


def find_priors(searcher: Searcher, query: str | DicomScope, request: PriorRequest) -> PriorStudies:
    """Find the other studies of the patient of an image or a study.

    Parameters
    ----------
    searcher : Searcher
        Search of the collection; one that is limited sees its images alone.
    query : str or DicomScope
        Id of the image; or the study, of which MOST_QUERIES images are compared, evenly spread.
    request : PriorRequest
        Parameters of the search.

    Raises
    ------
    NotFound
        If the collection has no such image.
    InvalidInput
        For a condition that cannot be read.
    """
    collection = searcher.collection
    conditions = collection.conditions(request.where)
    queries = _query_records(collection, query)
    first = next((record for record in queries.values() if record.patient_key), None)
    if first is None:
        return PriorStudies([*queries.values()], [], 0, NO_PATIENT)
    numbers = collection.patient_numbers(PatientScope(first.patient_key, first.study), conditions)
    others = collection.records([number for number in numbers.tolist() if number not in queries])
    query_contents = {record.content_hash for record in queries.values()}
    others = {
        number: record for number, record in others.items() if record.content_hash not in query_contents
    }
    if not others:
        return PriorStudies([*queries.values()], [], 0, NO_OTHER_WHERE if conditions else NO_OTHER)
    images = _compare(collection, queries, others)
    images.sort(key=lambda image: (len(image.differing), -image.likeness))
    studies = _group(images, request)
    return PriorStudies([*queries.values()], studies[: request.limit], len(studies))


def _query_records(collection: Collection, query: str | DicomScope) -> dict[int, Record]:
    """Return the records of the query by number."""
    if isinstance(query, str):
        record = collection.record(query)
        return {int(collection.numbers_of([query])[0]): record}
    numbers = np.array(collection.numbers_in(query), np.int64)
    spread = np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_QUERIES)).round().astype(int)
    records = collection.records(numbers[spread].tolist())
    if not records:
        raise NotFound(f"there is no image of the study {query.study} in the collection")
    return records


@take_turn()
def _compare(
    collection: Collection, queries: dict[int, Record], others: dict[int, Record]
) -> list[PriorImage]:
    """Compare each of the other images with the image of the query that it is most like."""
    present, ours = _comparable(collection, [*queries])
    if not len(present):
        raise NotFound("the image has been deleted meanwhile")
    query_records = [queries[number] for number in present]
    numbers, images = [*others], list[PriorImage]()
    for start in range(0, len(numbers), PAGE):
        checkpoint()
        page, vectors = _comparable(collection, numbers[start : start + PAGE])
        likeness, distances = _likeness(vectors, ours)
        for row, number in enumerate(page):
            best = int(likeness[row].argmax())
            compared = float(likeness[row, best]), float(distances[row, best])
            differing = differing_labels(query_records[best], others[number])
            images.append(PriorImage(query_records[best], others[number], *compared, differing))
    return images


def _comparable(collection: Collection, numbers: Sequence[int]) -> tuple[list[int], Floats]:
    """Return the numbers of those images that exist, ascending, and vectors (n, d) to compare a patient's images by.

    The directions that an encoder's values are projected to tell the images of a collection apart; those of one
    patient are compared by all values.
    """
    present, raw = collection.index_feed().vectors(np.array(numbers, np.int64))
    profile = collection.profile
    if profile.is_projected and len(get_descriptor(profile.descriptor).parts) == 1:
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        return present.tolist(), np.asarray(raw / np.where(lengths, lengths, 1), np.float32)
    return present.tolist(), collection.normalisation().normalise(raw)


def _likeness(vectors: Floats, queries: Floats) -> tuple[Doubles, Doubles]:
    """Return 1 - |a - b|^2 / (|a|^2 + |b|^2), the cosine of vectors of one length, and the distances, (n, q) each."""
    products = vectors.astype(np.float64) @ queries.astype(np.float64).T
    squares = np.square(vectors, dtype=np.float64).sum(axis=1)[:, None]
    squares = squares + np.square(queries, dtype=np.float64).sum(axis=1)
    squared_distances = np.maximum(squares - 2 * products, 0)
    return 1 - squared_distances / np.where(squares > 0, squares, 1), np.sqrt(squared_distances)


def differing_labels(query: Record, record: Record) -> tuple[str, ...]:
    """Return those labels of the view that both images have, with different values."""
    pairs = ((key, query.labels.get(key), record.labels.get(key)) for key in VIEW_LABELS)
    return tuple(key for key, ours, theirs in pairs if ours and theirs and ours != theirs)


def _group(images: Sequence[PriorImage], request: PriorRequest) -> list[PriorStudy]:
    """Group images, best first, by study; the studies come in the order that is requested."""
    members: dict[tuple[str, int | None, str], list[PriorImage]] = {}
    for image in images:
        record = image.record
        alone = record.image_id if record.study_day is None and not record.study else ""
        members.setdefault((record.study, None if record.study else record.study_day, alone), []).append(
            image
        )
    studies = []
    for (study, *_), of_study in members.items():
        best = of_study[0]
        days = days_between(best.record.study_day, best.query.study_day)
        studies.append(PriorStudy(study, len(of_study), days, tuple(of_study[: request.images])))
    if request.order is PriorOrder.time:
        studies.sort(key=_nearest_first)
    return studies


def _nearest_first(study: PriorStudy) -> tuple[int, bool, int]:
    days = study.days_before
    return len(study.best.differing), days is None, abs(days or 0)
