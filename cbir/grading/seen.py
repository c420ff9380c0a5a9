"""What a ranker sees of an image: its vector, its picture, or the severity that was learnt from comparisons."""

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import InvalidInput
from cbir.grading.cases import Cases
from cbir.grading.cnn import SIDE, CnnRanker
from cbir.grading.severity import SeverityRanker
from cbir.images import Image
from cbir.severity import stored_ranker
from cbir.severity.grey_images import read_grey_images
from cbir.severity.severity_labels import LABEL, severity_by_id
from cbir.store import Collection, Record

Floats = NDArray[np.floating]


def features_of_cases(collection: Collection, ranker: str, cases: Cases) -> Floats:
    """(n, d) of graded images, for the ranker of that name; raises InvalidInput where one has nothing to see."""
    if ranker == CnnRanker.name:
        return _pictures(collection, cases)
    if ranker != SeverityRanker.name:
        return cases.vectors
    known = severity_by_id(collection)
    without = [image_id for image_id in cases.image_ids if image_id not in known]
    if without:
        raise InvalidInput(
            f"{len(without)} of {len(cases)} graded images have no number in the label {LABEL!r}, image {without[0]} "
            "for one; `cbir annotate serve` or `cbir annotate simulate --write` gives them one"
        )
    return np.array([[known[image_id]] for image_id in cases.image_ids])


def _pictures(collection: Collection, cases: Cases) -> Floats:
    wanted = set(cases.image_ids)
    found = read_grey_images(collection, SIDE, keep=lambda record: record.image_id in wanted)
    if found.missing:
        raise InvalidInput(
            f"{len(found.missing)} of {len(cases)} graded images have no picture any more, image {found.missing[0]} "
            "for one; put the files back where they were indexed"
        )
    place = {record.image_id: number for number, record in enumerate(found.records)}
    rows = [place[image_id] for image_id in cases.image_ids]
    return found.pixels[rows].reshape(len(cases), -1).astype(np.float32)


def features_of_id(collection: Collection, ranker: str, record: Record) -> Floats:
    """(d,) of an image of the collection."""
    if ranker != SeverityRanker.name:
        return collection.vector(record.image_id)
    try:
        return np.array([float(record.labels[LABEL])])
    except (KeyError, ValueError):
        raise InvalidInput(f"image {record.image_id} has no number in the label {LABEL!r}") from None


def features_of_image(collection: Collection, ranker: str, image: Image) -> Floats:
    """(d,) of a new image; raises NotFound where the collection has learnt no severity that is asked for."""
    if ranker != SeverityRanker.name:
        return collection.profile.load_descriptor(settings.load().device)(image)
    return np.array([stored_ranker.severity_of_image(stored_ranker.load_stored_ranker(collection), image)])
