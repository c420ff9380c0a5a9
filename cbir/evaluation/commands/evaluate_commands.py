"""`cbir evaluate ...`: measure the quality of search results, fuse runs, and answer the IRMA benchmark."""

import csv
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from cbir.errors import InvalidInput
from cbir.evaluation.code_error import ErrorRule
from cbir.evaluation.commands.run_evaluation import evaluate_collection
from cbir.evaluation.run_files import (
    RANK_CONSTANT,
    FusionMethod,
    RunFile,
    Scores,
    ScoreScale,
    fuse_answers,
    min_max,
    parse_run_weights,
    reciprocal_ranks,
    run_lines,
    z_scores,
)
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values
from cbir.system.files import atomic_text, harmless_cell, os_errors
from cbir.system.lazy_commands import LazyCommands


def fuse_runs(
    runs: Annotated[list[Path], Argument(metavar="RUN RUN...", help="TREC run files.")],
    out: Annotated[Path, Option(help="Run file to write.")],
    method: Annotated[
        FusionMethod, Option(help="Reciprocal rank fusion, or a weighted sum of normalised scores.")
    ] = FusionMethod.rrf,
    weights: Annotated[
        str | None, Option(help="Weight of each run, as 2,1,1. [default: equal weights]")
    ] = None,
    scale: Annotated[
        ScoreScale | None,
        Option(help="Normalisation of scores, for weighted.", show_default=ScoreScale.min_max.value),
    ] = None,
    k: Annotated[
        float | None,
        Option("-k", min=0, help="Constant added to ranks, for rrf.", show_default=str(RANK_CONSTANT)),
    ] = None,
    depth: Annotated[int, Option(min=0, help="Answers per query to write; 0: all.")] = 1000,
) -> None:
    """Fuse run files to one, which `cbir evaluate run --run FILE` evaluates beside others."""
    if len(runs) < 2:
        raise InvalidInput("fusion needs at least two runs")
    if not out.parent.is_dir():
        raise InvalidInput(f"{out} cannot be written: there is no folder {out.parent}")
    score = _scoring(method, scale, k)
    factors = parse_run_weights(weights, len(runs))
    files = [RunFile(path) for path in runs]
    queries = list(dict.fromkeys(query for file in files for query in file.queries))
    with StageBars() as bars, atomic_text(out) as text:
        for number, query in enumerate(queries, start=1):
            answers = [file.answers(query) for file in files]
            fused = fuse_answers(answers, factors, score, missing=method is FusionMethod.weighted)
            best = len(fused.images) if depth == 0 else depth
            lines = run_lines(query, fused.images[:best], fused.scores[:best], out.stem)
            text.writelines(f"{line}\n" for line in lines)
            bars.show("fusing", number, len(queries))
    lacking = sum(len(queries) - len(file.queries) for file in files)
    echo(f"{out}: {len(queries)} queries of {len(runs)} runs")
    if lacking:
        echo(f"{lacking} times a run has no answers to a query that another run has", err=True)


def _scoring(method: FusionMethod, scale: ScoreScale | None, k: float | None) -> Callable[[Scores], Scores]:
    """Return the function of a method; raise InvalidInput for an option of the other method."""
    if method is FusionMethod.rrf:
        if scale is not None:
            raise InvalidInput("--scale is for --method weighted; rrf counts ranks")
        return partial(reciprocal_ranks, k=RANK_CONSTANT if k is None else k)
    if k is not None:
        raise InvalidInput("-k is for --method rrf; weighted adds scores")
    return z_scores if scale is ScoreScale.z_score else min_max


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
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.labelled_neighbours import find_irma_queries
    from cbir.evaluation.submission import (
        SubmissionPlan,
        answer_queries,
        score_submission,
        write_submission,
    )
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
    from cbir.evaluation.code_error import report_lines

    for name, error in measured.get("baselines_on_training", {}).items():
        echo(f"  {name.replace('_', ' '):26}{error:10.2f}  expected, from the training images")
    score = measured.get("measured", {})
    if "baselines" in score:
        echo("\n".join(["measured on the labels of the test images", *report_lines(score)]))
    elif score:
        echo(f"error rate {score['error_rate']:.4f} on {score['images']} labelled test images")


def score_irma_codes(
    tree: Annotated[Path, Option(help="IRMA code tree.")],
    truth: Annotated[
        Path, Option(help="True codes: CSV file of 2009, CSV file image_id,code, or lines `<id> <code>`.")
    ],
    run: Annotated[Path, Option(help="Answers: lines `<id> <code>`, with `*` for unknown.")],
    rule: Annotated[ErrorRule, Option(help="Scoring rule; 2009 is also that of 2008.")] = ErrorRule.of_2009,
    train: Annotated[Path | None, Option(help="True codes to take the majority baseline from.")] = None,
    labelling: Annotated[
        Literal["2007", "2008"], Option(help="Year of the true codes in a CSV file of 2009.")
    ] = "2008",
    per_image: Annotated[Path | None, Option(help="Write image_id,error to this CSV file.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Score a run by the hierarchical error of ImageCLEF, with baselines. Lower is better."""
    from cbir.evaluation.code_error import compare_codes, report_lines
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.datasets.irma.label_files import read_answered_codes, read_true_codes

    truths = read_true_codes(truth, labelling)
    training = read_true_codes(train, labelling, "train").by_image if train else {}
    answers = read_answered_codes(run).by_image
    result = compare_codes(truths.by_image, answers, CodeTree.read(tree), rule, list(training.values()))
    if per_image:
        with os_errors(f"{per_image} cannot be written"), atomic_text(per_image) as file:
            rows = [
                (harmless_cell(truths.written.get(name, name)), repr(error))
                for name, error in result.by_image.items()
            ]
            csv.writer(file).writerows([("image_id", "error"), *rows])
    facts = result.facts() | {"without_true_code": truths.left_out}
    if format is OutputFormat.json:
        print_json(facts)
        return
    echo("\n".join(report_lines(facts)))
    if truths.left_out:
        echo(f"{truths.left_out} images of the truth have no code in this labelling and were left out")
    for name in result.unknown[:5]:
        echo(f"  not in the truth: {name}", err=True)


class EvaluateCommands(LazyCommands):
    """Subcommands of `cbir evaluate`; `irma` indexes, and belongs to the indexer."""

    entry_point_group = "cbir.commands.evaluate"


app = typer.Typer(
    cls=EvaluateCommands,
    no_args_is_help=True,
    add_completion=False,
    help="Measure the quality of search results.",
)

app.command("run")(evaluate_collection)

app.command("fuse")(fuse_runs)

app.command("irma-error")(score_irma_codes)

app.command("irma-run")(answer_irma)
