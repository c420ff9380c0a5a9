"""Grid search for C and gamma of the SVMs, on labelled images of the collection itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.candidates import encode_values
from cbir.evaluation.metrics.average_precision import average_precision
from cbir.gallery.ranking import rank, top_k
from cbir.rerank.eprf import SHARPNESS
from cbir.rerank.kernel_width import kernel_gamma
from cbir.rerank.parameters import AUTO
from cbir.store import Collection, View

METHOD = "eprf"  # re-ranker whose SVMs are tuned
GAMMAS = (1e-6, 1e6)  # bounds of its gamma; the automatic one has none


@dataclass(frozen=True)
class GridTrial:
    """A point of the grid with its mean average precision."""

    C: float
    gamma: float
    mean_average_precision: float


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Live rows (n,) of a view with the codes (n,) of their label and patient; -1: unknown."""

    rows: NDArray[np.int64]
    label: NDArray[np.int64]
    patient: NDArray[np.int64]


def tune_svm(
    collection: Collection,
    label_key: str,
    *,
    queries: int = 200,
    penalties: Sequence[float] = (),
    widths: Sequence[float] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[GridTrial]:
    """Try every C and gamma on leave-one-out queries, without images of the query's own patient.

    Parameters
    ----------
    collection : Collection
    label_key : str
        Images with the same value of this label are relevant to each other.
    queries : int
        Number of queries, drawn evenly from the classes, from the images with an even content hash: the others
        remain for reporting.
    penalties, widths : sequence of float
        Values of C and gamma; by default those that the re-ranker declares, gamma as multiples of the automatic one.
    progress : callable
        Gets the points done and their number.

    Returns
    -------
    list of GridTrial
        Best first.

    Raises
    ------
    InvalidInput
        If fewer than two images share a label.
    """
    view = collection.view()
    labelled = read_labelled_rows(collection, view, label_key)
    indices = _draw(collection, view, labelled, queries, np.random.default_rng(0))
    if not len(indices):
        raise InvalidInput(f"no two images share a value of the label {label_key}, which tuning needs")
    declared = rerank.reranker_class(METHOD).svm_grid
    automatic = _automatic_gamma(view, labelled.rows, indices[:50])
    multiples = np.clip(automatic * np.array(declared["gamma"]), *GAMMAS)
    gammas = widths or list(dict.fromkeys(float(f"{gamma:.3g}") for gamma in multiples))
    grid = list(product(penalties or declared["C"], gammas))
    trials = []
    for done, (C, gamma) in enumerate(grid):
        progress(done, len(grid))
        parameters = collection.profile.rerank | {"C": C, "gamma": gamma}
        precisions = [_query(view, labelled, index, parameters) for index in indices]
        defined = [precision for precision in precisions if precision is not None]
        if not defined:
            raise InvalidInput(f"no image shares its {label_key} with an image of another patient")
        trials.append(GridTrial(C, gamma, float(np.mean(defined))))
    progress(len(grid), len(grid))
    return sorted(trials, key=lambda trial: -trial.mean_average_precision)


def read_labelled_rows(collection: Collection, view: View, key: str) -> LabelledRows:
    """Return the values of the label `key` and the patients of the live rows of a view of `collection`."""
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    numbers = view.gallery.ids[rows].tolist()
    labels, patients = collection.labels_by_number(key), collection.patient_keys()
    return LabelledRows(
        rows, encode_values(map(labels.get, numbers), {}), encode_values(map(patients.get, numbers), {})
    )


def _draw(
    collection: Collection, view: View, labelled: LabelledRows, count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw indices of `labelled` to query with, from each class in turn until there are `count`."""
    hashes = collection.content_hashes()
    even = np.array([int(hashes[n][-1], 16) % 2 == 0 for n in view.gallery.ids[labelled.rows].tolist()], bool)
    sizes = np.bincount(labelled.label[labelled.label >= 0], minlength=1)
    usable = (labelled.label >= 0) & (sizes[labelled.label] > 1)
    if (usable & even).any():
        usable &= even
    classes = [
        generator.permutation(np.flatnonzero(usable & (labelled.label == code))) for code in range(len(sizes))
    ]
    turns = [index for turn in zip_longest(*classes) for index in turn if index is not None]
    return np.array(turns[:count], np.int64)


def _automatic_gamma(view: View, rows: NDArray[np.int64], indices: NDArray[np.int64]) -> float:
    """Return the median of the gammas that the re-ranker would choose for some queries."""
    gallery = view.gallery
    queries = gallery.vectors(rows[indices])
    gammas = [kernel_gamma(AUTO, query, gallery, rows, SHARPNESS) for query in queries]
    return float(np.median(gammas)) * gallery.dimensions


def _query(view: View, labelled: LabelledRows, index: int, parameters: dict[str, Any]) -> float | None:
    """Return the average precision of one image's query, None without a relevant image."""
    patient = labelled.patient[index]
    others = labelled.patient != patient if patient >= 0 else np.ones(len(labelled.rows), bool)
    others[index] = False
    relevant = labelled.label[others] == labelled.label[index]
    if not relevant.any():
        return None
    query = view.gallery.vectors(labelled.rows[index : index + 1])[0]
    ranking = rank(query, view.gallery, labelled.rows[others])
    scores = rerank.get(METHOD, **parameters)(query, ranking, view.gallery).scores
    return float(average_precision(relevant[None, top_k(scores, len(scores))])[0])
