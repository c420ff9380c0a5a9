"""Two halves of a labelled collection: parameters are chosen with queries of one, and reported with the other's."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.candidates import Candidates
from cbir.evaluation.relevance import Relevance


def split_halves(
    candidates: Candidates, relevance: Relevance, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending places of each half's images, class by class as even as patients allow.

    All images of a patient are in the same half, or the same picture twice would be chosen by and reported on.
    Images that are not judged are in neither.
    """
    generator = np.random.default_rng(seed)
    half_of: dict[str, int] = {}
    found: tuple[list[int], list[int]] = ([], [])
    for members in positions_by_class(candidates, relevance).values():
        owners = _by_patient(candidates, members)
        sizes = [0, 0]
        names = list(owners)
        for turn in generator.permutation(len(names)).tolist():
            name = names[turn]
            half = half_of.setdefault(name, int(sizes[1] < sizes[0]))
            sizes[half] += len(owners[name])
            found[half].extend(owners[name])
    return np.sort(np.array(found[0], np.int64)), np.sort(np.array(found[1], np.int64))


def limit_classes(
    candidates: Candidates, relevance: Relevance, most: int | None, seed: int = 0
) -> NDArray[np.int64]:
    """Ascending places of the judged images, of each class at most `most`; None: all of them.

    Patients are taken whole, in random order, where they fit; a class none of whose patients fits is left out.
    """
    generator = np.random.default_rng(seed)
    kept: list[int] = []
    for members in positions_by_class(candidates, relevance).values():
        owners = list(_by_patient(candidates, members).values())
        taken: list[int] = []
        for turn in generator.permutation(len(owners)).tolist():
            if most is None or len(taken) + len(owners[turn]) <= most:
                taken.extend(owners[turn])
        kept.extend(taken)
    return np.sort(np.array(kept, np.int64))


def positions_by_class(candidates: Candidates, relevance: Relevance) -> dict[tuple[str, ...], list[int]]:
    """Places of the judged images by class."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, record in enumerate(candidates.records):
        its_class = relevance.class_of(record.labels)
        if its_class is not None:
            found.setdefault(its_class, []).append(place)
    return found


def _by_patient(candidates: Candidates, places: list[int]) -> dict[str, list[int]]:
    """Places by patient; an image of no known patient is alone, with those of the same picture."""
    found: dict[str, list[int]] = {}
    for place in places:
        record = candidates.records[place]
        found.setdefault(record.patient_key or f"picture {record.content_hash}", []).append(place)
    return found
