"""`cbir irma evaluate`: from an IRMA release to error scores."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.evaluation.code_error import ErrorRule
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console
from cbir.system.files import atomic_text
from indexer.index_progress import INTERRUPTED

if TYPE_CHECKING:
    from cbir.evaluation.submission import BenchmarkPlan
    from indexer.irma_release import PreparedRelease


def evaluate_irma(
    release: Annotated[
        Path, Argument(metavar="RELEASE", help="Zip or folder of an IRMA release, 2005 to 2009.")
    ],
    out: Annotated[Path, Option(help="Folder for images, collection, submissions and results.json.")],
    tree: Annotated[Path | None, Option(help="IRMA code tree; required for codes, from 2007 on.")] = None,
    year: Annotated[str | None, Option(help="Year of the release. [default: by its files]")] = None,
    labelling: Annotated[
        str | None, Option(help="Labels of the 2009 release: 2005 or 2006 (classes), 2007 or 2008 (codes).")
    ] = None,
    rerank: Annotated[str, Option(help="Re-rankers to compare, or all.")] = "none auto eprf",
    rule: Annotated[ErrorRule | None, Option(help="Scoring rule. [default: that of the release]")] = None,
    profile: Annotated[
        str | None, Option(help=f"A {options.DESCRIPTORS}. [default: as for cbir index]")
    ] = None,
    k: Annotated[int, Option("-k", "--k", min=1, max=1000, help="Most neighbours that vote.")] = 50,
    sample: Annotated[int, Option(min=2, help="Training images for tuning the vote.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Random seed of the sample.")] = 0,
    jobs: Annotated[
        int | None, Option(min=1, help="Processes that index. [default: number of cores]")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Prepare an IRMA release, index its training images, answer for its test images, and score the answers.

    For each re-ranker the folder gets a submission, NAME.txt. Run an interrupted command again to continue it.
    Without labels of the test images, the expected error stands in for the score.
    """
    from cbir.evaluation import runs
    from cbir.evaluation.datasets.irma.codes import CodeTree
    from cbir.evaluation.datasets.irma.label_files import label_kind
    from cbir.evaluation.submission import BenchmarkPlan, answer_release
    from cbir.system.threads import cores
    from indexer.index_progress import ShownProgress
    from indexer.irma_release import index_training_images, prepare_release

    rerankers = runs.parse_methods(rerank)
    codes = CodeTree.read(tree) if tree else None
    loaded = settings.load()
    with StageBars() as bars:
        prepared = prepare_release(release, out, year, labelling, codes, bars.show)
    with_codes = label_kind(prepared.release.labelling) == "code"
    if with_codes and codes is None:
        raise InvalidInput("codes need the code tree; name it with --tree")
    summary = index_training_images(prepared, profile, jobs or cores(), loaded, ShownProgress())
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)
    default = ErrorRule.of_2007 if prepared.release.year == "2007" else ErrorRule.of_2009
    plan = BenchmarkPlan(
        prepared.collection, out, codes if with_codes else None, rule or default, rerankers, k, sample, seed
    )
    with StageBars() as bars:
        results = answer_release(plan, loaded, bars.show)
    facts = _facts(prepared, plan, summary.refused, results)
    with atomic_text(out / "results.json") as file:
        json.dump(facts, file, indent=2)
    if format is OutputFormat.json:
        print_json(facts)
    else:
        _print_results(facts)


def _facts(
    prepared: "PreparedRelease", plan: "BenchmarkPlan", refused: int, results: list[dict[str, Any]]
) -> dict[str, Any]:
    release = prepared.release
    return {
        "release": release.year,
        "labelling": release.labelling,
        "rule": plan.rule.value if plan.tree else None,
        "train": sum(item.split == "train" for item in release.items),
        "test": sum(item.split == "test" for item in release.items),
        "refused": refused,
        "dropped": {reason: len(items) for reason, items in release.dropped.items()},
        "results": results,
    }


def _print_results(facts: dict[str, Any]) -> None:
    from rich.table import Table

    with_codes = facts["rule"] is not None
    measured = "error" if with_codes else "error rate"
    table = Table("method", measured, "per image", "expected per image", "neighbours", box=None)
    for result in facts["results"]:
        score = result.get("measured", {})
        error = score.get("error", score.get("error_rate"))
        table.add_row(
            result["method"],
            "-" if error is None else f"{error:.4f}",
            f"{score['normalised']:.4f}" if "normalised" in score else "-",
            f"{result['estimated_normalised']:.4f}",
            f"{result['neighbours']}",
        )
    rule = f", rule of {facts['rule']}" if with_codes else ""
    console = results_console()
    console.print(
        f"IRMA {facts['release']}: {facts['train']} training and {facts['test']} test images, labels of "
        f"{facts['labelling']}{rule}; lower is better",
        highlight=False,
    )
    console.print(table)
    first = facts["results"][0]
    baselines = first.get("measured", first).get("baselines", first.get("baselines_on_training", {}))
    for name, error in baselines.items():
        echo(f"  {name.replace('_', ' '):26}{error:10.2f}")
    for reason, count in facts["dropped"].items():
        echo(f"dropped: {count} x {reason}", err=True)
    if facts["refused"]:
        echo(f"{facts['refused']} training images cannot be read", err=True)
