"""`cbir train ranker`."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbir.commands import options
from cbir.commands.output import StageBars
from cbir.commands.require_torch import require_torch
from cbir.errors import InvalidInput


def train_ranker_command(
    data: options.Manifest,
    positive: Annotated[
        list[str], Option(help="Positive images: a label, or a condition such as grade>=3. Repeatable.")
    ],
    out: options.TrainingFolder,
    where: options.Where = None,
    method: Annotated[
        str, Option(help="Loss: toprank, pos-at-top, cross-entropy, focal, rank-svm or top-push.")
    ] = "toprank",
    p: Annotated[float, Option(help="Power of toprank, 1 to inf; a higher one weighs the top more.")] = 16,
    backbone: Annotated[str, Option(help="Network: small, toprank, fcn10, resnet18, ...")] = "toprank",
    encoder: Annotated[
        str | None,
        Option(help="Pretrained encoder to start from, in place of --backbone: lite0, lite0-whole, ..."),
    ] = None,
    weights: Annotated[
        Path | None, Option(help="Initial weights: a weights file, or the folder of a trained embedding.")
    ] = None,
    side: options.Side = 64,
    epochs: Annotated[int, Option(help="Passes over the negatives.")] = 30,
    positives: Annotated[int, Option(help="Positives per batch.")] = 5,
    negatives: Annotated[int, Option(help="Negatives per batch; 450 in the paper.")] = 100,
    rate: Annotated[float, Option(help="Learning rate of the first epoch.")] = 0.02,
    decay: Annotated[float, Option(help="Learning-rate decay per epoch; 0.9 in the paper.")] = 0.95,
    augment: options.Augment = True,
    seed: options.Seed = 0,
    save_every: options.SaveEvery = 60.0,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Train a network to score positive images above all others, and evaluate it on unseen patients.

    60 % of the patients are used for training, 20 for validation, 20 for testing. Run an interrupted command again to
    continue it. `cbir rank` scores images with the result.
    """
    require_torch(device, threads)
    from cbir.training.fine_tuning import check_trainable
    from cbir.training.ranker_folder import RankerTask, train_ranker_folder
    from cbir.training.ranker_training import RankerRecipe

    recipe = RankerRecipe(method, p, epochs, positives, negatives, rate, decay, augment, seed)
    if encoder:
        check_trainable(encoder)
        if weights or backbone != "toprank":
            raise InvalidInput(
                "--encoder has a network and weights of its own; leave out --weights and --backbone"
            )
    task = RankerTask(
        data,
        tuple(positive),
        tuple(where or ()),
        encoder or backbone,
        side,
        weights,
        pretrained=bool(encoder),
    )
    with StageBars() as bars:
        report = train_ranker_folder(task, recipe, out, device, save_every, bars.show)
    for line in report["notes"]:
        typer.echo(f"cbir: {line}", err=True)
    for name, scores in report["parts"].items():
        typer.echo(
            f"{name}: {scores['images']} images, {scores['positives']} positive, "
            f"Pos@Top {scores['pos_at_top']:.3f}, AUC {scores['auc']:.3f}"
        )
