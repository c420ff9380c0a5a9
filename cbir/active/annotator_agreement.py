"""How far several people agree on the pairs that more than one of them judged."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.active.judgement_journal import PairAnswer, PairJudgement

Level = Literal["nominal", "ordinal"]


@dataclass(frozen=True)
class PairwiseAgreement:
    """Two people. pairs: that both judged. kappa: Cohen's, None where it is not defined."""

    one: str
    other: str
    pairs: int
    cohen_kappa: float | None


@dataclass(frozen=True)
class AnnotatorAgreement:
    """Of all people. pairs: that two or more judged. alpha: Krippendorff's; None where it is not defined.

    The answers "first, alike, second" are ordered: the ordinal alpha minds an opposite answer more than "alike".
    """

    people: int
    pairs: int
    krippendorff_alpha: float | None
    alpha_nominal: float | None
    between: tuple[PairwiseAgreement, ...]


def annotator_agreement(judgements: Iterable[PairJudgement]) -> AnnotatorAgreement:
    """Agreement in standing judgements; a skipped pair is not judged."""
    answers = _answers(judgements)
    people = sorted({who for said in answers.values() for who in said})
    shared = [said for said in answers.values() if len(said) > 1]
    table = np.array([[said.get(who, np.nan) for said in shared] for who in people], np.float64)
    table = table.reshape(len(people), len(shared))
    return AnnotatorAgreement(
        len(people),
        len(shared),
        krippendorff_alpha(table, "ordinal"),
        krippendorff_alpha(table, "nominal"),
        tuple(_between(one, other, shared) for one, other in combinations(people, 2)),
    )


def cohen_kappa(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Cohen's kappa of two people's answers to the same questions (Cohen 1960), by scikit-learn.

    None without answers, and where both always gave the same one, which leaves nothing to agree on by chance.
    """
    if not len(one) or len(set(one) | set(other)) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score  # takes seconds, which an annotation server starts without

    return float(cohen_kappa_score(list(one), list(other)))


def krippendorff_alpha(table: ArrayLike, level: Level = "ordinal") -> float | None:
    """Krippendorff's alpha of answers (people, questions) of whole numbers, NaN where somebody did not answer.

    Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C with the coincidence matrix.
    None where nobody answered what another did, and where all answers are the same.
    """
    answers = np.asarray(table, np.float64)
    given = ~np.isnan(answers)
    questions = np.flatnonzero(given.sum(axis=0) > 1) if answers.size else np.empty(0, np.int64)
    values = np.unique(answers[:, questions][given[:, questions]]) if len(questions) else np.empty(0)
    if len(values) < 2:
        return None
    # (questions, values): how many people gave that value
    counts = np.stack([(answers[:, questions] == value).sum(axis=0) for value in values], axis=1)
    weights = 1.0 / (counts.sum(axis=1) - 1)
    together = (counts * weights[:, None]).T @ counts - np.diag((counts * weights[:, None]).sum(axis=0))
    totals = together.sum(axis=0)
    distance = _distances(totals, level)
    expected = float((np.outer(totals, totals) * distance).sum() / (totals.sum() - 1))
    return 1.0 - float((together * distance).sum()) / expected


def _distances(totals: NDArray[np.float64], level: Level) -> NDArray[np.float64]:
    """Squared differences of the values (section D of the source); totals: how often each was given."""
    count = len(totals)
    if level == "nominal":
        return 1.0 - np.eye(count)
    middles = np.cumsum(totals) - totals / 2
    return np.asarray((middles[:, None] - middles[None, :]) ** 2)


def _answers(judgements: Iterable[PairJudgement]) -> dict[tuple[str, str], dict[str, int]]:
    """By pair and person, seen from the image with the lesser id: whoever had it on the right says the opposite."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for one in judgements:
        if one.answer is not PairAnswer.skip:
            value = {PairAnswer.first: 1, PairAnswer.alike: 0, PairAnswer.second: -1}[one.answer]
            found[one.pair][one.who] = value if one.pair[0] == one.first else -value
    return found


def _between(one: str, other: str, shared: Sequence[dict[str, int]]) -> PairwiseAgreement:
    both = [(said[one], said[other]) for said in shared if one in said and other in said]
    return PairwiseAgreement(one, other, len(both), cohen_kappa([a for a, _ in both], [b for _, b in both]))
