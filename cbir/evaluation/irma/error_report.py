"""A run's hierarchical error beside the trivial answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cbir.datasets.irma import CLUTTER, CodeTree
from cbir.evaluation.irma.code_error import (
    ErrorRule,
    TrivialAnswer,
    code_errors,
    prepare_truth,
    trivial_answers,
)


@dataclass(frozen=True)
class ErrorReport:
    """Errors by image, and what they add up to.

    unanswered: images of the truth that the run does not name; the published rule does not provide for them,
    and they count as wrong on every axis: leaving an image out must not pay more than answering `*`.
    unknown: images that the run names and the truth does not; they do not count.
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
        """The run's score: the sum over all images."""
        return sum(self.by_image.values())

    def facts(self) -> dict[str, Any]:
        """What is printed, with `normalised` the mean error of an image, 0 to 1."""
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
    """Compare a run with the truth, both codes by image id; training: codes for the majority class."""
    answered = [name for name in truth if name in run]
    unanswered = [name for name in truth if name not in run]
    found = code_errors(prepare_truth([truth[n] for n in answered], tree, rule), [run[n] for n in answered])
    all_wrong = {name: 0.0 if truth[name] == CLUTTER else 1.0 for name in unanswered}
    by_image = dict(zip(answered, found.tolist(), strict=True)) | all_wrong
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
    """The facts of a report as text, the trivial answers below the error."""
    shown = [
        f"rule            {facts['rule']}",
        f"images          {facts['images']}",
        f"error           {facts['error']:.4f}",
        f"normalised      {facts['normalised']:.6f}",
        "trivial answers",
    ]
    for name, error in facts["baselines"].items():
        of = f", majority of the {facts['majority_class_of']}" if name == "majority_class" else ""
        words = name.replace("_", " ")
        shown.append(f"  {words:26}{error:10.2f}  {facts['baseline_answers'][name]}{of}")
    for count, what in (
        (facts["unanswered"], "images have no answer and count as all wrong"),
        (facts["unknown"], "answers are for images that the truth does not have, and do not count"),
        (facts["clutter"], "images are clutter (C) and score 0"),
    ):
        if count:
            shown.append(f"{count} {what}")
    return shown
