"""Splits of a labelled collection: parameters are chosen on one half and reported on the other."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.relevance import Candidates, Relevance


def split_halves(
    candidates: Candidates, relevance: Relevance, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the judged images into two halves of about equal size in each class.

    All images of a patient, or of the same picture, are in one half, so that nothing is reported on what
    parameters were chosen with.

    Parameters
    ----------
    candidates : Candidates
    relevance : Relevance
        Defines the classes; images that it does not judge are in neither half.
    seed : int

    Returns
    -------
    first, second : (n,) and (m,) int64
        Ascending positions.
    """
    generator = np.random.default_rng(seed)
    half_of: dict[str, int] = {}
    positions: tuple[list[int], list[int]] = ([], [])
    for members in positions_by_class(candidates, relevance).values():
        patients = _group_by_patient(candidates, members)
        sizes = [0, 0]
        names = list(patients)
        for index in generator.permutation(len(names)).tolist():
            name = names[index]
            half = half_of.setdefault(name, int(sizes[1] < sizes[0]))
            sizes[half] += len(patients[name])
            positions[half].extend(patients[name])
    return np.sort(np.array(positions[0], np.int64)), np.sort(np.array(positions[1], np.int64))


def limit_classes(
    candidates: Candidates, relevance: Relevance, limit: int | None, seed: int = 0
) -> NDArray[np.int64]:
    """Select judged images, at most `limit` of each class.

    Patients are selected as a whole, in random order, if they fit; a class none of whose patients fits is empty.

    Parameters
    ----------
    candidates : Candidates
    relevance : Relevance
        Defines the classes.
    limit : int or None
        None: all images.
    seed : int

    Returns
    -------
    (n,) int64
        Ascending positions.
    """
    generator = np.random.default_rng(seed)
    selected: list[int] = []
    for members in positions_by_class(candidates, relevance).values():
        patients = list(_group_by_patient(candidates, members).values())
        of_class: list[int] = []
        for index in generator.permutation(len(patients)).tolist():
            if limit is None or len(of_class) + len(patients[index]) <= limit:
                of_class.extend(patients[index])
        selected.extend(of_class)
    return np.sort(np.array(selected, np.int64))


def positions_by_class(candidates: Candidates, relevance: Relevance) -> dict[tuple[str, ...], list[int]]:
    """Return the positions of the judged images by class."""
    members: dict[tuple[str, ...], list[int]] = {}
    for position, record in enumerate(candidates.records):
        class_name = relevance.class_of(record.labels)
        if class_name is not None:
            members.setdefault(class_name, []).append(position)
    return members


def _group_by_patient(candidates: Candidates, positions: list[int]) -> dict[str, list[int]]:
    """Group positions by patient, or by picture if the patient is unknown."""
    groups: dict[str, list[int]] = {}
    for position in positions:
        record = candidates.records[position]
        groups.setdefault(record.patient_key or f"picture {record.content_hash}", []).append(position)
    return groups
