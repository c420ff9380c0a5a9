"""`cbir annotate`: learn severity from pairwise comparisons."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.train_models import require_torch
from cbir.learn.option_groups import Column
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json
from cbir.system.device_failure import device_failures
from cbir.system.files import os_errors
from cbir.system.lazy_commands import command_group

if TYPE_CHECKING:
    from service.features.annotate.active.annotator_agreement import AnnotatorAgreement
    from service.features.annotate.active.simulation import SimulationResult


app = command_group("cbir.commands.annotate", "Learn severity from comparisons of two images.")


def simulate_annotation(
    collection: options.Folder,
    grade_column: Column = "grade",
    strategy: Annotated[
        list[str] | None,
        Option(
            help="new-images, stratified, variance, random, core-set, core-set-encoder, typiclust, disagreement, "
            "badge or balanced; repeatable. [new-images]"
        ),
    ] = None,
    rounds: Annotated[int, Option(min=0, max=100, help="Rounds after the first.")] = 6,
    start: Annotated[float, Option(help="Fraction of the images in the initial pairs.", hidden=True)] = 0.2,
    step: Annotated[
        float, Option(help="Fraction of the images that each round selects.", hidden=True)
    ] = 0.05,
    error_rate: Annotated[float, Option(help="Fraction of wrong answers, 0 to 1.", hidden=True)] = 0.0,
    calibrate: Annotated[
        bool, Option(help="Also learn from the grades of the images in pairs.", hidden=True)
    ] = False,
    held_out: Annotated[float, Option(help="Fraction of the patients to test on.")] = 0.2,
    where: options.Where = None,
    encoder: Annotated[
        str | None,
        Option(
            help="Encoder whose values are learned from; none: a network on pictures, see --backbone. "
            "[default: the collection's encoder, or lite0-whole]"
        ),
    ] = None,
    backbone: Annotated[
        str | None, Option(help="Network on pictures: small, densenet169, resnet18, ... [small]", hidden=True)
    ] = None,
    weights: Annotated[
        str | None,
        Option(
            help="Initial weights of --backbone: a weights file, or the folder of a trained embedding.",
            hidden=True,
        ),
    ] = None,
    side: Annotated[
        int | None,
        Option(
            min=32, max=1024, help="Side of the pictures of --backbone in pixels. [default: 64]", hidden=True
        ),
    ] = None,
    passes: Annotated[int, Option(min=2, max=1000, help="Stochastic passes per severity.", hidden=True)] = 30,
    epochs: Annotated[
        int | None,
        Option(
            min=1,
            help="Passes over the pairs; if few, see --steps. [default: 10; 20 for --backbone]",
            hidden=True,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        Option(
            min=0,
            help="Smallest number of training batches. [default: 300; 1000 for --backbone]",
            hidden=True,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        Option(help="Peak learning rate of Adam. [default: 0.003; 0.001 for --backbone]", hidden=True),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Random seed of selection and training.")] = 0,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
    report: Annotated[Path | None, Option(help="Folder for learning curves and figures.")] = None,
    write: Annotated[
        bool,
        Option(
            help="Label all images of the collection with the severity predicted by the last strategy's ranker."
        ),
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Simulate an annotation study: learn severity in rounds of comparisons, with answers from the grades."""
    from cbir.store import Collection
    from cbir.store.records.filter_conditions import parse_filters

    require_torch(device, threads)
    from cbir.learn.severity.severity_rankers import new_ranker
    from cbir.learn.severity.stored_images import choose_encoder
    from service.features.annotate.active import strategies
    from service.features.annotate.active.simulation import SimulationPlan, load_graded_images, publish_ranker
    from service.features.annotate.active.simulation import simulate as run
    from service.features.annotate.active.simulation_report import write_simulation_report as write_report

    names = list(dict.fromkeys(strategy or [strategies.DEFAULT]))
    plans = {name: SimulationPlan(name, rounds, start, step, error_rate, calibrate, seed) for name in names}
    if report is not None and report.exists() and not report.is_dir():
        raise InvalidInput(f"{report} is a file; the report needs a folder")

    settings = {"backbone": backbone, "side": side, "weights": weights, "passes": passes, "epochs": epochs,
                "steps": steps, "rate": rate, "seed": seed, "device": device}  # fmt: skip
    conditions = parse_filters(where or ())
    results: dict[str, SimulationResult] = {}
    with Collection(collection) as opened, StageBars() as bars, device_failures("networks", device):
        options.check_label(opened, grade_column)
        source = choose_encoder(opened, encoder, settings)
        for name in names:
            strategies.check_strategy(name, source)
        ranker = new_ranker(source, settings)
        data = load_graded_images(opened, grade_column, ranker, held_out, conditions, seed, bars.show)
        make = ranker.copies(data.images[data.train])
        for name, plan in plans.items():
            results[name] = run(
                data.images, data.grades, data.train, data.test, plan, make, show=partial(bars.show, name)
            )
        if report is not None:
            write_report(results, report)
        labelled = publish_ranker(opened, results[names[-1]].ranker, bars.show) if write else 0
    if data.missing:
        echo(f"cbir: {data.missing} graded images were left out: their files are missing", err=True)
    if format is OutputFormat.json:
        values = {name: result.as_dict() for name, result in results.items()}
        print_json(values if len(values) > 1 else values[names[0]], strict=True)
        return
    _print_rounds(results)
    if labelled:
        echo(f"{labelled} images have the label `severity`")


