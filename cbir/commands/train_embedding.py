"""`cbir train embedding`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.output import StageBars
from cbir.commands.require_torch import require_torch


def train_embedding_command(
    data: Annotated[Path, typer.Option(help="Manifest: a CSV file with a column `path` and labels.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for model, report and checkpoint; an interrupted training continues there."
        ),
    ],
    column: Annotated[
        str, typer.Option(help="Column of the manifest; images with the same value are similar.")
    ] = "label",
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows that match, for example modality=CT. Repeatable."),
    ] = None,
    loss: Annotated[
        str,
        typer.Option(
            help="Loss: multi-similarity, sodeep-map, sodeep-spearman, sodeep-recall, triplet, contrastive, "
            "smooth-ap, cross-entropy, focal, ordinal (for grades), ranknet, ..."
        ),
    ] = "multi-similarity",
    backbone: Annotated[
        str,
        typer.Option(
            help="Network: small, toprank, fcn10, resnet18, resnet34, resnet50, densenet169 or mobilenetv3."
        ),
    ] = "small",
    weights: Annotated[
        str | None,
        typer.Option(help="Initial weights: a file, the folder of a trained embedding, or imagenet."),
    ] = None,
    pooling: Annotated[str, typer.Option(help="Pooling: gem or average.")] = "gem",
    dimensions: Annotated[int, typer.Option(min=2, max=4096, help="Embedding dimension.")] = 128,
    side: Annotated[
        int, typer.Option(min=32, max=1024, help="Side in pixels that images are scaled to.")
    ] = 64,
    epochs: Annotated[int, typer.Option(help="Largest number of passes over the images.")] = 40,
    patience: Annotated[
        int, typer.Option(help="Epochs without a better validation mAP before training ends.")
    ] = 15,
    classes: Annotated[int, typer.Option(min=2, help="Classes per batch.")] = 16,
    images: Annotated[int, typer.Option(min=2, help="Images per class in a batch.")] = 8,
    rate: Annotated[float, typer.Option(help="Peak learning rate of AdamW; it falls along a cosine.")] = 2e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW.")] = 1e-4,
    augment: Annotated[
        bool, typer.Option(help="Rotate, shift and brighten training images slightly.")
    ] = True,
    mirror: Annotated[
        bool,
        typer.Option(help="Mirror every second image too; only if left and right look alike."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the split and of training.")] = 0,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
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
