"""`cbir evaluate run`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.threads import cores

if TYPE_CHECKING:
    from rich.progress import TaskID

    from cbir.evaluation.experiment import Evaluation

LEAVE_ONE_OUT = "leave-one-out"


def run(
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    out: Annotated[Path, typer.Option(help="Folder for run files, qrels, tables and report.")],
    queries: Annotated[
        str,
        typer.Option(help="A csv with a column path and labels, or leave-one-out: the collection itself."),
    ] = LEAVE_ONE_OUT,
    relevance: Annotated[
        str, typer.Option(help="What must agree: label, modality+anatomy, irma:TDAB, grade, anatomy+grade.")
    ] = "label",
    rerank: Annotated[
        str, typer.Option(help="Re-rankers to compare, or all; the first is the baseline.")
    ] = "none eprf",
    measures: Annotated[
        str, typer.Option(help="Names of ir-measures, and ANMRR, mAP@k, mMV@k, ACC@k, kNNError@k.")
    ] = "AP P@1 P@10 nDCG@10 RR",
    depth: Annotated[int, typer.Option(min=0, help="Answers to each query that are kept; 0: all.")] = 1000,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Queries to draw, evenly from the classes.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample and the statistics.")] = 0,
    where: Annotated[
        list[str] | None, typer.Option(help="Only images with this label, e.g. anatomy=knee.")
    ] = None,
    same_patient: Annotated[
        bool, typer.Option("--same-patient", help="Let images of the query's patient be answers.")
    ] = False,
    level: Annotated[
        int | None, typer.Option(min=1, help="Gain from which an answer counts as relevant.")
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Show the best and worst queries in the report.")] = True,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
) -> None:
    """Ask every query, compare the answers with the labels, and write figures and a report."""
    if find_spec("ir_measures") is None:
        raise InvalidInput("ir-measures is not installed; `pip install 'cbir[evaluate]'` brings it")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; the results need a folder")
    from cbir.atomic import atomic_text
    from cbir.evaluation import metrics as known_measures
    from cbir.evaluation import methods
    from cbir.evaluation import relevance as relevances
    from cbir.evaluation.experiment import Plan, run_plan
    from cbir.evaluation.report import Pictures, write_report
    from cbir.evaluation.result_files import summary, write_qrels, write_queries

    in_force = settings.load()
    plan = Plan(
        collection=collection,
        queries=None if queries == LEAVE_ONE_OUT else Path(queries),
        relevance=relevances.parse(relevance),
        methods=methods.parse(rerank),
        measures=known_measures.parse(measures),
        depth=depth,
        sample=sample,
        seed=seed,
        where=tuple(where or ()),
        same_patient=same_patient,
        level=level,
        jobs=jobs or cores(),
    )
    with _progress() as progress:
        evaluation = run_plan(plan, in_force, out / "runs", progress)
        write_qrels(evaluation, out / "qrels.txt")
        write_queries(evaluation, out / "queries.csv")
        with atomic_text(out / "summary.json") as file:
            json.dump(summary(evaluation), file, indent=2)
        drawing = Pictures(in_force.max_pixels) if pictures else None
        write_report(evaluation, out / "report.html", drawing, progress)
    _print(evaluation, out)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        shown: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in shown:
                shown[stage] = bars.add_task(stage, total=total)
            bars.update(shown[stage], completed=done)

        yield progress


def _print(evaluation: "Evaluation", out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("method", *(measure.name for measure in evaluation.plan.measures), "seconds", box=None)
    for run, means in zip(evaluation.runs, evaluation.means.tolist(), strict=True):
        table.add_row(run.method.name, *(f"{mean:.4f}" for mean in means), f"{run.facts['seconds']:.1f}")
    console = Console(width=None if Console().is_terminal else 200)
    console.print(table)
    judgements = evaluation.judgements
    console.print(f"{len(judgements.queries)} queries", highlight=False)
    if judgements.without_relevant:
        console.print(
            f"{len(judgements.without_relevant)} more have no relevant image and are in no average",
            style="yellow",
        )
    console.print(f"{out / 'report.html'}", highlight=False)
