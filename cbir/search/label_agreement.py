"""Labels that the first answers of a search have in common: the most frequent value of each key."""

from collections import Counter
from collections.abc import Mapping, Sequence

from cbir.rerank.auto import ANSWERS, LEAST_IMAGES, AgreementBlock
from cbir.search.search_models import Hit, LabelAgreement


def label_agreements(
    hits: Sequence[Hit], measured: Mapping[str, Sequence[AgreementBlock]] | None = None
) -> list[LabelAgreement]:
    """Return the most frequent value of each label of the first answers, the most agreed first.

    Parameters
    ----------
    hits : sequence of Hit
        Answers, best first.
    measured : mapping of str to sequence of AgreementBlock, optional
        By label key, how often answers of this kind agree rightly.
    """
    first = hits[:ANSWERS]
    values: dict[str, Counter[str]] = {}
    for hit in first:
        for key, value in hit.labels.items():
            values.setdefault(key, Counter())[value] += 1  # equal counts stay in the order of the ranks
    agreements = []
    for key, counts in values.items():
        value, agreeing = counts.most_common(1)[0]
        block = _block_of((measured or {}).get(key, ()), agreeing) if len(first) == ANSWERS else None
        right, images = (round(block.share, 3), block.images) if block else (None, None)
        agreements.append(
            LabelAgreement(
                key=key, value=value, agreeing=agreeing, answers=len(first), right=right, images=images
            )
        )
    return sorted(agreements, key=lambda each: -each.agreeing)


def _block_of(blocks: Sequence[AgreementBlock], agreeing: int) -> AgreementBlock | None:
    """Return the block that `agreeing` answers belong to, if it holds LEAST_IMAGES."""
    inside = [block for block in blocks if block.least <= agreeing]
    return inside[-1] if inside and inside[-1].images >= LEAST_IMAGES else None
