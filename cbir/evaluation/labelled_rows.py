"""Leave-one-out queries with the labelled images of a collection, and how often their answers agree on the label."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.rank_metrics import average_precision
from cbir.evaluation.relevance import encode_values
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank import ANSWERS, LEAST_IMAGES, AgreementBlock, AgreementBlocks
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

    def others(self, index: int) -> NDArray[np.bool_]:
        """Return which rows (n,) are neither `index` nor of its patient."""
        patient = self.patient[index]
        others = self.patient != patient if patient >= 0 else np.ones(len(self.rows), bool)
        others[index] = False
        return others


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
    others = labelled.others(index)
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


SAME = 1e-6  # a nearer image is a copy of the query, which searches leave out


def count_agreement(
    gallery: Gallery,
    labels: Mapping[str, LabelledRows],
    reranker: Reranker,
    queries: int,
    order: NDArray[np.int64],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, AgreementBlocks]:
    """Search with images of the collection, without images of the query's patient, and count.

    Parameters
    ----------
    gallery : Gallery
        Vectors of the collection.
    labels : mapping of str to LabelledRows
        Values of each label key, at least one, all for the same n rows.
    reranker : Reranker
        Method of the answers.
    queries : int
        Largest number of images to search with, drawn at random.
    order : (n,) int64
        Order of the rows that they are drawn in.
    on_progress : callable
        Called with the searches done, and of all.

    Returns
    -------
    dict of str to tuple of AgreementBlock
        By label key, from few answers that agree to many, with rising shares.
    """
    counts = {key: np.zeros((ANSWERS + 1, 2), np.int64) for key in labels}
    first = next(iter(labels.values()))
    labelled = np.any([each.label >= 0 for each in labels.values()], axis=0)
    drawn = np.random.default_rng(0).permutation(order[labelled[order]])[:queries]
    for done, index in enumerate(drawn.tolist()):
        on_progress(done, len(drawn))
        positions = np.flatnonzero(first.others(index))
        best = positions[_answers(gallery, first.rows[index], first.rows[positions], reranker)]
        for key, each in labels.items():
            if len(best) == ANSWERS and each.label[index] >= 0:
                code, agreeing = most_frequent(each.label[best])
                counts[key][agreeing] += 1, code == each.label[index]
    on_progress(len(drawn), len(drawn))
    return {key: rising_blocks(table) for key, table in counts.items()}


def _answers(gallery: Gallery, row: int, rows: NDArray[np.int64], reranker: Reranker) -> NDArray[np.int64]:
    """Return positions in `rows` of the best ANSWERS for the image in `row`, copies left out."""
    query = gallery.vectors(np.array([row]))[0]
    ranking = rank(query, gallery, rows)
    scores = np.where(ranking.distances > SAME, reranker(query, ranking, gallery).scores, -np.inf)
    best = top_k(scores, ANSWERS)
    return best[np.isfinite(scores[best])]


def most_frequent(codes: NDArray[np.int64]) -> tuple[int, int]:
    """Return the most frequent of codes (m,), on a tie that of the better rank, and its count; -1 counts for none.

    (-1, 0) if all are -1.
    """
    known = codes[codes >= 0]
    if not len(known):
        return -1, 0
    values, first, frequency = np.unique(known, return_index=True, return_counts=True)
    winner = np.lexsort((first, -frequency))[0]
    return int(values[winner]), int(frequency[winner])


def rising_blocks(counts: NDArray[np.int64]) -> AgreementBlocks:
    """Merge neighbouring numbers of agreeing answers until the share of right labels rises: isotonic regression.

    Blocks of fewer than LEAST_IMAGES are merged with the one before, or the first with the next.

    Parameters
    ----------
    counts : (m + 1, 2) int64
        Queries with 0 to m agreeing answers, and how many of them the label is right for.
    """
    blocks = _pooled(
        AgreementBlock(agreeing, images, right)
        for agreeing, (images, right) in enumerate(counts.tolist())
        if images
    )
    while len(blocks) > 1 and (small := [i for i, each in enumerate(blocks) if each.images < LEAST_IMAGES]):
        last = max(small[-1], 1)
        blocks[last - 1 : last + 1] = [_merged(blocks[last - 1], blocks[last])]
    # Laplace's rule draws the share of few images to a half, so that of merged ones may lie beyond the next.
    return tuple(_pooled(blocks))


def _pooled(blocks: Iterable[AgreementBlock]) -> list[AgreementBlock]:
    """Merge neighbours until the share rises."""
    pooled = list[AgreementBlock]()
    for block in blocks:
        pooled.append(block)
        while len(pooled) > 1 and pooled[-2].share >= pooled[-1].share:
            pooled[-2:] = [_merged(*pooled[-2:])]
    return pooled


def _merged(before: AgreementBlock, block: AgreementBlock) -> AgreementBlock:
    return AgreementBlock(before.least, before.images + block.images, before.right + block.right)
