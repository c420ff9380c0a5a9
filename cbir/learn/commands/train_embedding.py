"""`cbir train embedding`."""

from typing import Annotated

from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.require_torch import require_torch
from cbir.search import command_options as options
from cbir.system.console import StageBars, echo
from cbir.system.device_failure import device_failures


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
    sorter: options.Sorter = None,
    tune_sorter: options.TuneSorter = False,
    form: options.Form = None,
    margin: options.Margin = None,
    p: Annotated[float | None, Option(help="Power of toprank, 1 to inf.")] = None,
    temperature: options.Temperature = None,
    alpha: options.Alpha = None,
    gamma: options.Gamma = None,
    parallel: options.Parallel = None,
    parallel_epochs: options.ParallelEpochs = 1,
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
            "more of it suits classes that were not trained on."
        ),
    ] = 0.7,
    fine_tune: Annotated[
        int,
        Option(
            min=0, help="With --encoder: last blocks of its network to train after the head; Lite0 has 16."
        ),
    ] = 0,
    fine_tune_epochs: Annotated[int, Option(min=1, help="Passes over the images for --fine-tune.")] = 3,
    fine_tune_rate: Annotated[
        float, Option(help="Peak learning rate of the head for --fine-tune; blocks: a fifth.")
    ] = 5e-4,
    pooling: Annotated[str, Option(help="Pooling: gem or average.")] = "gem",
    dimensions: Annotated[int, Option(min=2, max=4096, help="Embedding dimension.")] = 128,
    side: options.Side = 64,
    epochs: Annotated[
        int | None,
        Option(min=1, help="Largest number of passes over the images; default 40, with --encoder 5."),
    ] = None,
    patience: Annotated[int, Option(help="Epochs without a better validation mAP before the end.")] = 15,
    classes: Annotated[int, Option(min=2, help="Classes per batch.")] = 16,
    images: Annotated[int, Option(min=2, help="Images per class in a batch.")] = 8,
    rate: Annotated[
        float | None,
        Option(
            help="Peak learning rate of AdamW, which falls along a cosine; default 0.002, with --encoder 0.001."
        ),
    ] = None,
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
        if given := [name for name, value in ignored.items() if value]:
            raise InvalidInput(f"--encoder decides about {given[0]} itself; leave out one of them")
    epochs = epochs or (5 if encoder else 40)
    if rate is None:
        rate = 1e-3 if encoder else 2e-3
    tuning = FineTuning(fine_tune, fine_tune_epochs, fine_tune_rate) if fine_tune else None
    loss_options = LossOptions(
        sorter, tune_sorter, form, margin, p, temperature, alpha, gamma, parallel, parallel_epochs
    )
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
