"""How often first answers that agree on a label are right: counted for each value, by leave-one-out searches."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.labelled_rows import LabelledRows
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.auto import (
    ANSWERS,
    BY_IMAGE,
    BY_PATIENT,
    LEAST_IMAGES,
    AgreementBlock,
    AgreementBlocks,
    Evidence,
    EvidenceByKey,
    block_of,
)
from cbir.rerank.reranker import Reranker

SAME = 1e-6  # a nearer image is a copy of the query, which searches leave out
DEPTH = 200  # answers among which the best of each patient are looked for

Codes = NDArray[np.int64]
Table = NDArray[np.int64]


@dataclass(frozen=True)
class LabelNames:
    """Values of the codes of each label key, and the group of images of each row: -1 for none, by the names."""

    values: Mapping[str, list[str]]
    groups: Codes
    group_names: list[str]


@dataclass
class _Counts:
    """Searches by the value that their answers agree on, and one by one."""

    by_value: dict[int, Table] = field(default_factory=lambda: defaultdict(_table))
    searches: list[tuple[int, int, int, bool]] = field(default_factory=list)  # value, group, agreeing, right

    def add(self, value: int, group: int, agreeing: int, right: bool) -> None:
        self.by_value[value][agreeing] += 1, right
        self.searches.append((value, group, agreeing, right))

    def evidence(self, values: list[str], group_names: list[str]) -> Evidence:
        of_value = {value: rising_blocks(table) for value, table in self.by_value.items()}
        by_group: dict[int, Table] = defaultdict(_table)
        for value, group, agreeing, right in self.searches:
            if group >= 0 and block_of(of_value[value], agreeing) is None:
                by_group[group][agreeing] += 1, right
        return Evidence(
            _reported((values[value], blocks) for value, blocks in of_value.items()),
            _reported((group_names[group], rising_blocks(table)) for group, table in by_group.items()),
        )


def _table() -> Table:
    return np.zeros((ANSWERS + 1, 2), np.int64)


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
    counts = {form: {key: _Counts() for key in labels} for form in (BY_IMAGE, BY_PATIENT)}
    first = next(iter(labels.values()))
    for done, index in enumerate(drawn.tolist()):
        on_progress(done, len(drawn))
        patient = first.patient[index]
        others = first.patient != patient if patient >= 0 else np.ones(len(first.rows), bool)
        others[index] = False
        positions = np.flatnonzero(others)
        best = positions[_answers(gallery, first.rows[index], first.rows[positions], reranker)]
        forms = {BY_IMAGE: best[:ANSWERS], BY_PATIENT: _first_of_patients(best, first.patient)}
        for form, answers in forms.items():
            if len(answers) == ANSWERS:
                _count_answers(counts[form], labels, names.groups, index, answers)
    on_progress(len(drawn), len(drawn))
    return {
        form: {key: each.evidence(names.values[key], names.group_names) for key, each in by_key.items()}
        for form, by_key in counts.items()
    }


def _count_answers(
    counts: Mapping[str, _Counts],
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
                counts[key].add(value, group, agreeing, bool(value == each.label[index]))


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
