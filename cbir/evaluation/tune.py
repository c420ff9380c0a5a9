"""Grid search for C and gamma of the SVMs, on labelled images of the collection itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.labelled_rows import LabelledRows, draw_queries, read_labelled_rows, score_query
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
    indices = draw_queries(labelled, _usable_queries(collection, view, labelled), queries)
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
        reranker = rerank.get(METHOD, **parameters)
        scored = (score_query(view.gallery, labelled, index, [reranker]) for index in indices)
        defined = [quality[0, 0] for quality in scored if quality is not None]
        if not defined:
            raise InvalidInput(f"no image shares its {label_key} with an image of another patient")
        trials.append(GridTrial(C, gamma, float(np.mean(defined))))
    progress(len(grid), len(grid))
    return sorted(trials, key=lambda trial: -trial.mean_average_precision)


def _usable_queries(collection: Collection, view: View, labelled: LabelledRows) -> NDArray[np.bool_]:
    """Return True (n,) for images that can query and have an even content hash; for all that can if none has."""
    hashes = collection.content_hashes()
    even = np.array([int(hashes[n][-1], 16) % 2 == 0 for n in view.gallery.ids[labelled.rows].tolist()], bool)
    usable = labelled.can_query
    return usable & even if (usable & even).any() else usable


def _automatic_gamma(view: View, rows: NDArray[np.int64], indices: NDArray[np.int64]) -> float:
    """Return the median of the gammas that the re-ranker would choose for some queries."""
    gallery = view.gallery
    queries = gallery.vectors(rows[indices])
    gammas = [kernel_gamma(AUTO, query, gallery, rows, SHARPNESS) for query in queries]
    return float(np.median(gammas)) * gallery.dimensions
