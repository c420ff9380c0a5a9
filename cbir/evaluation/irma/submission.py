"""Submissions to the IRMA benchmark: answers, the voting setting and the expected error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.datasets.irma.codes import CLUTTER
from cbir.evaluation.datasets.irma.label_files import normalise_label
from cbir.evaluation.irma.code_error import ErrorRule
from cbir.evaluation.irma.code_voting import (
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
from cbir.system.atomic import atomic_text

Stage = Callable[[str, int], Callable[[int], None]]


@dataclass(frozen=True)
class Submission:
    """Answers to all queries.

    answers: text after each query's id. tuned: voting setting and expected mean error. sample: number of training
    images that they were chosen on. refused: unreadable images with the reason.
    """

    answers: list[str]
    tuned: TunedVoting
    sample: int
    refused: dict[Path, str]
    learned: LabelledImages


@dataclass(frozen=True)
class SubmissionPlan:
    """Settings of a submission.

    sample: number of training images to choose the setting on. stage: takes the title and the number of steps of a
    stage, returns a function that takes the number of steps done.
    """

    searcher: Searcher
    request: Request
    label: str
    sample: int
    seed: int
    stage: Stage


def answer_queries(
    plan: SubmissionPlan, queries: Sequence[IrmaQuery], tree: CodeTree | None, rule: ErrorRule
) -> Submission:
    """Answer each image by the votes of its neighbours.

    With a tree the answer is the code of least expected error, `*` if too few neighbours agree. Without, it is the
    confidences in all classes in ascending order of classes (ImageCLEF 2005).

    Parameters
    ----------
    plan : SubmissionPlan
    queries : sequence of IrmaQuery
    tree : CodeTree or None
    rule : ErrorRule
        For codes.
    """
    learned = labelled_images(plan.searcher, plan.label, "2008" if tree else "2005", plan.request.where)
    names = list(learned.numbers)
    decisions = code_decisions(names, tree, rule) if tree else class_decisions(names)
    sample = min(plan.sample, len(learned.images))
    step = plan.stage("choosing by training images", sample)
    training = neighbours_of_training(plan.searcher, learned, plan.request, sample, plan.seed, step)
    tuned = tune_voting(*training, decisions)
    step = plan.stage("answering", len(queries))
    neighbours, refused = neighbours_of_files(plan.searcher, learned, plan.request, queries, step)
    shares = label_shares(neighbours, tuned.setting, len(names))
    if tree:
        indices = decide_answers(shares, decisions, tuned.setting.threshold)
        parts = [np.array(axis.answers)[of_axis] for axis, of_axis in zip(decisions, indices, strict=True)]
        answers = ["-".join(axes) for axes in zip(*parts, strict=True)]
    else:
        answers = [" ".join(f"{share:.6g}" for share in row) for row in shares]
    return Submission(answers, tuned, sample, refused, learned)


def write_submission(path: Path, queries: Sequence[IrmaQuery], answers: Sequence[str]) -> None:
    """Write a submission.

    Parameters
    ----------
    path : Path
        File of lines `<id> <answer>`.
    queries : sequence of IrmaQuery
    answers : sequence of str
        One for each query.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    try:
        with atomic_text(path) as file:
            lines = zip(queries, answers, strict=True)
            file.writelines(f"{query.image_id} {answer}\n" for query, answer in lines)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def true_labels(queries: Sequence[IrmaQuery], labelling: str) -> dict[str, str]:
    """Return the true labels by image id of the queries that have one; raise InvalidInput for a damaged one."""
    labels = {}
    for query in queries:
        if query.label:
            label = normalise_label(query.label, labelling)
            if label is None:
                raise InvalidInput(f"the true label '{query.label}' of image {query.image_id} is not valid")
            labels[query.image_id] = label
    return labels


def class_error(submission: Submission, queries: Sequence[IrmaQuery], truth: dict[str, str]) -> float:
    """Return the share of images whose most confident class is wrong (error rate of ImageCLEF 2005, 2006).

    Parameters
    ----------
    submission : Submission
    queries : sequence of IrmaQuery
    truth : dict of str to str
        Of `true_labels`. Clutter counts as right, an image without any vote as wrong.
    """
    classes = list(submission.learned.numbers)
    wrong = 0
    for query, answer in zip(queries, submission.answers, strict=True):
        if truth.get(query.image_id, CLUTTER) != CLUTTER:
            confidences = np.array(answer.split(), float)
            best = classes[int(confidences.argmax())] if confidences.any() else None
            wrong += best != truth[query.image_id]
    return wrong / len(truth)
