"""The hierarchical error of IRMA codes (Deselaers et al. 2008; Tommasi et al. 2010), beside those of trivial answers.

For one axis with true code l_1..l_I the error is the sum of 1/b_i * 1/i * delta_i, where b_i is the number of
siblings of l_i including itself, 1 below a leaf. delta_i is 0 while all digits are right, 0.5 from the first `*`
(don't know) on, 1 from the first wrong digit on; digits after the first deviation are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.datasets.irma.codes import AXIS_SLICES, CLUTTER, UNKNOWN, CodeTree, code_digits

DONT_KNOW = 0.5  # cost of `*` relative to a wrong digit


class ErrorRule(StrEnum):
    """Scoring rules of ImageCLEF.

    2009, also of 2008: each axis is divided by its greatest error and weighs 1/4; `*` for a true 0 is free.
    2007: divided by the greatest error of the whole code; such a `*` costs 0.5.
    """

    of_2007 = "2007"
    of_2009 = "2009"


@dataclass(frozen=True, eq=False)
class TrueCodes:
    """True codes, prepared for comparison.

    characters: (n, 13) uint8. costs: (n, 13) float64 of a wrong digit at each position, with the sum 1, or 0 for
    clutter, which scores 0.
    """

    characters: NDArray[np.uint8]
    costs: NDArray[np.float64]
    rule: ErrorRule


def prepare_truth(codes: Sequence[str], tree: CodeTree, rule: ErrorRule) -> TrueCodes:
    """Prepare true codes.

    Parameters
    ----------
    codes : sequence of str
        Parsed codes.
    tree : CodeTree
    rule : ErrorRule

    Raises
    ------
    InvalidInput
        If the tree lacks a code.
    """
    costs_of = {code: _costs(code, tree, rule) for code in set(codes)}
    costs = np.array([costs_of[code] for code in codes]).reshape(len(codes), 13)
    return TrueCodes(_characters([UNKNOWN if code == CLUTTER else code for code in codes]), costs, rule)


def _costs(code: str, tree: CodeTree, rule: ErrorRule) -> NDArray[np.float64]:
    if code == CLUTTER:
        return np.zeros(13)
    levels = np.concatenate([np.arange(axis.stop - axis.start) + 1 for axis in AXIS_SLICES])
    costs = 1.0 / np.array(tree.branching(code)) / levels
    if rule is ErrorRule.of_2007:
        return np.asarray(costs / costs.sum())
    for axis in AXIS_SLICES:
        costs[axis] /= 4 * costs[axis].sum()
    return np.asarray(costs)


def _characters(codes: Sequence[str]) -> NDArray[np.uint8]:
    joined = "".join(map(code_digits, codes)).encode("ascii")
    return np.array(list(joined), np.uint8).reshape(len(codes), 13)


def code_errors(truth: TrueCodes, answers: Sequence[str]) -> NDArray[np.float64]:
    """Return the error (n,) of each answer, a parsed code with wildcards allowed, from 0 to 1."""
    answered = _characters(answers)
    total = np.zeros(len(answered))
    for axis in AXIS_SLICES:
        wrong, unsure = deviations(truth.characters[:, axis], answered[:, axis], truth.rule)
        total += (truth.costs[:, axis] * (wrong + DONT_KNOW * unsure)).sum(axis=1)
    return total


def deviations(
    true: NDArray[np.uint8], answered: NDArray[np.uint8], rule: ErrorRule
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of wrong digits and of don't-know digits on one axis.

    Parameters
    ----------
    true, answered : (..., digits) uint8
        Broadcast together.
    rule : ErrorRule
    """
    deviates = answered != true
    away = np.logical_or.accumulate(deviates, axis=-1)
    first = deviates & ~np.roll(away, 1, axis=-1)
    first[..., 0] = deviates[..., 0]
    unsure = np.logical_or.accumulate(first & (answered == ord("*")), axis=-1)
    wrong = away & ~unsure
    return wrong, unsure & (true != ord("0")) if rule is ErrorRule.of_2009 else unsure


@dataclass(frozen=True)
class TrivialAnswer:
    """Summed error of a constant answer."""

    error: float
    answer: str


def trivial_answers(
    codes: Sequence[str], tree: CodeTree, rule: ErrorRule, training: Sequence[str] = ()
) -> dict[str, TrivialAnswer]:
    """Score trivial answers on true codes.

    Parameters
    ----------
    codes : sequence of str
        True codes.
    tree : CodeTree
    rule : ErrorRule
    training : sequence of str
        Codes of the training images.

    Returns
    -------
    dict of str to TrivialAnswer
        all_stars: don't know. best_constant: the code of the truth or of `training` that scores best;
        best_constant_with_stars: the same with any part left open. majority_class: the most frequent code of
        `training`, by default of `codes`; of equally frequent ones the first in order.
    """
    names, counts = np.unique([code for code in codes if code != CLUTTER], return_counts=True)
    distinct = prepare_truth(names.tolist(), tree, rule)

    def score(answer: str) -> float:
        return float(counts @ code_errors(distinct, [answer] * len(names))) if len(names) else 0.0

    learned, frequency = np.unique(
        [code for code in training or codes if code != CLUTTER], return_counts=True
    )
    candidates = sorted({*names.tolist(), *learned.tolist()}) or [UNKNOWN]
    answers = {
        "all_stars": UNKNOWN,
        "best_constant": min(candidates, key=score),
        "best_constant_with_stars": _best_with_stars(candidates, score),
        "majority_class": str(learned[np.argmax(frequency)]) if len(learned) else UNKNOWN,
    }
    return {name: TrivialAnswer(score(answer), answer) for name, answer in answers.items()}


