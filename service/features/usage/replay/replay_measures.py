"""Measures of a ranking on a few judged images: unjudged images are neither relevant nor irrelevant."""

from collections.abc import Sequence, Set

import numpy as np

NAMES = ("bpref", "condensed AP", "condensed nDCG", "condensed RR", "mean rank")
LOWER_IS_BETTER = ("mean rank", "IPS mean rank")


def judged_measures(
    answers: Sequence[str], relevant: Set[str], irrelevant: Set[str], depth: int
) -> dict[str, float]:
    """Return the measures of one ranking by judged images; those that the judgements cannot tell are nan.

    The condensed list has the judged images only, in their order, as in Sakai, Alternatives to Bpref (2007); measures
    of it compare relevant with judged irrelevant images, so both are needed, as for bpref. Images beyond the answers
    have no rank in the condensed list, and rank `depth` + 1 in the mean rank of the relevant images.

    Parameters
    ----------
    answers : sequence of str
        Image ids, best first, each once.
    relevant, irrelevant : set of str
        Ids of the judged images.
    depth : int
        Number of answers that were requested.

    Returns
    -------
    dict
        Value of each of NAMES.
    """
    values = dict.fromkeys(NAMES, float("nan"))
    if not relevant:
        return values
    ranks = {image: rank for rank, image in enumerate(answers, start=1)}
    values["mean rank"] = float(np.mean([ranks.get(image, depth + 1) for image in sorted(relevant)]))
    if irrelevant:
        condensed = [image in relevant for image in answers if image in relevant or image in irrelevant]
        values |= _condensed_measures(condensed, len(relevant), len(irrelevant))
    return values


def _condensed_measures(condensed: Sequence[bool], relevant: int, irrelevant: int) -> dict[str, float]:
    """Return bpref by Buckley & Voorhees, Retrieval Evaluation with Incomplete Information (2004), and the others.

    bpref is that of trec_eval: 1/R times the sum over the relevant answers of 1 - min(n, R, N) / min(R, N), with n
    irrelevant images before the answer, R relevant and N irrelevant ones judged.
    """
    hits = np.array(condensed, np.float64)
    ranks = np.arange(1, len(hits) + 1)
    bound = min(relevant, irrelevant)
    before = np.minimum(np.cumsum(1 - hits), bound)
    discounts = 1 / np.log2(ranks + 1)
    ideal = (1 / np.log2(np.arange(2, relevant + 2))).sum()
    first = int(hits.argmax()) + 1 if hits.any() else 0
    return {
        "bpref": float((hits * (1 - before / bound)).sum() / relevant),
        "condensed AP": float((hits * np.cumsum(hits) / ranks).sum() / relevant),
        "condensed nDCG": float((hits * discounts).sum() / ideal),
        "condensed RR": 1 / first if first else 0.0,
    }
