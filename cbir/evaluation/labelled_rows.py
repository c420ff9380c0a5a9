"""Leave-one-out queries with the labelled images of a collection."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.rank_metrics import average_precision
from cbir.evaluation.relevance import encode_values
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.reranker import Reranker
from cbir.store import Collection, View


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Live rows (n,) of a view with the codes (n,) of their label and patient; -1: unknown."""

    rows: NDArray[np.int64]
    label: NDArray[np.int64]
    patient: NDArray[np.int64]

    @property
    def can_query(self) -> NDArray[np.bool_]:
        """True (n,) for images that share their label with another."""
        sizes = np.bincount(self.label[self.label >= 0], minlength=1)
        return np.asarray((self.label >= 0) & (sizes[self.label] > 1))


def read_labels(
    collection: Collection, view: View, keys: Iterable[str]
) -> Iterator[tuple[str, LabelledRows]]:
    """Yield label keys with their values at the live rows of a view of `collection`; patients are read once."""
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    numbers = view.gallery.ids[rows].tolist()
    patient = encode_values(map(collection.patient_keys().get, numbers), {})
    for key in keys:
        label = encode_values(map(collection.labels_by_number(key).get, numbers), {})
        yield key, LabelledRows(rows, label, patient)


def read_labelled_rows(collection: Collection, view: View, key: str) -> LabelledRows:
    """Return the values of the label `key` and the patients of the live rows of a view of `collection`."""
    ((_, labelled),) = read_labels(collection, view, [key])
    return labelled


def draw_queries(labelled: LabelledRows, usable: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Draw indices to query with, from each class in turn; always the same.

    Parameters
    ----------
    labelled : LabelledRows
        n rows with their labels.
    usable : (n,) bool
        Images to draw from, all with a label.
    count : int
        Largest number of queries.

    Returns
    -------
    (q,) int64
        Indices of `labelled`, q at most `count`.
    """
    generator = np.random.default_rng(0)
    indices = np.flatnonzero(usable)
    order = indices[np.argsort(labelled.label[indices], kind="stable")]
    classes = np.split(order, np.flatnonzero(np.diff(labelled.label[order])) + 1)
    turns = zip_longest(*(generator.permutation(members).tolist() for members in classes))
    drawn = islice((index for turn in turns for index in turn if index is not None), count)
    return np.array(list(drawn), np.int64)


def content_order(collection: Collection, view: View, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order (n,) of rows of a view by the content of their pictures, whenever they were added."""
    hashes = collection.content_hashes()
    return np.argsort(np.array([hashes[number] for number in view.gallery.ids[rows].tolist()]), kind="stable")


def draw_in_order(labelled: LabelledRows, order: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Draw indices to query with, from each class in turn: of the same images in any order of the rows, the same.

    Parameters
    ----------
    labelled : LabelledRows
        n rows with their labels.
    order : (n,) int64
        Their order by content.
    count : int
        Largest number of queries.

    Returns
    -------
    (q,) int64
        Indices of `labelled`, q at most `count`.
    """
    label = encode_values((code if code >= 0 else None for code in labelled.label[order].tolist()), {})
    ordered = LabelledRows(labelled.rows[order], label, labelled.patient[order])
    return order[draw_queries(ordered, ordered.can_query, count)]


def score_query(
    gallery: Gallery, labelled: LabelledRows, index: int, rerankers: Sequence[Reranker]
) -> NDArray[np.float64] | None:
    """Query with one image, without it and images of its patient.

    Parameters
    ----------
    gallery : Gallery
        Vectors of the collection.
    labelled : LabelledRows
        Its rows with their labels and patients.
    index : int
        Index of the query image in `labelled`.
    rerankers : sequence of Reranker
        r methods.

    Returns
    -------
    (r, 2) float64 or None
        Average precision and P@1 of each method; None without a relevant image.
    """
    patient = labelled.patient[index]
    others = labelled.patient != patient if patient >= 0 else np.ones(len(labelled.rows), bool)
    others[index] = False
    relevant = labelled.label[others] == labelled.label[index]
    if not relevant.any():
        return None
    query = gallery.vectors(labelled.rows[index : index + 1])[0]
    ranking = rank(query, gallery, labelled.rows[others])
    hits = [
        relevant[top_k(scores, len(scores))]
        for scores in (each(query, ranking, gallery).scores for each in rerankers)
    ]
    return np.array([[average_precision(each[None])[0], each[0]] for each in hits])
