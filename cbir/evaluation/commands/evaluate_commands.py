"""`cbir evaluate ...`: measure the quality of search results, and fuse runs."""

import json
import tomllib
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
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
from cbir.system.console import StageBars, echo
from cbir.system.files import atomic_text
from cbir.system.lazy_commands import command_group
from cbir.system.remedies import install_command
from cbir.system.threads import cores

_TRAINING_IMAGES_ANSWER = {"relevance": "label", "where": ["split=train"], "rerank": "none"}
RESULT_KEY = "config"  # of summary.json: the options of that evaluation
NOT_KEPT = ("out", "config", "jobs")  # they do not decide the figures
LEAVE_ONE_OUT = "leave-one-out"
app = command_group("cbir.commands.evaluate", "Measure the quality of search results.")


class Preset(StrEnum):
    """Names of the protocols."""

    p_at_k = "p-at-k"
    medmnist = "medmnist"


# Options that a preset sets; options of the command line and of a configuration file come first.
PRESETS: dict[Preset, dict[str, Any]] = {
    # Denner et al., arXiv 2403.06567: validation and test images ask, precision over min(k, images of the class)
    Preset.p_at_k: _TRAINING_IMAGES_ANSWER
    | {
        "measures": "cappedP@1 cappedP@3 cappedP@5 cappedP@10",
        "queries_where": ["split!=train"],
        "depth": 10,
    },
    # Mahbod et al., arXiv 2409.09430
    Preset.medmnist: _TRAINING_IMAGES_ANSWER
    | {"measures": "mAP@5 mMV@5 ACC@1 ACC@3 ACC@5", "queries_where": ["split=test"], "depth": 5},
}


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a file as defaults, before those of a preset; a callback of Typer."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **read_config(path, context)}
    return path


def use_preset(context: typer.Context, preset: Preset | None) -> Preset | None:
    """Take the options of a preset as defaults, after those of a configuration; a callback of Typer."""
    if preset is not None:
        context.default_map = {**PRESETS[preset], **(context.default_map or {})}
    return preset


def read_config(path: Path, context: typer.Context) -> dict[str, Any]:
    """Return the options of a TOML or JSON file, or those that a summary.json states.

    Raises InvalidInput for a file that cannot be read, or names an option that the command lacks.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except OSError as error:
        raise InvalidInput(f"--config {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # damaged JSON or TOML, or another encoding
        raise InvalidInput(f"--config {path} is no TOML or JSON: {error}") from error
    if isinstance(values, dict) and isinstance(values.get(RESULT_KEY), dict):
        values = values[RESULT_KEY]
    if not isinstance(values, dict):
        raise InvalidInput(f"--config {path} must hold names of options with their values")
    parameters = _option_names(context)
    values = {name.replace("-", "_"): value for name, value in values.items() if value is not None}
    if unknown := sorted(values.keys() - parameters.keys()):
        raise InvalidInput(
            f"--config {path}: no option {', '.join(unknown)}; there are {', '.join(sorted(parameters))}"
        )
    repeatable = {
        parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    options = {}
    for name, value in values.items():
        is_list = parameters[name] in repeatable
        parts = value if isinstance(value, list) and is_list else [value]
        if not all(isinstance(part, str | int | float) for part in parts):
            kinds = "a text, or a list of texts" if is_list else "a text, a number, true or false"
            raise InvalidInput(f"--config {path}: {name} must be {kinds}")
        options[parameters[name]] = parts if is_list else value
    return options


def _option_names(context: typer.Context) -> dict[str, str]:
    """Return the names of the command's parameters by those of its options."""
    return {
        option.removeprefix("--").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for option in parameter.opts
        if parameter.name not in (None, "config", "help") and option.startswith("--")
    }


def stated_options(context: typer.Context) -> dict[str, Any]:
    """Return the options in force that decide the figures, ready for JSON, with absolute paths."""
    names = {parameter: option for option, parameter in _option_names(context).items()}
    options: dict[str, Any] = {}
    for name, value in context.params.items():
        if name in NOT_KEPT or value is None:
            continue
        if isinstance(value, list | tuple):
            if value:
                options[names[name]] = [_in_json(part) for part in value]
        else:
            options[names[name]] = _in_json(value)
    if Path(options.get("queries", "")).is_file():
        options["queries"] = str(Path(options["queries"]).resolve())
    return options


def _in_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.resolve())
    return str(value) if isinstance(value, Preset) else value


