"""`cbir train ...`: train models; needs the extra `deep`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.option_groups import LossChoices, with_choices
from cbir.search import command_options as options
from cbir.system.console import StageBars, StageLines, echo
from cbir.system.device import resolve_device
from cbir.system.device_failure import device_failures
from cbir.system.lazy_commands import command_group
from cbir.system.remedies import install_command


def require_torch(device: str, threads: int) -> None:
    """Raise InvalidInput if torch or the `device` is missing; set the CPU `threads` unless 0."""
    try:
        with StageLines() as lines:
            lines.show("loading torch", 0, None)
            import torch
    except ModuleNotFoundError as error:
        raise InvalidInput(f"networks need torch: {install_command('deep')}") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(f"there is no device {device!r}; use --device cpu") from error
    if device.startswith("cuda"):
        resolve_device("cuda")  # tried, not only named
    if threads:
        torch.set_num_threads(threads)


@with_choices(LossChoices)
def train_embedding_command(
    *,
    data: options.Manifest,
    out: options.TrainingFolder,
    column: Annotated[str, Option(help="Column whose equal values mark similar images.")] = "label",
    where: options.Where = None,
    loss: Annotated[
        str,
        Option(
            help="Loss: multi-similarity, sodeep-map, sodeep-spearman, sodeep-recall, triplet, contrastive, "
            "smooth-ap, supcon, roadmap, recall-at-k, cross-entropy, focal, ordinal, corn or rank-n-contrast (for "
            "grades), ranknet, ..."
        ),
    ] = "multi-similarity",
    choices: LossChoices,
    p: Annotated[float | None, Option(help="Power of toprank, 1 to inf.", hidden=True)] = None,
    backbone: Annotated[
        str,
        Option(
            help="Network: small, toprank, fcn10, resnet18, resnet50, densenet169, mobilenetv3, lite0, ..."
        ),
    ] = "small",
    weights: Annotated[
        str | None, Option(help="Initial weights: a file, the folder of a trained embedding, or imagenet.")
    ] = None,
    encoder: Annotated[
        str | None,
        Option(
            help="Pretrained encoder in place of --backbone, for instance lite0-whole: its values are computed once, "
            "and a head is trained on them. See `cbir encoder list`."
        ),
    ] = None,
    kept: Annotated[
        float,
        Option(
            help="With --encoder: share of a vector that training leaves as it was, from 0 to below 1; "
            "more of it suits classes that were not trained on.",
            hidden=True,
        ),
    ] = 0.7,
    fine_tune: Annotated[
        int,
        Option(
            min=0,
            help="With --encoder: last blocks of its network to train after the head; Lite0 has 16.",
            hidden=True,
        ),
    ] = 0,
    fine_tune_epochs: Annotated[
        int, Option(min=1, help="Passes over the images for --fine-tune.", hidden=True)
    ] = 3,
    fine_tune_rate: Annotated[
        float, Option(help="Peak learning rate of the head for --fine-tune; blocks: a fifth.", hidden=True)
    ] = 5e-4,
    pooling: Annotated[str, Option(help="Pooling: gem or average.", hidden=True)] = "gem",
    dimensions: Annotated[int, Option(min=2, max=4096, help="Embedding dimension.", hidden=True)] = 128,
    side: options.Side = 64,
    epochs: Annotated[
        int | None,
        Option(min=1, help="Largest number of passes over the images; default 40, with --encoder 5."),
    ] = None,
    patience: Annotated[
        int, Option(help="Epochs without a better validation mAP before the end.", hidden=True)
    ] = 15,
    classes: Annotated[int, Option(min=2, help="Classes per batch.", hidden=True)] = 16,
    images: Annotated[int, Option(min=2, help="Images per class in a batch.", hidden=True)] = 8,
    rate: Annotated[
        float | None,
        Option(
            help="Peak learning rate of AdamW, which falls along a cosine; default 0.002, with --encoder 0.001.",
            hidden=True,
        ),
    ] = None,
    weight_decay: Annotated[float, Option(help="Weight decay of AdamW.", hidden=True)] = 1e-4,
    augment: options.Augment = True,
    mirror: Annotated[
        bool, Option(help="Mirror images too; only if left and right look alike.", hidden=True)
    ] = False,
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
    from cbir.learn.training.embedding_folder import EmbeddingTask, train_embedding_folder
    from cbir.learn.training.embedding_training import EmbeddingRecipe
    from cbir.learn.training.fine_tuning import FineTuning
    from cbir.learn.training.loss_options import LossOptions

    if fine_tune and encoder is None:
        raise InvalidInput("--fine-tune is for a pretrained --encoder, such as lite0-whole")
    if encoder:
        ignored = {
            "--backbone": backbone != "small", "--weights": weights, "--pooling": pooling != "gem",
            "--side": side != 64, "--mirror": mirror and not fine_tune,
        }  # fmt: skip
        if refused := [name for name, value in ignored.items() if value]:
            raise InvalidInput(f"--encoder decides about {refused[0]} itself; leave out one of them")
    epochs = epochs or (5 if encoder else 40)
    if rate is None:
        rate = 1e-3 if encoder else 2e-3
    tuning = FineTuning(fine_tune, fine_tune_epochs, fine_tune_rate) if fine_tune else None
    loss_options = LossOptions(**vars(choices), p=p)
    recipe = EmbeddingRecipe(
        loss,
        epochs,
        classes,
        images,
        rate,
        weight_decay,
        patience,
        augment,
        seed,
        mirror,
        options=loss_options,
    )
    task = EmbeddingTask(
        data, column, tuple(where or ()), backbone, pooling, dimensions, side, weights, encoder, kept, tuning
    )
    with StageBars() as bars, device_failures("networks", device):
        report = train_embedding_folder(task, recipe, out, device, save_every, bars.show)
    for line in report["notes"]:
        echo(f"cbir: {line}", err=True)
    for name, scores in report["results"].items():
        echo(f"{name}: mAP {scores['map']:.3f}, P@1 {scores['p_at_1']:.3f}, P@10 {scores['p_at_10']:.3f}")
    echo(f"{out} can be used as a profile: cbir index IMAGES --profile {out} --collection DIR")


@with_choices(LossChoices)
def train_ranker_command(
    *,
    data: options.Manifest,
    positive: Annotated[
        list[str], Option(help="Positive images: a label, or a condition such as grade>=3. Repeatable.")
    ],
    out: options.TrainingFolder,
    where: options.Where = None,
    method: Annotated[
        str,
        Option(
            "--method",
            "--loss",
            help="Loss: toprank, pos-at-top, partial-auc, cross-entropy, focal, rank-svm, top-push, sodeep-map, "
            "sodeep-recall, sodeep-spearman, ranknet, s-ndcg, roadmap or recall-at-k.",
        ),
    ] = "toprank",
    p: Annotated[
        float | None,
        Option(
            help="Power of toprank, 1 to inf; a higher one weighs the top more. By default each of 2, 4, ..., 64 is "
            "trained, and the best in validation kept.",
            hidden=True,
        ),
    ] = None,
    choices: LossChoices,
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
    positives: Annotated[int, Option(help="Positives per batch.", hidden=True)] = 5,
    negatives: Annotated[int, Option(help="Negatives per batch; all if there are fewer.", hidden=True)] = 450,
    rate: Annotated[float, Option(help="Learning rate of the first epoch.", hidden=True)] = 0.02,
    decay: Annotated[
        float, Option(help="Learning-rate decay per epoch; 0.9 in the paper.", hidden=True)
    ] = 0.95,
    augment: options.Augment = True,
    seed: options.Seed = 0,
    save_every: options.SaveEvery = 60.0,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Train a network to score positive images above all others, and evaluate it on unseen patients.

    60 % of the patients are used for training, 20 for validation, 20 for testing. Run an interrupted command again to
    continue it. `cbir train rank` scores images with the result.
    """
    require_torch(device, threads)
    from cbir.learn.training.fine_tuning import check_trainable
    from cbir.learn.training.loss_options import LossOptions
    from cbir.learn.training.ranker_folder import RankerTask, train_ranker_folder
    from cbir.learn.training.ranker_training import RankerRecipe

    loss_options = LossOptions(**vars(choices), p=p)
    recipe = RankerRecipe(method, epochs, positives, negatives, rate, decay, augment, seed, loss_options)
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
    with StageBars() as bars, device_failures("networks", device):
        report = train_ranker_folder(task, recipe, out, device, save_every, bars.show)
    for line in report["notes"]:
        echo(f"cbir: {line}", err=True)
    if "powers" in report:
        echo(f"p by validation: {report['p']:g}")
    for name, scores in report["parts"].items():
        echo(
            f"{name}: {scores['images']} images, {scores['positives']} positive, "
            f"Pos@Top {scores['pos_at_top']:.3f}, AUC {scores['auc']:.3f}"
        )


