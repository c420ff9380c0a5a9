"""Count how often first answers that agree on a label are right, for each value, by leave-one-out searches."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.labelled_rows import LabelledRows
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.answer_evidence import (
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
