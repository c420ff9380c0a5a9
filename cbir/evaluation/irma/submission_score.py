"""Score of a submission whose images have labels, beside trivial answers."""

from collections.abc import Sequence
from typing import Any

from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.irma.code_error import ErrorRule, trivial_answers
from cbir.evaluation.irma.error_report import compare_codes
from cbir.evaluation.irma.irma_queries import IrmaQuery
from cbir.evaluation.irma.submission import Submission, class_error, true_labels


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