app = command_group(
    "cbir.commands.train", "Train models, and score images with a ranker; needs the extra `deep`."
)

app.command("embedding")(train_embedding_command)

app.command("ranker")(train_ranker_command)


@app.command()
def sorter(
    out: Annotated[
        Path, Option(help="Folder for weights and checkpoints; an interrupted training continues there.")
    ],
    kind: Annotated[Literal["lstm", "cnn"], Option(help="Network to train.")] = "lstm",
    length: Annotated[int, Option(help="Largest number of scores to sort.")] = 100,
    hidden: Annotated[int | None, Option(help="Units of the LSTM in each direction, default 192.")] = None,
    layers: Annotated[int | None, Option(help="Layers of the LSTM, default 1.")] = None,
    channels: Annotated[
        int | None, Option(help="Channels of the convolutional sorter, default 64.", hidden=True)
    ] = None,
    blocks: Annotated[
        int | None,
        Option(help="Blocks of the convolutional sorter, default 8, as in the paper.", hidden=True),
    ] = None,
    start: Annotated[
        Literal["counting", "random"],
        Option(help="Initial weights; random in the paper."),
    ] = "counting",
    epochs: Annotated[float, Option(help="Epochs of 100,000 vectors.")] = 8.0,
    batch: Annotated[int, Option(help="Vectors per batch.")] = 128,
    rate: Annotated[float, Option(help="Initial learning rate of Adam.")] = 1e-4,
    halve_every: Annotated[
        float, Option(help="Epochs after which the learning rate is halved.", hidden=True)
    ] = 1.0,
    slope: Annotated[
        float,
        Option(help="Weight of an error in slopes beside the L1 loss of ranks; 0 in the paper.", hidden=True),
    ] = 0.05,
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same sorter.")] = 0,
    save_every: options.SaveEvery = 60.0,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Train a sorter on synthetic scores: rank 1 for the largest. Run an interrupted command again to continue it.

    The paper's schedule: --start random --slope 0 --epochs 400 --batch 512 --rate 1e-3 --halve-every 100.
    """
    require_torch(device, threads)
    import torch

    from cbir.learn.models.sorters import CnnSorter, LstmSorter
    from cbir.learn.training.sorter_training import SorterRecipe, train_sorter

    sizes = {"lstm": {"hidden": hidden, "layers": layers}, "cnn": {"channels": channels, "blocks": blocks}}
    for other, of_other in sizes.items():
        refused = [f"--{name}" for name, size in of_other.items() if other != kind and size is not None]
        if refused:
            raise InvalidInput(f"{', '.join(refused)}: for --kind {other}, not {kind}")
    recipe = SorterRecipe(start, epochs, batch, rate, halve_every, seed, slope)
    torch.manual_seed(seed)
    network_sizes = {name: size for name, size in sizes[kind].items() if size is not None}
    if kind == "lstm":
        network: LstmSorter | CnnSorter = LstmSorter(length=length, **network_sizes)
    else:
        network = CnnSorter(length=length, **network_sizes)

    with StageBars() as bars, device_failures("networks", device):

        def show(step: int, error: float) -> None:
            bars.show("training", step, recipe.steps, f"error {error:.5f}")

        weights = train_sorter(network, recipe, out, device, save_every, show)
    typer.echo(weights.with_suffix(".json").read_text(encoding="utf-8").rstrip())
