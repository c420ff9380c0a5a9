"""`cbir train ranker`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.require_torch import require_torch
from cbir.search import command_options as options
from cbir.system.console import StageBars, echo
from cbir.system.device_failure import device_failures


def train_ranker_command(
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
            help="Loss: toprank, pos-at-top, cross-entropy, focal, rank-svm, top-push, sodeep-map, sodeep-recall, "
            "sodeep-spearman, ranknet or s-ndcg.",
        ),
    ] = "toprank",
    p: Annotated[
        float | None,
        Option(
            help="Power of toprank, 1 to inf; a higher one weighs the top more. By default each of 2, 4, ..., 64 is "
            "trained, and the best in validation kept."
        ),
    ] = None,
    sorter: options.Sorter = None,
    tune_sorter: options.TuneSorter = False,
    form: options.Form = None,
    margin: options.Margin = None,
    temperature: options.Temperature = None,
    alpha: options.Alpha = None,
    gamma: options.Gamma = None,
    parallel: options.Parallel = None,
    parallel_epochs: options.ParallelEpochs = 1,
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
    negatives: Annotated[int, Option(help="Negatives per batch; all if there are fewer.")] = 450,
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
    from cbir.learn.training.fine_tuning import check_trainable
    from cbir.learn.training.loss_options import LossOptions
    from cbir.learn.training.ranker_folder import RankerTask, train_ranker_folder
    from cbir.learn.training.ranker_training import RankerRecipe

    loss_options = LossOptions(
        sorter, tune_sorter, form, margin, p, temperature, alpha, gamma, parallel, parallel_epochs
    )
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
