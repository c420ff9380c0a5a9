"""`cbir evaluate irma-run`."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import ErrorRule
from cbir.search import command_options as options
from cbir.system.console.output import OutputFormat, Printed, StageBars, print_json, print_values
from cbir.system.console.printable import echo


def answer_irma(
    collection: options.Folder,
    queries: Annotated[Path, Option(help="Test images: a CSV manifest or a folder.")],
    out: Annotated[Path, Option(help="Submission file to write.")],
    tree: Annotated[Path | None, Option(help="IRMA code tree; required for codes.")] = None,
    answers: Annotated[
        Literal["code", "class"],
        Option(help="Lines `<id> <code>`, or `<id> <confidence of each class>`."),
    ] = "code",
    label: Annotated[
        str | None, Option(help="Label with the code or class. [default: irma_code or irma_class]")
    ] = None,
    rule: Annotated[ErrorRule, Option(help="Error that the answers minimise.")] = ErrorRule.of_2009,
    rerank: options.Rerank = None,
    k: Annotated[int, Option("-k", "--k", min=1, max=1000, help="Most neighbours that vote.")] = 50,
    where: options.Where = None,
    sample: Annotated[int, Option(min=2, help="Training images for tuning the vote.")] = 1000,
    seed: Annotated[int, Option(help="Random seed of the sample.")] = 0,
    format: Printed = OutputFormat.text,
) -> None:
    """Predict the code of each test image from its neighbours, `*` where they disagree.

    The number of neighbours that vote, the weights of their votes and the threshold of agreement are tuned on
    training images, each searched without itself, to minimise the expected error. If the test images have labels,
    the answers are scored too.
    """
    from cbir import settings
    from cbir.evaluation.datasets.irma.code_tree import CodeTree
    from cbir.evaluation.irma.irma_queries import find_irma_queries
    from cbir.evaluation.irma.submission import SubmissionPlan, answer_queries, write_submission
    from cbir.evaluation.irma.submission_score import score_submission
    from cbir.search import Request, Searcher
    from cbir.store import Collection

    if answers == "code" and tree is None:
        raise InvalidInput("codes need the code tree; name it with --tree")
    if not out.parent.is_dir():
        raise InvalidInput(f"{out} cannot be written: there is no folder {out.parent}")
    label = label or f"irma_{answers}"
    test_queries, codes = find_irma_queries(queries, label), CodeTree.read(tree) if tree else None
    if answers == "class":
        codes = None
    with Collection(collection) as opened, StageBars() as bars:

        def stage(name: str, steps: int) -> Callable[[int], None]:
            return lambda done: bars.show(name, done, steps)

        request = Request(k=k, rerank=rerank, where=where or [])
        plan = SubmissionPlan(Searcher(opened, settings.load()), request, label, sample, seed, stage)
        submission = answer_queries(plan, test_queries, codes, rule)
    write_submission(out, test_queries, submission.answers)
    for path, reason in submission.refused.items():
        echo(f"{path}: {reason}; answered without neighbours", err=True)
    tuned = submission.tuned
    facts = {
        "images": len(test_queries),
        "run": str(out),
        **asdict(tuned.setting),
        "chosen_on": submission.sample,
        "training_images": len(submission.learned.images),
        "estimated_error": tuned.error * len(test_queries),
        "estimated_normalised": tuned.error,
        "unreadable": len(submission.refused),
    }
    measured = score_submission(submission, test_queries, codes, rule)
    if format is OutputFormat.json:
        print_json(facts | measured)
        return
    print_values(facts, format)
    _print_measured(measured)


def _print_measured(measured: dict[str, Any]) -> None:
    from cbir.evaluation.irma.error_report import report_lines

    for name, error in measured.get("baselines_on_training", {}).items():
        echo(f"  {name.replace('_', ' '):26}{error:10.2f}  expected, from the training images")
    score = measured.get("measured", {})
    if "baselines" in score:
        echo("\n".join(["measured on the labels of the test images", *report_lines(score)]))
    elif score:
        echo(f"error rate {score['error_rate']:.4f} on {score['images']} labelled test images")
