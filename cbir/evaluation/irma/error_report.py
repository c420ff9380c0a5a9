"""Hierarchical error of a submission beside those of trivial answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.datasets.irma.codes import CLUTTER
from cbir.evaluation.irma.code_error import (
    ErrorRule,
    TrivialAnswer,
    code_errors,
    prepare_truth,
    trivial_answers,
)


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
