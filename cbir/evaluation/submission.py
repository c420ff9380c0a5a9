"""Submissions to the IRMA benchmark: answers, the voting setting, the expected error, and scores.

Those of a release are one for each re-ranker; a finished one is reused while release, collection and settings are
the same.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cbir
from cbir.errors import InvalidInput
from cbir.evaluation.code_error import ErrorRule, compare_codes, trivial_answers
from cbir.evaluation.code_voting import (
    TunedVoting,
    class_decisions,
    code_decisions,
    decide_answers,
    label_shares,
    tune_voting,
)
from cbir.evaluation.datasets.irma.codes import CLUTTER, CodeTree
from cbir.evaluation.datasets.irma.label_files import normalise_label
from cbir.evaluation.labelled_neighbours import (
    IrmaQuery,
    LabelledImages,
    find_irma_queries,
    labelled_images,
    neighbours_of_files,
    neighbours_of_training,
)
from cbir.evaluation.runs import DECISIVE_SETTINGS, Method, read_finished, write_finished
from cbir.search import Request, Searcher
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.files import atomic_text, file_sha256, os_errors

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
    with os_errors(f"{path} cannot be written"), atomic_text(path) as file:
        lines = zip(queries, answers, strict=True)
        file.writelines(f"{query.image_id} {answer}\n" for query, answer in lines)


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


def score_submission(
    submission: Submission, queries: Sequence[IrmaQuery], tree: CodeTree | None, rule: ErrorRule
) -> dict[str, Any]:
    """Score a submission by the labels of its images.

    Parameters
    ----------
    submission : Submission
    queries : sequence of IrmaQuery
    tree : CodeTree or None
        None for classes.
    rule : ErrorRule
        For codes.

    Returns
    -------
    dict
        `measured` on labelled images; without any, codes have `baselines_on_training`, trivial answers on the
        training images scaled to the number of queries.
    """
    truth = true_labels(queries, submission.learned.labelling)
    if not tree:
        if not truth:
            return {}
        return {"measured": {"images": len(truth), "error_rate": class_error(submission, queries, truth)}}
    names = list(submission.learned.numbers)
    learned = [names[number] for _, number in submission.learned.images]
    if truth:
        run = {query.image_id: code for query, code in zip(queries, submission.answers, strict=True)}
        report = compare_codes(truth, {name: run[name] for name in truth}, tree, rule, learned)
        return {"measured": report.facts()}
    scale = len(queries) / len(learned)
    trivial = trivial_answers(learned, tree, rule, learned)
    return {"baselines_on_training": {name: answer.error * scale for name, answer in trivial.items()}}


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class BenchmarkPlan:
    """Settings of the submissions for a release.

    folder: for the submissions; it has test.csv, the manifest of the test images. tree: for codes, None for classes.
    k: most neighbours that vote. sample, seed: of the training images that the vote is chosen on.
    """

    collection: Path
    folder: Path
    tree: CodeTree | None
    rule: ErrorRule
    methods: Sequence[Method]
    k: int
    sample: int
    seed: int

    @property
    def label(self) -> str:
        """Name of the label with the code or class."""
        return "irma_code" if self.tree else "irma_class"


def answer_release(plan: BenchmarkPlan, settings: Settings, progress: Progress) -> list[dict[str, Any]]:
    """Write a submission for each method, NAME.txt, and return their scores.

    Parameters
    ----------
    plan : BenchmarkPlan
    settings : Settings
        Of the searches.
    progress : callable
        Gets the stage, steps done and steps in all.

    Returns
    -------
    list of dict
        For each method its name, tuned vote, expected error, and `measured` on labelled test images; ready for JSON.
    """
    with Collection(plan.collection) as collection:
        searcher = Searcher(collection, settings)
        return [_answer_with(plan, method, searcher, progress) for method in plan.methods]


def _answer_with(
    plan: BenchmarkPlan, method: Method, searcher: Searcher, progress: Progress
) -> dict[str, Any]:
    path = plan.folder / f"{Path(method.file).stem}.txt"
    decisive = _decisive(plan, method, searcher)
    facts = read_finished(path, decisive)
    if facts is not None:
        progress(method.name, 1, 1)
        return facts | {"reused": True}

    def stage(name: str, steps: int) -> Callable[[int], None]:
        return lambda done: progress(f"{method.name}: {name}", done, steps)

    queries = find_irma_queries(plan.folder / "test.csv", plan.label)
    request = Request(k=plan.k, rerank=method.rerank, parameters=method.parameters)
    submission_plan = SubmissionPlan(searcher, request, plan.label, plan.sample, plan.seed, stage)
    submission = answer_queries(submission_plan, queries, plan.tree, plan.rule)
    write_submission(path, queries, submission.answers)
    facts = {
        "method": method.name,
        "submission": path.name,
        "images": len(queries),
        "training_images": len(submission.learned.images),
        "neighbours": submission.tuned.setting.neighbours,
        "sharpness": submission.tuned.setting.sharpness,
        "threshold": submission.tuned.setting.threshold,
        "estimated_normalised": submission.tuned.error,
        "unreadable": len(submission.refused),
        **score_submission(submission, queries, plan.tree, plan.rule),
    }
    write_finished(path, decisive, facts)
    return facts | {"reused": False}


def _decisive(plan: BenchmarkPlan, method: Method, searcher: Searcher) -> dict[str, Any]:
    """Return everything that decides the content of a submission."""
    info = searcher.collection.info()
    axes = [sorted(axis) for axis in plan.tree.axes] if plan.tree else []
    return {
        "cbir": cbir.__version__,
        "collection": [info["created"], info["generation"], info["profile_hash"]],
        "settings": searcher.settings.model_dump(mode="json", include=DECISIVE_SETTINGS),
        "method": method.name,
        "tree": hashlib.sha256(json.dumps(axes).encode()).hexdigest(),
        "queries": file_sha256(plan.folder / "test.csv"),
        "rule": plan.rule.value,
        "vote": [plan.k, plan.sample, plan.seed],
    }
