"""`cbir train ranker`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.output import StageBars
from cbir.commands.require_torch import require_torch


def train_ranker_command(
    data: Annotated[Path, typer.Option(help="Manifest: a CSV file with a column `path` and labels.")],
    positive: Annotated[
        list[str], typer.Option(help="Positive images: a label, or a condition such as grade>=3. Repeatable.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for ranker, report and checkpoint; an interrupted training continues there."
        ),
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows that match, for example source=knee. Repeatable."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Loss: toprank, pos-at-top, cross-entropy, focal, rank-svm or top-push.")
    ] = "toprank",
    p: Annotated[
        float, typer.Option(help="Power of toprank, 1 to inf; a higher one weighs the top more.")
    ] = 16,
    backbone: Annotated[
        str, typer.Option(help="Network below the last layer: small, toprank, fcn10, resnet18, ...")
    ] = "toprank",
    weights: Annotated[
        Path | None,
        typer.Option(help="Initial weights: a weights file, or the folder of a trained embedding."),
    ] = None,
    side: Annotated[
        int, typer.Option(min=32, max=1024, help="Side in pixels that images are scaled to.")
    ] = 64,
    epochs: Annotated[int, typer.Option(help="Passes over the negatives.")] = 30,
    positives: Annotated[int, typer.Option(help="Positives per batch.")] = 5,
    negatives: Annotated[int, typer.Option(help="Negatives per batch; 450 in the paper.")] = 100,
    rate: Annotated[float, typer.Option(help="Learning rate of the first epoch.")] = 0.02,
    decay: Annotated[float, typer.Option(help="Learning-rate decay per epoch; 0.9 in the paper.")] = 0.95,
    augment: Annotated[
        bool, typer.Option(help="Rotate, shift and brighten training images slightly.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Random seed of the split and of training.")] = 0,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Train a network to score positive images above all others, and evaluate it on unseen patients.

    60 % of the patients are used for training, 20 for validation, 20 for testing. Run an interrupted command again to
    continue it. `cbir rank` scores images with the result.
    """
    require_torch(device, threads)
    from cbir.training.ranker_folder import RankerTask, train_ranker_folder
    from cbir.training.ranker_training import RankerRecipe

    recipe = RankerRecipe(method, p, epochs, positives, negatives, rate, decay, augment, seed)
    task = RankerTask(data, tuple(positive), tuple(where or ()), backbone, side, weights)
    with StageBars() as bars:
        report = train_ranker_folder(task, recipe, out, device, save_every, bars.show)
    for line in report["notes"]:
        typer.echo(f"cbir: {line}", err=True)
    for name, scores in report["parts"].items():
        typer.echo(
            f"{name}: {scores['images']} images, {scores['positives']} positive, "
            f"Pos@Top {scores['pos_at_top']:.3f}, AUC {scores['auc']:.3f}"
        )
