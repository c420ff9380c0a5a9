"""Choice of the SVMs' C and gamma by a grid search on labelled images of the collection itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.ranking import rank, top_k
from cbir.store import Collection, View
from cbir.store.schema import images, labels

PENALTIES = (0.1, 1.0, 10.0, 100.0)  # C
WIDTHS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # gamma, divided by the number of dimensions in the kernel


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


def average_precision(relevant: NDArray[np.bool_]) -> float:
    """Mean of the precisions at the places of the relevant answers; `relevant` in ranked order, some true."""
    places = np.flatnonzero(relevant) + 1
    return float(np.mean(np.arange(1, len(places) + 1) / places))


def tune_svm(
    collection: Collection,
    label_key: str,
    *,
    method: str = "eprf",
    queries: int = 200,
    seed: int = 0,
    penalties: Sequence[float] = PENALTIES,
    widths: Sequence[float] = WIDTHS,
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
    grid = list(product(penalties, widths))
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
    with collection.engine.connect() as connection:
        value = select(labels.c.number, labels.c.value).where(labels.c.key == key)
        by_number = {number: text for number, text in connection.execute(value)}  # noqa: C416
        patient = select(images.c.number, images.c.patient_key).where(images.c.patient_key.is_not(None))
        patients = {number: text for number, text in connection.execute(patient)}  # noqa: C416
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    numbers = view.gallery.ids[rows].tolist()
    return Labelled(rows, _codes(numbers, by_number), _codes(numbers, patients))


def _codes(numbers: list[int], values: dict[int, Any]) -> NDArray[np.int64]:
    given: dict[Any, int] = {}
    codes = [given.setdefault(values[n], len(given)) if n in values else -1 for n in numbers]
    return np.array(codes, np.int64)


def _draw(
    collection: Collection, view: View, known: Labelled, count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Places in `known` to query with: class after class in turn, until there are `count`."""
    with collection.engine.connect() as connection:
        hashes = dict(connection.execute(select(images.c.number, images.c.content_hash)).all())
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
    return average_precision(relevant[top_k(scores, len(scores))])
