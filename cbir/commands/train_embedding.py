"""`cbir train embedding`."""

from typing import Annotated

import typer
from typer import Option

from cbir.commands import options
from cbir.commands.output import StageBars
from cbir.commands.require_torch import require_torch


def train_embedding_command(
    data: options.Manifest,
    out: options.TrainingFolder,
    column: Annotated[str, Option(help="Column whose equal values mark similar images.")] = "label",
    where: options.Where = None,
    loss: Annotated[
        str,
        Option(
            help="Loss: multi-similarity, sodeep-map, sodeep-spearman, sodeep-recall, triplet, contrastive, "
            "smooth-ap, cross-entropy, focal, ordinal (for grades), ranknet, ..."
        ),
    ] = "multi-similarity",
    backbone: Annotated[
        str,
        Option(
            help="Network: small, toprank, fcn10, resnet18, resnet34, resnet50, densenet169 or mobilenetv3."
        ),
    ] = "small",
    weights: Annotated[
        str | None, Option(help="Initial weights: a file, the folder of a trained embedding, or imagenet.")
    ] = None,
    pooling: Annotated[str, Option(help="Pooling: gem or average.")] = "gem",
    dimensions: Annotated[int, Option(min=2, max=4096, help="Embedding dimension.")] = 128,
    side: options.Side = 64,
    epochs: Annotated[int, Option(help="Largest number of passes over the images.")] = 40,
    patience: Annotated[int, Option(help="Epochs without a better validation mAP before the end.")] = 15,
    classes: Annotated[int, Option(min=2, help="Classes per batch.")] = 16,
    images: Annotated[int, Option(min=2, help="Images per class in a batch.")] = 8,
    rate: Annotated[float, Option(help="Peak learning rate of AdamW; it falls along a cosine.")] = 2e-3,
    weight_decay: Annotated[float, Option(help="Weight decay of AdamW.")] = 1e-4,
    augment: options.Augment = True,
    mirror: Annotated[bool, Option(help="Mirror images too; only if left and right look alike.")] = False,
    seed: options.Seed = 0,
    save_every: options.SaveEvery = 60.0,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Train a network whose vectors are close for images of one class; its folder is then a profile to index with.

    60 % of the patients are used for training, 20 for validation, 20 for testing. Run an interrupted command again to
    continue it. `cbir index IMAGES --profile OUT --collection DIR` indexes with the result.
    """
    require_torch(device, threads)
    from cbir.training.embedding_folder import EmbeddingTask, train_embedding_folder
    from cbir.training.embedding_training import EmbeddingRecipe

    recipe = EmbeddingRecipe(
        loss, epochs, classes, images, rate, weight_decay, patience, augment, seed, mirror
    )
    task = EmbeddingTask(data, column, tuple(where or ()), backbone, pooling, dimensions, side, weights)
    with StageBars() as bars:
        report = train_embedding_folder(task, recipe, out, device, save_every, bars.show)
    for line in report["notes"]:
        typer.echo(f"cbir: {line}", err=True)
    for name, scores in report["results"].items():
        typer.echo(
            f"{name}: mAP {scores['map']:.3f}, P@1 {scores['p_at_1']:.3f}, P@10 {scores['p_at_10']:.3f}"
        )
    typer.echo(f"{out} can be used as a profile: cbir index IMAGES --profile {out} --collection DIR")