def _best_with_stars(codes: Sequence[str], score: Callable[[str], float]) -> str:
    """Return the best answer axis by axis: under both rules an image's error is a sum over its axes."""
    best = []
    for axis in range(4):
        parts = {code.split("-")[axis] for code in codes}
        candidates = code_prefixes(sorted(parts))
        stars = UNKNOWN.split("-")
        best.append(
            min(candidates, key=lambda part: score("-".join([*stars[:axis], part, *stars[axis + 1 :]])))
        )
    return "-".join(best)


def code_prefixes(parts: Sequence[str]) -> list[str]:
    """Return every prefix of the codes of an axis, padded with `*`, shortest first, each once."""
    lengths = {part[:end].ljust(len(part), "*"): end for part in parts for end in range(len(part) + 1)}
    return sorted(lengths, key=lambda answer: (lengths[answer], answer))


@dataclass(frozen=True)
class ErrorReport:
    """Errors by image.

    unanswered: images of the truth that the run lacks; the published rule does not define their error, and they
    count as wrong on every axis, so that leaving an image out is not better than `*`.
    unknown: images of the run that the truth lacks; they do not count.
    """

    rule: ErrorRule
    by_image: dict[str, float]
    unanswered: list[str]
    unknown: list[str]
    clutter: int
    trivial_answers: dict[str, TrivialAnswer]
    majority_of: str

    @property
    def error(self) -> float:
        """Score of the run: the sum over all images."""
        return sum(self.by_image.values())

    def facts(self) -> dict[str, Any]:
        """Return the figures to print; `normalised` is the mean error of an image, 0 to 1."""
        return {
            "rule": self.rule.value,
            "images": len(self.by_image),
            "error": self.error,
            "normalised": self.error / len(self.by_image),
            "baselines": {name: baseline.error for name, baseline in self.trivial_answers.items()},
            "baseline_answers": {name: baseline.answer for name, baseline in self.trivial_answers.items()},
            "majority_class_of": self.majority_of,
            "unanswered": len(self.unanswered),
            "unknown": len(self.unknown),
            "clutter": self.clutter,
        }


def compare_codes(
    truth: Mapping[str, str],
    run: Mapping[str, str],
    tree: CodeTree,
    rule: ErrorRule,
    training: Sequence[str] = (),
) -> ErrorReport:
    """Compare submitted codes with the true ones.

    Parameters
    ----------
    truth, run : mapping of str to str
        Parsed codes by image id.
    tree : CodeTree
    rule : ErrorRule
    training : sequence of str
        Codes of training images, for the majority class.
    """
    answered = [name for name in truth if name in run]
    unanswered = [name for name in truth if name not in run]
    values = code_errors(prepare_truth([truth[n] for n in answered], tree, rule), [run[n] for n in answered])
    all_wrong = {name: 0.0 if truth[name] == CLUTTER else 1.0 for name in unanswered}
    by_image = dict(zip(answered, values.tolist(), strict=True)) | all_wrong
    return ErrorReport(
        rule=rule,
        by_image={name: by_image[name] for name in truth},
        unanswered=unanswered,
        unknown=[name for name in run if name not in truth],
        clutter=sum(code == CLUTTER for code in truth.values()),
        trivial_answers=trivial_answers(list(truth.values()), tree, rule, training),
        majority_of="training" if training else "truth",
    )


def report_lines(facts: Mapping[str, Any]) -> list[str]:
    """Format the facts of a report, the trivial answers below the error."""
    text = [
        f"rule            {facts['rule']}",
        f"images          {facts['images']}",
        f"error           {facts['error']:.4f}",
        f"normalised      {facts['normalised']:.6f}",
        "trivial answers",
    ]
    for name, error in facts["baselines"].items():
        note = f", majority of the {facts['majority_class_of']}" if name == "majority_class" else ""
        words = name.replace("_", " ")
        text.append(f"  {words:26}{error:10.2f}  {facts['baseline_answers'][name]}{note}")
    for count, explanation in (
        (facts["unanswered"], "images have no answer and count as wrong on every axis"),
        (facts["unknown"], "answers are for images without a true code and do not count"),
        (facts["clutter"], "images are clutter (C) and score 0"),
    ):
        if count:
            text.append(f"{count} {explanation}")
    return text
