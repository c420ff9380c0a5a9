"""`cbir irma ...`: the IRMA benchmark of medical image annotation, of ImageCLEF 2005 to 2009."""

import csv
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from cbir.errors import InvalidInput
from cbir.evaluation.code_error import ErrorRule
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values
from cbir.system.files import atomic_text, harmless_cell, os_errors
from cbir.system.lazy_commands import command_group

MAX_EXAMPLES = 3  # dropped images listed per reason

MAX_NOTES = 20


app = command_group("cbir.commands.irma", "Prepare, answer and score the IRMA benchmark.")


def irma_manifest(
    folder: Annotated[Path, Argument(help="Folder of a release of the IRMA benchmark, 2005 to 2009.")],
    out: Annotated[Path, Argument(help="CSV manifest to write.")],
    year: Annotated[str | None, Option(help="Year of the release. [default: by its files]")] = None,
    labelling: Annotated[
        str | None, Option(help="Labels of the 2009 release: 2005 or 2006 (classes), 2007 or 2008 (codes).")
    ] = None,
    tree: Annotated[Path | None, Option(help="IRMA code tree, to check codes and add their text.")] = None,
    split: Annotated[Literal["train", "test"] | None, Option(help="Write only this part.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Write a manifest of an IRMA release, and report images that were dropped and why."""
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.datasets.irma.release import read_release, write_irma_manifest

    codes = CodeTree.read(tree) if tree else None
    with StageBars() as bars:
        bars.show("reading the release")
        release = read_release(folder, year, labelling, codes)
        count = write_irma_manifest(release, out, codes, split)
    if not count:
        out.unlink()
        raise InvalidInput(f"{folder} has no usable image in the part {split}")
    summary: dict[str, object] = {
        "release": release.year,
        "labelling": release.labelling,
        "train": sum(item.split == "train" for item in release.items),
        "test": sum(item.split == "test" for item in release.items),
        "without_label": sum(item.label is None for item in release.items),
        "labels": len({item.label for item in release.items if item.label}),
        "written": count,
        "manifest": str(out),
    }
    if format is OutputFormat.json:
        print_json(summary | {"dropped": release.dropped, "notes": release.notes})
        return
    print_values(summary, format)
    for reason, names in release.dropped.items():
        examples = ", ".join(names[:MAX_EXAMPLES]) + (", ..." if len(names) > MAX_EXAMPLES else "")
        echo(f"dropped: {len(names)} x {reason} ({examples})")
    for note in release.notes[:MAX_NOTES]:
        echo(f"note: {note}")


def irma_phantoms(
    out: Annotated[Path, Argument(help="Zip to write; NAME-tree.txt beside it is the code tree.")],
    year: Annotated[Literal["2007", "2009"], Option(help="Release whose layout it has.")] = "2009",
    count: Annotated[int, Option(help="Number of images, roughly.")] = 300,
    seed: Annotated[int, Option(min=0, help="Random seed; another one gives other patients.")] = 0,
    size: Annotated[int, Option(help="Pixels of the longer side, 32 to 4096.")] = 128,
) -> None:
    """Write a made-up IRMA release of phantoms, for trying out `cbir irma evaluate`."""
    from cbir.evaluation.datasets.irma.phantom_release import phantom_release_classes, write_phantom_release

    classes = phantom_release_classes(count)
    with StageBars() as bars:
        tree = write_phantom_release(
            out,
            year,
            classes,
            seed=seed,
            size=size,
            on_progress=lambda done, total: bars.show("drawing", done, total),
        )
    train, test = sum(item.train for item in classes), sum(item.test for item in classes)
    echo(f"{train} training and {test} test images of {len(classes)} classes in {out}, code tree in {tree}")


def answer_irma(
    collection: options.Folder,
    queries: Annotated[Path, Option(help="Test images: a CSV manifest or a folder.")],
    out: Annotated[Path, Option(help="Submission file to write.")],
    tree: Annotated[Path | None, Option(help="IRMA code tree; required for codes.")] = None,
    answers: Annotated[
        Literal["code", "class"],
        Option(help="Lines `ID CODE`, or `ID CONFIDENCE ...` with one for each class."),
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
        Path, Option(help="True codes: CSV file of 2009, CSV file image_id,code, or lines `ID CODE`.")
    ],
    run: Annotated[Path, Option(help="Answers: lines `ID CODE`, with `*` for unknown.")],
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
