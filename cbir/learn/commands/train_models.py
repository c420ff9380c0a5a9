"""`cbir train ...`: train models; needs the extra `deep`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Option

from cbir.errors import InvalidInput
from cbir.learn.commands.require_torch import require_torch
from cbir.learn.commands.train_embedding import train_embedding_command
from cbir.learn.commands.train_ranker import train_ranker_command
from cbir.search import command_options as options
from cbir.system.console import StageBars
from cbir.system.device_failure import device_failures

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Train models; needs the extra `deep`.")
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
    channels: Annotated[int | None, Option(help="Channels of the convolutional sorter, default 64.")] = None,
    blocks: Annotated[
        int | None, Option(help="Blocks of the convolutional sorter, default 8, as in the paper.")
    ] = None,
    start: Annotated[
        Literal["counting", "random"],
        Option(help="Initial weights; random in the paper."),
    ] = "counting",
    epochs: Annotated[float, Option(help="Epochs of 100,000 vectors.")] = 8.0,
    batch: Annotated[int, Option(help="Vectors per batch.")] = 128,
    rate: Annotated[float, Option(help="Initial learning rate of Adam.")] = 1e-4,
    halve_every: Annotated[float, Option(help="Epochs after which the learning rate is halved.")] = 1.0,
    slope: Annotated[
        float,
        Option(help="Weight of an error in slopes beside the L1 loss of ranks; 0 in the paper."),
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
    chosen = {name: size for name, size in sizes[kind].items() if size is not None}
    if kind == "lstm":
        network: LstmSorter | CnnSorter = LstmSorter(length=length, **chosen)
    else:
        network = CnnSorter(length=length, **chosen)

    with StageBars() as bars, device_failures("networks", device):

        def show(step: int, error: float) -> None:
            bars.show("training", step, recipe.steps, f"error {error:.5f}")

        weights = train_sorter(network, recipe, out, device, save_every, show)
    typer.echo(weights.with_suffix(".json").read_text(encoding="utf-8").rstrip())
