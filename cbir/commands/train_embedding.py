"""`cbir train embedding`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.deep import needs_torch
from cbir.commands.train_ranker import StageBar


def embedding(
    data: Annotated[Path, typer.Option(help="The manifest: a csv with a column path, and labels.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the model, its report and checkpoint; training there goes on.")
    ],
    column: Annotated[
        str, typer.Option(help="Of the manifest: images of the same value belong together.")
    ] = "label",
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows for which this holds, as modality=CT. Repeatable."),
    ] = None,
    loss: Annotated[
        str,
        typer.Option(
            help="multi-similarity, sodeep-map, sodeep-spearman, sodeep-recall, triplet, contrastive, smooth-ap, "
            "cross-entropy, focal, ordinal (for grades), ranknet, ..."
        ),
    ] = "multi-similarity",
    backbone: Annotated[
        str,
        typer.Option(help="small, toprank, fcn10, resnet18, resnet34, resnet50, densenet169 or mobilenetv3."),
    ] = "small",
    weights: Annotated[
        str | None,
        typer.Option(help="To start from: a file of weights, an embedding's folder, or imagenet."),
    ] = None,
    pooling: Annotated[str, typer.Option(help="gem or average.")] = "gem",
    dimensions: Annotated[int, typer.Option(min=2, max=4096, help="Of a vector.")] = 128,
    side: Annotated[int, typer.Option(min=32, max=1024, help="Pixels that images are scaled to.")] = 64,
    epochs: Annotated[int, typer.Option(help="Times through the images, at most.")] = 40,
    patience: Annotated[
        int, typer.Option(help="Epochs without a better validation mAP before it ends.")
    ] = 15,
    classes: Annotated[int, typer.Option(min=2, help="In a batch.")] = 16,
    images: Annotated[int, typer.Option(min=2, help="Of each class in a batch.")] = 8,
    rate: Annotated[float, typer.Option(help="Of AdamW, the highest; it falls along a cosine.")] = 2e-3,
    weight_decay: Annotated[float, typer.Option(help="Of AdamW.")] = 1e-4,
    augment: Annotated[bool, typer.Option(help="Turn, move and brighten images a little.")] = True,
    mirror: Annotated[
        bool,
        typer.Option(
            help="Mirror every second image too; left becomes right, so only where both look alike."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the split and of the training.")] = 0,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
) -> None:
    """Train a network whose vectors bring images of a class together; its folder is then a profile to index with.

    60 % of the patients are for training, 20 for validation, 20 for the test. The same command goes on where it was
    stopped. `cbir index IMAGES --profile OUT --collection DIR` indexes with the result.
    """
    needs_torch(device, threads)
    from cbir.training.embedding import Recipe
    from cbir.training.embedding_folder import Task, run

    recipe = Recipe(loss, epochs, classes, images, rate, weight_decay, patience, augment, seed, mirror)
    task = Task(data, column, tuple(where or ()), backbone, pooling, dimensions, side, weights)
    with StageBar() as bar:
        told = run(task, recipe, out, device, save_every, bar.show)
    for line in told["notes"]:
        typer.echo(f"cbir: {line}", err=True)
    for name, of in told["results"].items():
        typer.echo(f"{name}: mAP {of['map']:.3f}, P@1 {of['p_at_1']:.3f}, P@10 {of['p_at_10']:.3f}")
    typer.echo(f"{out} is a profile now: cbir index IMAGES --profile {out} --collection DIR")
