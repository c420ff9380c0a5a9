"""`cbir annotate simulate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir.commands.deep import needs_torch
from cbir.commands.grade.options import Column, Folder, Format, Printed, Where
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.filter_conditions import parse_filter

if TYPE_CHECKING:
    from cbir.active.simulation import SimulationResult


def simulate(
    collection: Folder,
    grade_column: Column = "grade",
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="variance, random, core-set, disagreement, balanced; several are compared."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=0, max=100, help="After the first.")] = 6,
    start: Annotated[float, typer.Option(help="Share of the images that the first pairs are of.")] = 0.2,
    step: Annotated[float, typer.Option(help="Share of the images that each round chooses.")] = 0.05,
    error_rate: Annotated[float, typer.Option(help="How often an answer is wrong, 0 to 1.")] = 0.0,
    calibrate: Annotated[bool, typer.Option(help="Also learn the grades of the images in pairs.")] = False,
    held_out: Annotated[float, typer.Option(help="Share of the patients to test on.")] = 0.2,
    where: Where = None,
    backbone: Annotated[str, typer.Option(help="The network: small, densenet169, resnet18, ...")] = "small",
    weights: Annotated[
        str | None,
        typer.Option(
            help="What the network starts from: the folder of a trained embedding, or a file of weights."
        ),
    ] = None,
    side: Annotated[int, typer.Option(min=32, max=1024, help="Pixels that images are scaled to.")] = 64,
    passes: Annotated[int, typer.Option(min=2, max=1000, help="Stochastic passes for one severity.")] = 30,
    epochs: Annotated[
        int, typer.Option(min=1, help="Times through the pairs, more with few: see --steps.")
    ] = 20,
    steps: Annotated[
        int, typer.Option(min=0, help="Batches to learn from at least, with few pairs too.")
    ] = 1000,
    rate: Annotated[float, typer.Option(help="Of Adam, at its highest.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed asks and learns the same.")] = 0,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    report: Annotated[Path | None, typer.Option(help="Folder for curves and numbers.")] = None,
    write: Annotated[
        bool,
        typer.Option(
            help="Label all images of the collection with the severity learnt by the last strategy."
        ),
    ] = False,
    format: Printed = Format.text,
) -> None:
    """Learn severity in rounds of asking, with answers from known grades in the place of a person."""
    needs_torch(device, threads)
    from cbir.active.collection_simulation import load_graded_images, publish_ranker
    from cbir.active.simulation import SimulationPlan
    from cbir.active.simulation import simulate as run
    from cbir.active.simulation_report import strict_json
    from cbir.active.simulation_report import write_simulation_report as write_report
    from cbir.commands.train_ranker import StageBar
    from cbir.severity.bayesian_ranker import BayesianRanker

    names = list(dict.fromkeys(strategy or ["variance"]))
    plans = {name: SimulationPlan(name, rounds, start, step, error_rate, calibrate, seed) for name in names}
    if report is not None and report.exists() and not report.is_dir():
        raise InvalidInput(f"{report} is a file; the report needs a folder")

    def make(_: int) -> BayesianRanker:
        return BayesianRanker(backbone, side, passes=passes, epochs=epochs, steps=steps, rate=rate, weights=weights,
                              seed=seed, device=device)  # fmt: skip

    make(0)
    conditions = [parse_filter(text) for text in where or ()]
    found: dict[str, SimulationResult] = {}
    with Collection(collection) as opened, StageBar() as bar:

        def show(stage: str, done: int, total: int) -> None:
            bar.show(stage, done, total, "")

        data = load_graded_images(opened, grade_column, side, held_out, conditions, seed, show)
        for name, plan in plans.items():
            shown = name

            def told(done: int, total: int, shown: str = shown) -> None:
                bar.show(shown, done, total, "rounds")

            found[name] = run(data.pictures, data.grades, data.train, data.test, plan, make, show=told)
        if report is not None:
            write_report(found, report)
        labelled = publish_ranker(opened, found[names[-1]].ranker, show) if write else 0
    if data.missing:
        typer.echo(f"cbir: {data.missing} graded images were left out: they have no picture", err=True)
    if format is Format.json:
        values = {name: one.told() for name, one in found.items()}
        typer.echo(json.dumps(strict_json(values if len(values) > 1 else values[names[0]])))
        return
    _print(found)
    if labelled:
        typer.echo(f"{labelled} images have the label severity now")


def _print(found: "dict[str, SimulationResult]") -> None:
    for name, one in found.items():
        for round_ in one.rounds:
            typer.echo(
                f"{name}, round {round_.number}: {round_.pairs} pairs of {round_.images} images, "
                f"overall {round_.relative['overall']:.3f}, neighbouring {round_.relative['neighbouring']:.3f}, "
                f"{round_.seconds:,.0f} s of a person"
                + (f", F1 {round_.classified['f1']:.3f}" if round_.classified else "")
            )