def _print_rounds(results: "dict[str, SimulationResult]") -> None:
    for name, result in results.items():
        for round_ in result.rounds:
            f1 = {"F1": round_.classified, "with thresholds": round_.classified_by_thresholds}
            echo(
                f"{name}, round {round_.number}: {round_.pairs} pairs of {round_.images} images, "
                f"overall {round_.relative['overall']:.3f}, neighbouring {round_.relative['neighbouring']:.3f}, "
                f"{round_.seconds:,.0f} s of annotation"
                + "".join(f", {title} {of['f1']:.3f}" for title, of in f1.items() if of)
            )


def publish_severity(
    collection: options.Folder, study_dir: Annotated[Path, Option(help="Folder of the study.")]
) -> None:
    """Write the results of a study to the collection: the label `severity` of its images, and the ranker."""
    require_torch("cpu", 0)
    from cbir.learn.severity.severity_rankers import load_severity_ranker
    from cbir.learn.severity.stored_ranker import LABEL, write_severity
    from cbir.store import Collection
    from service.features.annotate import study_files, study_plan

    study_plan.read_plan(study_dir)  # reports a folder without a study
    model = study_files.latest_model(study_dir)
    if model is None:
        raise InvalidInput(f"{study_dir} has no ranker yet: one is trained when a round is complete")
    with Collection(collection) as opened, StageBars() as bars:
        collection_ids = {record.image_id for _, record in opened.iterate()}
        if not collection_ids.intersection(model.ids):
            raise InvalidInput(
                f"none of the images of {study_dir} is in {address_or_folder(collection)}; name the "
                "collection of the study"
            )
        with os_errors(f"the ranker in {model.folder} cannot be read"):
            load_severity_ranker(model.folder)  # reports one that cannot be used
        bars.show("writing labels")
        study_files.copy_ranker_to_collection(model, opened)
        changed = write_severity(opened, model.ids, model.severity.mean)
    echo(
        f"{LABEL} of {len(collection_ids.intersection(model.ids))} images, predicted after round {model.after}; "
        f"{changed} changed"
    )


def export_study(
    study_dir: Annotated[Path, Option(help="Folder of the study.")],
    what: Annotated[
        Literal["judgements", "images"],
        Option(help="All judgements and grades, or score and grade of each image."),
    ] = "judgements",
    format: Annotated[Literal["csv", "json"], Option(help="Format of the file.")] = "csv",
    out: Annotated[Path | None, Option(help="File to write. [default: standard output]")] = None,
    collection: options.OptionalFolder = None,
    write_label: Annotated[
        str | None,
        Option(help="Also write the grade of each image to --collection, as the label of this name."),
    ] = None,
    label_source: Annotated[
        Literal["given", "predicted"],
        Option(help="Grades to write: those that people gave, or those predicted from the severity."),
    ] = "given",
) -> None:
    """Write the judgements of a study, or the results of its images, to a csv or JSON file."""
    from cbir.store import Collection
    from cbir.system.files import write_bytes
    from service.features.annotate import study_files, study_plan, study_results
    from service.features.annotate.active.judgement_journal import read_journal, valid_grades
    from service.features.annotate.study_files import journal_path

    if write_label is not None and collection is None:
        raise InvalidInput("--write-label needs --collection, the collection of the study")
    plan, entries = study_plan.read_plan(study_dir), read_journal(journal_path(study_dir))
    model, answers = study_files.latest_model(study_dir), valid_grades(entries)
    ids = dict.fromkeys((*(model.ids if model else ()), *(answer.image for answer in answers)))
    results = study_results.study_results(list(ids), plan, model, answers)
    if write_label is not None and collection is not None:
        with Collection(collection) as opened:
            images, changed = study_results.write_grades(opened, write_label, results, label_source)
        echo(f"{write_label} of {images} images; {changed} changed", err=True)
    columns: tuple[str, ...] = study_results.ANSWER_COLUMNS
    rows = study_results.answer_rows(entries, plan)
    if what == "images":
        columns, rows = study_results.RESULT_COLUMNS, study_results.result_rows(results, plan)
    if format == "csv":
        text = study_results.table_csv(columns, rows)
    else:
        text = json.dumps(study_results.study_facts(plan) | {what: rows}, indent=1, allow_nan=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    with os_errors(f"{out} cannot be written"):
        write_bytes(out, text.encode())
    echo(f"{len(rows)} rows in {out}", err=True)


def show_agreement(
    study_dir: Annotated[Path, Option(help="Folder of the study.")], format: Printed = OutputFormat.text
) -> None:
    """Report how well the annotators agree: Krippendorff's alpha of all, Cohen's kappa of each two."""
    from service.features.annotate.active import annotator_agreement, judgement_journal
    from service.features.annotate.study_files import journal_path

    entries = judgement_journal.read_journal(journal_path(study_dir))
    agreement = annotator_agreement.annotator_agreement(judgement_journal.valid_judgements(entries))
    grades = annotator_agreement.grade_agreement(judgement_journal.valid_grades(entries))
    if format is OutputFormat.json:
        print_json(asdict(agreement) | {"grades": asdict(grades)})
        return
    _print_agreement(agreement, "pairs")
    if grades.people:
        _print_agreement(grades, "images")


def _print_agreement(agreement: "AnnotatorAgreement", subjects: str) -> None:
    echo(f"{agreement.people} people; {agreement.pairs} {subjects} that two or more of them judged")
    if agreement.pairs:
        echo(
            f"Krippendorff's alpha {_decimals(agreement.alpha)} (ordinal), "
            f"{_decimals(agreement.alpha_nominal)} (nominal)"
        )
    for pair in agreement.between:
        echo(
            f"{pair.one} and {pair.other}: Cohen's kappa {_decimals(pair.kappa)} on {pair.pairs} {subjects}, "
            f"{pair.agreed} of them the same"
        )


def _decimals(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
