"""`cbir evaluate run`."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.evaluation.commands.run_options import stated_options, use_config, use_preset
from cbir.evaluation.presets import Preset
from cbir.search import command_options as options
from cbir.system.console.output import StageBars
from cbir.system.console.printable import echo
from cbir.system.extras import install_command
from cbir.system.threads import cores

LEAVE_ONE_OUT = "leave-one-out"


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
    same_patient: Annotated[bool, Option("--same-patient", help="Allow results of the patient.")] = False,
    level: Annotated[int | None, Option(min=1, help="Smallest gain of a relevant result.")] = None,
    pictures: Annotated[bool, Option(help="Show the best and worst queries in the report.")] = True,
    jobs: Annotated[int | None, Option(min=1, help="Processes. [default: number of cores]")] = None,
    queries_where: Annotated[
        list[str] | None, Option(help="Only queries with this label, as split=test. Repeatable.")
    ] = None,
    run_files: Annotated[
        list[Path] | None,
        Option(
            "--run", help="TREC run file to evaluate beside the re-rankers, such as a fused one. Repeatable."
        ),
    ] = None,
    folds: Annotated[
        int, Option(min=0, help="Folds of the queries by patient, for mean and deviation per fold; 0: none.")
    ] = 0,
    preset: Annotated[
        Preset | None,
        Option(is_eager=True, callback=use_preset, help="Measures and split of a published protocol."),
    ] = None,
    config: Annotated[
        Path | None,
        Option(
            is_eager=True,
            callback=use_config,
            help="Options from a TOML or JSON file; the summary.json of a result repeats that evaluation.",
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
    from cbir.evaluation import methods
    from cbir.evaluation import relevance as relevances
    from cbir.evaluation.commands.means_table import print_means
    from cbir.evaluation.experiment import EvalPlan, run_evaluation
    from cbir.evaluation.metrics.named_metrics import parse_metrics
    from cbir.evaluation.report.report_page import write_report
    from cbir.evaluation.report.report_pictures import ReportPictures
    from cbir.evaluation.reproduction import compare_with_result, file_digests
    from cbir.evaluation.result_files import build_summary, write_qrels, write_queries
    from cbir.evaluation.runs import DECISIVE_SETTINGS
    from cbir.system.atomic import atomic_text

    loaded = settings.load()
    plan = EvalPlan(
        collection=collection,
        queries=None if queries == LEAVE_ONE_OUT else Path(queries),
        relevance=relevances.parse_relevance(relevance),
        methods=methods.parse_methods(rerank),
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
