"""`cbir train ranker`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.deep import needs_torch


def ranker(
    data: Annotated[Path, typer.Option(help="The manifest: a csv with a column path, and labels.")],
    positive: Annotated[
        list[str], typer.Option(help="What to put first: a label, or a condition as grade>=3. Repeatable.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for ranker, report and checkpoint; training there goes on.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows for which this holds, as source=knee. Repeatable."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="toprank, pos-at-top, cross-entropy, focal, rank-svm or top-push.")
    ] = "toprank",
    p: Annotated[float, typer.Option(help="Of toprank, 1 to inf: the higher, the more the top counts.")] = 16,
    backbone: Annotated[
        str, typer.Option(help="The network below the last layer: small, toprank, fcn10, resnet18, ...")
    ] = "toprank",
    weights: Annotated[
        Path | None, typer.Option(help="A file of weights, or the folder of an embedding, to start from.")
    ] = None,
    side: Annotated[int, typer.Option(min=32, max=1024, help="Pixels that images are scaled to.")] = 64,
    epochs: Annotated[int, typer.Option(help="Times through the negatives.")] = 30,
    positives: Annotated[int, typer.Option(help="In a batch.")] = 5,
    negatives: Annotated[int, typer.Option(help="In a batch; 450 in the paper.")] = 100,
    rate: Annotated[float, typer.Option(help="Of gradient descent, in the first epoch.")] = 0.02,
    decay: Annotated[float, typer.Option(help="Of the rate, after each epoch; 0.9 in the paper.")] = 0.95,
    augment: Annotated[bool, typer.Option(help="Turn, move and brighten images a little.")] = True,
    seed: Annotated[int, typer.Option(help="Of the split and of the training.")] = 0,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
) -> None:
    """Train a network to score positive images above all others, and report how well it does on unseen patients.

    60 % of the patients are for training, 20 for validation, 20 for the test. The same command goes on where it was
    stopped. `cbir rank` scores images with the result.
    """
    needs_torch(device, threads)
    from cbir.training.ranker import Recipe
    from cbir.training.ranker_folder import Task, run

    recipe = Recipe(method, p, epochs, positives, negatives, rate, decay, augment, seed)
    task = Task(data, tuple(positive), tuple(where or ()), backbone, side, weights)
    with StageBar() as progress:
        report = run(task, recipe, out, device, save_every, progress.show)
    for line in report["notes"]:
        typer.echo(f"cbir: {line}", err=True)
    for name, of in report["parts"].items():
        typer.echo(
            f"{name}: {of['images']} images, {of['positives']} positive, "
            f"Pos@Top {of['pos_at_top']:.3f}, AUC {of['auc']:.3f}"
        )


class StageBar:
    """A bar on standard error, for one stage after the other."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("", total=None, told="")

    def __enter__(self) -> "StageBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, stage: str, done: int, total: int, told: str) -> None:
        """So much of a stage is done."""
        self._bar.update(self._task, description=stage, completed=done, total=total, told=told)
