"""`cbir evaluate irma-run`."""

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from cbir.atomic import atomic_text
from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import Rule, baselines

if TYPE_CHECKING:
    from cbir.datasets.irma import CodeTree
    from cbir.evaluation.irma.irma_queries import Query
    from cbir.evaluation.irma.submission import Submission


class Answers(StrEnum):
    """What a submission says of each image."""

    code = "code"
    classes = "class"


class Format(StrEnum):
    """How the summary is printed."""

    text = "text"
    json = "json"


def irma_run(
    collection: Annotated[Path, typer.Option(help="Collection of the training images, with their labels.")],
    queries: Annotated[Path, typer.Option(help="Test images: a manifest (csv) or a folder.")],
    out: Annotated[Path, typer.Option(help="The submission to write.")],
    tree: Annotated[Path | None, typer.Option(help="The IRMA code tree; needed for codes.")] = None,
    answers: Annotated[
        Answers, typer.Option(help="code: `<id> <code>` lines; class: `<id> <confidence of each class>`.")
    ] = Answers.code,
    label: Annotated[
        str | None, typer.Option(help="Label with the code or class; irma_code or irma_class if not given.")
    ] = None,
    rule: Annotated[Rule, typer.Option(help="Whose error the answers minimise.")] = Rule.of_2009,
    rerank: Annotated[str | None, typer.Option(help="As none or eprf; a wrong name lists all.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, max=1000, help="Most neighbours that may vote.")] = 50,
    where: Annotated[
        list[str] | None, typer.Option(help="Only neighbours with this label, e.g. split=train.")
    ] = None,
    sample: Annotated[int, typer.Option(min=2, help="Training images to choose the setting by.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    format: Annotated[Format, typer.Option(help="Of the summary.")] = Format.text,
) -> None:
    """Answer the code of each test image from its neighbours, `*` where they agree too little.

    How many neighbours vote, how their votes are weighted and how many must agree is chosen on training images,
    each searched without itself, to minimise the expected error. Where the test images have labels, the answers
    are scored as well.
    """
    from cbir import settings
    from cbir.datasets.irma import CodeTree
    from cbir.evaluation.irma.irma_queries import queries as images_of
    from cbir.evaluation.irma.submission import Plan, answer_classes, answer_codes
    from cbir.search import Request, Searcher
    from cbir.store import Collection

    if answers is Answers.code and tree is None:
        raise InvalidInput("codes are answered by a code tree; name it with --tree")
    if not out.parent.is_dir():
        raise InvalidInput(f"{out} cannot be written: there is no folder {out.parent}")
    label = label or f"irma_{answers.value}"
    asked, codes = images_of(queries, label), CodeTree.read(tree) if tree else None
    with Collection(collection) as opened, Progress(console=Console(stderr=True)) as bar:

        def stage(what: str, steps: int) -> Callable[[int], None]:
            task = bar.add_task(what, total=steps)
            return lambda done: bar.update(task, completed=done)

        request = Request(k=k, rerank=rerank, where=where or [])
        plan = Plan(Searcher(opened, settings.load()), request, label, sample, seed, stage)
        made = (
            answer_codes(plan, asked, codes, rule)
            if codes and answers is Answers.code
            else answer_classes(plan, asked)
        )
    _write(out, asked, made.answers)
    facts = _facts(made, asked, out)
    measured = (
        _codes_measured(made, asked, codes, rule)
        if codes and answers is Answers.code
        else _classes_measured(made, asked)
    )
    _print(facts, measured, made, format)


def _facts(made: "Submission", asked: "list[Query]", out: Path) -> dict[str, Any]:
    setting = made.tuned.setting
    return {
        "images": len(asked),
        "run": str(out),
        "neighbours": setting.neighbours,
        "sharpness": setting.sharpness,
        "threshold": setting.threshold,
        "chosen_on": made.sample,
        "training_images": len(made.learned.images),
        "estimated_error": made.tuned.error * len(asked),
        "estimated_normalised": made.tuned.error,
        "unreadable": len(made.refused),
    }


def _codes_measured(made: "Submission", asked: "list[Query]", tree: "CodeTree", rule: Rule) -> dict[str, Any]:
    """The score where the truth is known; else what trivial answers score on the training images, scaled."""
    from cbir.evaluation.irma.error_report import report
    from cbir.evaluation.irma.submission import true_labels

    names = list(made.learned.numbers)
    learned = [names[number] for _, number in made.learned.images]
    truth = true_labels(asked, made.learned.labelling)
    if truth:
        run = {query.image_id: code for query, code in zip(asked, made.answers, strict=True)}
        return {"measured": report(truth, {name: run[name] for name in truth}, tree, rule, learned).facts()}
    scale = len(asked) / len(learned)
    trivial = baselines(learned, tree, rule, learned)
    return {"baselines_on_training": {name: trivial[name].error * scale for name in trivial}}


def _classes_measured(made: "Submission", asked: "list[Query]") -> dict[str, Any]:
    from cbir.evaluation.irma.submission import class_error, true_labels

    truth = true_labels(asked, made.learned.labelling)
    return (
        {"measured": {"images": len(truth), "error_rate": class_error(made, asked, truth)}} if truth else {}
    )


def _write(out: Path, asked: "list[Query]", answers: list[str]) -> None:
    try:
        with atomic_text(out) as file:
            file.writelines(
                f"{query.image_id} {answer}\n" for query, answer in zip(asked, answers, strict=True)
            )
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from error


def _print(facts: dict[str, Any], measured: dict[str, Any], made: "Submission", format: Format) -> None:
    from cbir.evaluation.irma.error_report import lines

    for path, reason in made.refused.items():
        typer.echo(f"{path}: {reason}; answered without neighbours", err=True)
    if format is Format.json:
        typer.echo(json.dumps(facts | measured))
        return
    for name, value in facts.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        typer.echo(f"{name.replace('_', ' '):22}{shown}")
    for name, error in measured.get("baselines_on_training", {}).items():
        typer.echo(f"  {name.replace('_', ' '):26}{error:10.2f}  expected from the training images")
    score = measured.get("measured", {})
    if "baselines" in score:
        typer.echo("\n".join(["measured on the labels of the test images", *lines(score)]))
    elif score:
        typer.echo(f"error rate {score['error_rate']:.4f} on {score['images']} labelled test images")
