"""`cbir evaluate ...`: measure the quality of search results, and fuse runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cbir.errors import InvalidInput
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
from cbir.system.console import StageBars, echo
from cbir.system.files import atomic_text
from cbir.system.lazy_commands import LazyCommands


def fuse_runs(
    runs: Annotated[list[Path], Argument(metavar="RUN", help="TREC run files.")],
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


class EvaluateCommands(LazyCommands):
    """The commands below, and those of the entry-point group."""

    entry_point_group = "cbir.commands.evaluate"


app = typer.Typer(
    cls=EvaluateCommands,
    no_args_is_help=True,
    add_completion=False,
    help="Measure the quality of search results.",
)

app.command("run")(evaluate_collection)

app.command("fuse")(fuse_runs)
