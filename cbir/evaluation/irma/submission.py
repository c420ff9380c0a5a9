"""A submission to the IRMA benchmark: neighbours, setting, answers, and what error to expect of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cbir.datasets.irma import CLUTTER, CodeTree
from cbir.datasets.irma.label_files import normalise_label
from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import ErrorRule
from cbir.evaluation.irma.code_voting import (
    Decision,
    NeighbourLabels,
    TunedVoting,
    class_decisions,
    code_decisions,
    decide_answers,
    label_shares,
    tune_voting,
)
from cbir.evaluation.irma.irma_queries import IrmaQuery
from cbir.evaluation.irma.labelled_neighbours import (
    LabelledImages,
    labelled_images,
    neighbours_of_files,
    neighbours_of_training,
)
from cbir.search import Request, Searcher

Stage = Callable[[str, int], Callable[[int], None]]


@dataclass(frozen=True)
class Submission:
    """answers: what stands behind each query's id. tuned: how votes were counted and the mean error to expect.
    sample: training images that was measured on; refused: images that could not be read, and why."""

    answers: list[str]
    tuned: TunedVoting
    sample: int
    refused: dict[Path, str]
    learned: LabelledImages


@dataclass(frozen=True)
class SubmissionPlan:
    """What a submission is made from. sample: training images to choose the setting by; stage: told about what
    is going on and how many steps it has, gives back a function that is told each step."""

    searcher: Searcher
    request: Request
    label: str
    sample: int
    seed: int
    stage: Stage


def answer_codes(
    plan: SubmissionPlan, asked: Sequence[IrmaQuery], tree: CodeTree, rule: ErrorRule
) -> Submission:
    """The code of least expected error for each image, `*` where too few neighbours agree."""
    learned = labelled_images(plan.searcher, plan.label, "2008", plan.request.where)
    choices = code_decisions(list(learned.numbers), tree, rule)
    tuned, sample, found, refused = _search(plan, learned, choices, asked)
    shares = label_shares(found, tuned.setting, len(learned.numbers))
    decided = decide_answers(shares, choices, tuned.setting.threshold)
    parts = [[choice.answers[at] for at in places] for choice, places in zip(choices, decided, strict=True)]
    return Submission(["-".join(axes) for axes in zip(*parts, strict=True)], tuned, sample, refused, learned)


def answer_classes(plan: SubmissionPlan, asked: Sequence[IrmaQuery]) -> Submission:
    """The confidences in all classes for each image, in ascending order of classes (ImageCLEF 2005)."""
    learned = labelled_images(plan.searcher, plan.label, "2005", plan.request.where)
    tuned, sample, found, refused = _search(plan, learned, class_decisions(list(learned.numbers)), asked)
    shares = label_shares(found, tuned.setting, len(learned.numbers))
    return Submission(
        [" ".join(f"{share:.6g}" for share in row) for row in shares], tuned, sample, refused, learned
    )


def _search(
    plan: SubmissionPlan, learned: LabelledImages, choices: Sequence[Decision], asked: Sequence[IrmaQuery]
) -> tuple[TunedVoting, int, NeighbourLabels, dict[Path, str]]:
    sample = min(plan.sample, len(learned.images))
    step = plan.stage("choosing by training images", sample)
    tuned = tune_voting(
        *neighbours_of_training(plan.searcher, learned, plan.request, sample, plan.seed, step), choices
    )
    step = plan.stage("answering", len(asked))
    found, refused = neighbours_of_files(plan.searcher, learned, plan.request, asked, step)
    return tuned, sample, found, refused


def true_labels(asked: Sequence[IrmaQuery], labelling: str) -> dict[str, str]:
    """True labels by image id, of the queries that have one; raises InvalidInput where one is damaged."""
    found = {}
    for query in asked:
        if query.label:
            label = normalise_label(query.label, labelling)
            if label is None:
                raise InvalidInput(f"the true label '{query.label}' of image {query.image_id} is none")
            found[query.image_id] = label
    return found


def class_error(submission: Submission, asked: Sequence[IrmaQuery], truth: dict[str, str]) -> float:
    """Share of the images whose most confident class is not the true one (error rate of ImageCLEF 2005, 2006).

    Clutter counts as right; an image without any vote as wrong.
    """
    classes = list(submission.learned.numbers)
    wrong = 0
    for query, answer in zip(asked, submission.answers, strict=True):
        if truth.get(query.image_id, CLUTTER) != CLUTTER:
            confidences = np.array(answer.split(), float)
            best = classes[int(confidences.argmax())] if confidences.any() else None
            wrong += best != truth[query.image_id]
    return wrong / len(truth)