def evaluate_collection(
    context: typer.Context,
    collection: options.Folder,
    out: Annotated[Path, Option(help="Folder for run files, qrels, tables and report.")],
    queries: Annotated[
        str,
        Option(help="CSV file with a column `path` and labels, or leave-one-out: the collection's images."),
    ] = LEAVE_ONE_OUT,
    relevance: Annotated[
        str,
        Option(
            help="Labels that relevant images share: label, modality+anatomy, irma:TDAB, grade, anatomy+grade."
        ),
    ] = "label",
    rerank: Annotated[
        str, Option(help="Re-rankers to compare, or all; the first one is the baseline.")
    ] = "none eprf",
    measures: Annotated[
        str, Option(help="Measures of ir-measures, and ANMRR, mAP@k, mMV@k, ACC@k, kNNError@k.")
    ] = "AP P@1 P@10 nDCG@10 RR",
    depth: Annotated[int, Option(min=0, help="Results per query; 0: all.")] = 1000,
    sample: Annotated[int | None, Option(min=1, help="Number of queries, evenly from the classes.")] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the sample and the statistics.")] = 0,
    where: options.Where = None,
    same_patient: Annotated[
        bool, Option("--same-patient", help="Allow results of the patient.", hidden=True)
    ] = False,
    level: Annotated[
        int | None, Option(min=1, help="Smallest gain of a relevant result.", hidden=True)
    ] = None,
    pictures: Annotated[bool, Option(help="Show the best and worst queries in the report.")] = True,
    jobs: Annotated[int | None, Option(min=1, help="Processes. [default: number of cores]")] = None,
    queries_where: Annotated[
        list[str] | None, Option(help="Only queries with this label, as split=test. Repeatable.", hidden=True)
    ] = None,
    run_files: Annotated[
        list[Path] | None,
        Option(
            "--run", help="TREC run file to evaluate beside the re-rankers, such as a fused one. Repeatable."
        ),
    ] = None,
    folds: Annotated[
        int,
        Option(
            min=0,
            help="Folds of the queries by patient, for mean and deviation per fold; 0: none.",
            hidden=True,
        ),
    ] = 0,
    preset: Annotated[
        Preset | None,
        Option(
            is_eager=True,
            callback=use_preset,
            help="Measures and split of a published protocol.",
            hidden=True,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        Option(
            is_eager=True,
            callback=use_config,
            help="Options from a TOML or JSON file; the summary.json of a result repeats that evaluation.",
            hidden=True,
        ),
    ] = None,
) -> None:
    """Evaluate re-rankers on labelled queries, and write run files, tables and a report.

    Options of the command line come before those of --config, and these before those of --preset.
    """
    if find_spec("ir_measures") is None:
        raise InvalidInput(f"ir-measures is not installed: {install_command('evaluate')}")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; the results need a folder")
    from cbir.evaluation import relevance as relevances
    from cbir.evaluation import runs
    from cbir.evaluation.experiment import EvalPlan, run_evaluation
    from cbir.evaluation.named_metrics import parse_metrics
    from cbir.evaluation.report.report_page import write_report
    from cbir.evaluation.report.report_parts import ReportPictures
    from cbir.evaluation.result_files import (
        build_summary,
        compare_with_result,
        file_digests,
        print_means,
        write_qrels,
        write_queries,
    )
    from cbir.evaluation.runs import DECISIVE_SETTINGS
    from cbir.system.files import atomic_text

    loaded = settings.load()
    plan = EvalPlan(
        collection=collection,
        queries=None if queries == LEAVE_ONE_OUT else Path(queries),
        relevance=relevances.parse_relevance(relevance),
        methods=runs.parse_methods(rerank),
        metrics=parse_metrics(measures),
        depth=depth,
        sample=sample,
        seed=seed,
        where=tuple(where or ()),
        same_patient=same_patient,
        level=level,
        jobs=jobs or cores(),
        queries_where=tuple(queries_where or ()),
        run_files=tuple(run_files or ()),
        folds=folds,
    )
    with StageBars() as bars:
        evaluation = run_evaluation(plan, loaded, out / "runs", bars.show)
        write_qrels(evaluation, out / "qrels.txt")
        write_queries(evaluation, out / "queries.csv")
        summary = build_summary(evaluation) | {
            "settings": loaded.model_dump(mode="json", include=DECISIVE_SETTINGS),
            "config": stated_options(context),
            "files": file_digests(out, evaluation.runs),
        }
        differences = compare_with_result(config, summary) if config else None
        with atomic_text(out / "summary.json") as file:
            json.dump(summary, file, indent=2)
        drawing = ReportPictures(loaded.max_pixels) if pictures else None
        write_report(evaluation, out / "report.html", drawing, bars.show)
    print_means(evaluation)
    echo(out / "report.html")
    if differences is not None:
        _print_reproduction(differences, config)


def _print_reproduction(differences: list[str], config: Path | None) -> None:
    if not differences:
        echo(f"bit for bit the run files, qrels and queries.csv of {config}")
    for difference in differences:
        echo(f"differs from {config}: {difference}", err=True)


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


app.command("run")(evaluate_collection)
app.command("fuse")(fuse_runs)
