"""Leave-one-out searches with labelled images: queries, and how often first answers that agree are right."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.relevance import encode_values
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.answer_evidence import (
    ANSWERS,
    BY_IMAGE,
    BY_PATIENT,
    LEAST_IMAGES,
    AgreementBlocks,
    Evidence,
    EvidenceByKey,
    block_of,
    rising_blocks,
)
from cbir.rerank.reranker import Reranker
from cbir.store import Collection, View

SAME = 1e-6  # a nearer image is a copy of the query, which searches leave out
DEPTH = 200  # answers among which the best of each patient are looked for

Codes = NDArray[np.int64]


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


@dataclass(frozen=True)
class LabelNames:
    """Values of the codes of each label key, and the group of images of each row: -1 for none, by the names."""

    values: Mapping[str, list[str]]
    groups: Codes
    group_names: list[str]


class _Search(NamedTuple):
    """A search and the value that its first answers agree on.

    group: of the answers with this value. owner: patient of the query.
    """

    value: int
    group: int
    agreeing: int
    right: bool
    owner: int


def _evidence(searches: Sequence[_Search], values: list[str], group_names: list[str]) -> Evidence:
    by_value, by_group = defaultdict[int, list[_Search]](list), defaultdict[int, list[_Search]](list)
    for search in searches:
        by_value[search.value].append(search)
    of_value = {value: _blocks(own) for value, own in by_value.items()}
    for search in searches:
        if search.group >= 0 and block_of(of_value[search.value], search.agreeing) is None:
            by_group[search.group].append(search)
    return Evidence(
        _reported((values[value], blocks) for value, blocks in of_value.items()),
        _reported((group_names[group], _blocks(own)) for group, own in by_group.items()),
    )


def _blocks(searches: Sequence[_Search]) -> AgreementBlocks:
    table = np.zeros((ANSWERS + 1, 2), np.int64)
    for search in searches:
        table[search.agreeing] += 1, search.right
    blocks = rising_blocks(table)
    ends = [*(block.least for block in blocks[1:]), ANSWERS + 1]
    owners = (
        {search.owner for search in searches if block.least <= search.agreeing < end}
        for block, end in zip(blocks, ends, strict=True)
    )
    return tuple(block._replace(patients=len(each)) for block, each in zip(blocks, owners, strict=True))


def _reported(named: Iterable[tuple[str, AgreementBlocks]]) -> dict[str, AgreementBlocks]:
    """Return the blocks, by name, of which any is large enough."""
    return {name: blocks for name, blocks in sorted(named) if max(b.images for b in blocks) >= LEAST_IMAGES}


def count_agreement(
    gallery: Gallery,
    labels: Mapping[str, LabelledRows],
    names: LabelNames,
    reranker: Reranker,
    drawn: Codes,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, EvidenceByKey]:
    """Search with images of the collection, without images of the query's patient, and count.

    Parameters
    ----------
    gallery : Gallery
        Vectors of the collection.
    labels : mapping of str to LabelledRows
        Values of each label key, at least one, all for the same n rows.
    names : LabelNames
        Of these values, and the groups of the n rows.
    reranker : Reranker
        Method of the answers.
    drawn : (q,) int64
        Indices of the rows to search with.
    on_progress : callable
        Called with the searches done, and of all.

    Returns
    -------
    dict of str to EvidenceByKey
        By what the first answers are: BY_IMAGE, BY_PATIENT.
    """
    searches: dict[str, dict[str, list[_Search]]] = {
        form: {key: [] for key in labels} for form in (BY_IMAGE, BY_PATIENT)
    }
    first = next(iter(labels.values()))
    for done, index in enumerate(drawn.tolist()):
        on_progress(done, len(drawn))
        positions = np.flatnonzero(first.others(index))
        best = positions[_answers(gallery, first.rows[index], first.rows[positions], reranker)]
        forms = {BY_IMAGE: best[:ANSWERS], BY_PATIENT: _first_of_patients(best, first.patient)}
        for form, answers in forms.items():
            if len(answers) == ANSWERS:
                _add_searches(searches[form], labels, names.groups, index, answers)
    on_progress(len(drawn), len(drawn))
    return {
        form: {key: _evidence(each, names.values[key], names.group_names) for key, each in by_key.items()}
        for form, by_key in searches.items()
    }


def _add_searches(
    searches: Mapping[str, list[_Search]],
    labels: Mapping[str, LabelledRows],
    groups: Codes,
    index: int,
    answers: Codes,
) -> None:
    for key, each in labels.items():
        if each.label[index] >= 0:
            value, agreeing = most_frequent(each.label[answers])
            if agreeing:
                group, _ = most_frequent(groups[answers[each.label[answers] == value]])
                owner = int(each.patient[index])
                right = bool(value == each.label[index])
                # an image without a patient counts as one, whose number no patient has
                searches[key].append(
                    _Search(value, group, agreeing, right, owner if owner >= 0 else -1 - index)
                )


def _answers(gallery: Gallery, row: int, rows: Codes, reranker: Reranker) -> Codes:
    """Return positions in `rows` of the best DEPTH answers for the image in `row`, copies left out."""
    query = gallery.vectors(np.array([row]))[0]
    ranking = rank(query, gallery, rows)
    scores = np.where(ranking.distances > SAME, reranker(query, ranking, gallery).scores, -np.inf)
    best = top_k(scores, DEPTH)
    return best[np.isfinite(scores[best])]


def _first_of_patients(answers: Codes, patient: Codes) -> Codes:
    """Return the best ANSWERS of different patients; images without one are a patient each."""
    seen, firsts = set[int](), list[int]()
    for answer in answers.tolist():
        owner = int(patient[answer])
        if owner < 0 or owner not in seen:
            seen.add(owner)
            firsts.append(answer)
        if len(firsts) == ANSWERS:
            break
    return np.array(firsts, np.int64)


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
