"""Choice of the SVMs' C and gamma by a grid search on labelled images of the collection itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.metrics.average_precision import average_precision
from cbir.gallery.ranking import rank, top_k
from cbir.store import Collection, View


@dataclass(frozen=True)
class GridTrial:
    """One point of the grid and the mean average precision it reached."""

    C: float
    gamma: float
    mean_average_precision: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """Live rows (n,) of a view with the codes (n,) of their label and patient; -1: unknown."""

    rows: NDArray[np.int64]
    label: NDArray[np.int64]
    patient: NDArray[np.int64]


def tune_svm(
    collection: Collection,
    label_key: str,
    *,
    method: str = "eprf",
    queries: int = 200,
    seed: int = 0,
    penalties: Sequence[float] = (),
    widths: Sequence[float] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[GridTrial]:
    """Try every C and gamma on leave-one-out queries; the trials, best first.

    Queries are drawn evenly from the classes, from that half of the images whose content hash is even, so that
    the other half stays for reporting. Images of the query's own patient are left out. Raises InvalidInput
    where fewer than two images share a label.
    """
    view = collection.view()
    known = labelled_rows(collection, view, label_key)
    drawn = _draw(collection, view, known, queries, np.random.default_rng(seed))
    if not len(drawn):
        raise InvalidInput(
            f"no two images share a value of the label {label_key}; there is nothing to tune by"
        )
    declared = rerank.reranker_class(method).svm_grid
    if not declared:
        raise InvalidInput(f"{method} has no C and gamma to tune")
    grid = list(product(penalties or declared["C"], widths or declared["gamma"]))
    trials = []
    for done, (C, gamma) in enumerate(grid):
        progress(done, len(grid))
        parameters = collection.profile.rerank | {"C": C, "gamma": gamma}
        answers = [_query(view, known, place, method, parameters) for place in drawn]
        reached = [precision for precision in answers if precision is not None]
        if not reached:
            raise InvalidInput(f"no image shares its {label_key} with an image of another patient")
        trials.append(GridTrial(C, gamma, float(np.mean(reached))))
    progress(len(grid), len(grid))
    return sorted(trials, key=lambda trial: -trial.mean_average_precision)


def labelled_rows(collection: Collection, view: View, key: str) -> Labelled:
    """Labels and patients of the live rows of a view."""
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    numbers = view.gallery.ids[rows].tolist()
    return Labelled(
        rows, _codes(numbers, collection.labels_by_number(key)), _codes(numbers, collection.patient_keys())
    )


def _codes(numbers: list[int], values: dict[int, Any]) -> NDArray[np.int64]:
    given: dict[Any, int] = {}
    codes = [given.setdefault(values[n], len(given)) if n in values else -1 for n in numbers]
    return np.array(codes, np.int64)


def _draw(
    collection: Collection, view: View, known: Labelled, count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Places in `known` to query with: class after class in turn, until there are `count`."""
    hashes = collection.content_hashes()
    even = np.array([int(hashes[n][-1], 16) % 2 == 0 for n in view.gallery.ids[known.rows].tolist()], bool)
    sizes = np.bincount(known.label[known.label >= 0], minlength=1)
    usable = (known.label >= 0) & (sizes[known.label] > 1)
    if (usable & even).any():
        usable &= even
    classes = [
        generator.permutation(np.flatnonzero(usable & (known.label == code))) for code in range(len(sizes))
    ]
    turns = [
        places[turn] for turn in range(max(map(len, classes))) for places in classes if turn < len(places)
    ]
    return np.array(turns[:count], np.int64)


def _query(view: View, known: Labelled, place: int, method: str, parameters: dict[str, Any]) -> float | None:
    """Average precision of one image's query; None where no relevant image is left."""
    others = (
        known.patient != known.patient[place] if known.patient[place] >= 0 else np.ones(len(known.rows), bool)
    )
    others[place] = False
    relevant = known.label[others] == known.label[place]
    if not relevant.any():
        return None
    query = view.gallery.vectors(known.rows[place : place + 1])[0]
    ranking = rank(query, view.gallery, known.rows[others])
    scores = rerank.get(method, **parameters)(query, ranking, view.gallery).scores
    return float(average_precision(relevant[None, top_k(scores, len(scores))])[0])
