"""What a ranker sees of an image: its vector, or the severity that was learnt from comparisons."""

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.active import stored
from cbir.active.labels import LABEL, severities
from cbir.collection import Collection, Record
from cbir.errors import InvalidInput
from cbir.grading.cases import Cases
from cbir.grading.severity import SeverityRanker
from cbir.images import Image

Floats = NDArray[np.floating]


def features_of_cases(collection: Collection, ranker: str, cases: Cases) -> Floats:
    """(n, d) of graded images, for the ranker of that name; raises InvalidInput where one has no severity."""
    if ranker != SeverityRanker.name:
        return cases.vectors
    known = severities(collection)
    without = [image_id for image_id in cases.image_ids if image_id not in known]
    if without:
        raise InvalidInput(
            f"{len(without)} of {len(cases)} graded images have no number in the label {LABEL!r}, image {without[0]} "
            "for one; `cbir annotate serve` or `cbir annotate simulate --write` gives them one"
        )
    return np.array([[known[image_id]] for image_id in cases.image_ids])


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
        return descriptors.get(collection.profile.descriptor)(image)
    return np.array([stored.severity_of(stored.kept(collection), image)])
