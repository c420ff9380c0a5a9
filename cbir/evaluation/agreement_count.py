"""Count, on images of a collection, how often the label that most of ten answers have is the query's own."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.labelled_rows import LabelledRows
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from cbir.rerank.auto import ANSWERS, LEAST_IMAGES, AgreementBlock, AgreementBlocks
from cbir.rerank.reranker import Reranker

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
        patient = first.patient[index]
        others = first.patient != patient if patient >= 0 else np.ones(len(first.rows), bool)
        others[index] = False
        positions = np.flatnonzero(others)
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
