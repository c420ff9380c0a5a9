"""`cbir annotate simulate`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.grade_options import Column
from cbir.learn.commands.train_models import require_torch
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json
from cbir.system.device_failure import device_failures

if TYPE_CHECKING:
    from service.features.annotate.active.simulation import SimulationResult


def simulate_annotation(
    collection: options.Folder,
    grade_column: Column = "grade",
    strategy: Annotated[
        list[str] | None,
        Option(
            help="new-images, stratified, variance, random, core-set, core-set-encoder, disagreement or balanced; "
            "repeatable. [new-images]"
        ),
    ] = None,
    rounds: Annotated[int, Option(min=0, max=100, help="Rounds after the first.")] = 6,
    start: Annotated[float, Option(help="Fraction of the images in the initial pairs.")] = 0.2,
    step: Annotated[float, Option(help="Fraction of the images that each round selects.")] = 0.05,
    error_rate: Annotated[float, Option(help="Fraction of wrong answers, 0 to 1.")] = 0.0,
    calibrate: Annotated[bool, Option(help="Also learn from the grades of the images in pairs.")] = False,
    held_out: Annotated[float, Option(help="Fraction of the patients to test on.")] = 0.2,
    where: options.Where = None,
    encoder: Annotated[
        str | None,
        Option(
            help="Encoder whose values are learned from; none: a network on pictures, see --backbone. "
            "[the collection's encoder, or lite0-whole]"
        ),
    ] = None,
    backbone: Annotated[
        str | None, Option(help="Network on pictures: small, densenet169, resnet18, ... [small]")
    ] = None,
    weights: Annotated[
        str | None,
        Option(help="Initial weights of --backbone: a weights file, or the folder of a trained embedding."),
    ] = None,
    side: Annotated[
        int | None, Option(min=32, max=1024, help="Side of the pictures of --backbone in pixels. [64]")
    ] = None,
    passes: Annotated[int, Option(min=2, max=1000, help="Stochastic passes per severity.")] = 30,
    epochs: Annotated[
        int | None,
        Option(min=1, help="Passes over the pairs; if few, see --steps. [10; 20 for --backbone]"),
    ] = None,
    steps: Annotated[
        int | None, Option(min=0, help="Smallest number of training batches. [300; 1000 for --backbone]")
    ] = None,
    rate: Annotated[
        float | None, Option(help="Peak learning rate of Adam. [0.003; 0.001 for --backbone]")
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
    from service.features.annotate.active.collection_simulation import load_graded_images, publish_ranker
    from service.features.annotate.active.simulation import SimulationPlan
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
