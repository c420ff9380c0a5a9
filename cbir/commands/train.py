"""`cbir train ...`: train models; needs the extra `deep`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cbir.commands.train_embedding import embedding
from cbir.commands.train_ranker import ranker
from cbir.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Train models; needs the extra `deep`.")


class Kind(StrEnum):
    """The sorters that learn."""

    lstm = "lstm"
    cnn = "cnn"


class Start(StrEnum):
    """The weights that training starts from."""

    counting = "counting"
    random = "random"


@app.callback()
def _train() -> None:
    """Train models; needs the extra `deep`."""


app.command()(embedding)
app.command()(ranker)


@app.command()
def sorter(
    out: Annotated[
        Path, typer.Option(help="Folder for the weights and checkpoints; training there goes on.")
    ],
    kind: Annotated[Kind, typer.Option(help="What to train.")] = Kind.lstm,
    length: Annotated[int, typer.Option(help="Scores to sort at most.")] = 100,
    hidden: Annotated[int, typer.Option(help="Units of the LSTM, in each direction.")] = 192,
    layers: Annotated[int, typer.Option(help="Of the LSTM.")] = 1,
    channels: Annotated[int, typer.Option(help="Of the convolutional sorter.")] = 64,
    start: Annotated[
        Start, typer.Option(help="Weights that already count, or noise, as the paper has it.")
    ] = Start.counting,
    epochs: Annotated[float, typer.Option(help="Of 100,000 vectors.")] = 8.0,
    batch: Annotated[int, typer.Option(help="Vectors in a batch.")] = 128,
    rate: Annotated[float, typer.Option(help="Of Adam, at the beginning.")] = 1e-4,
    halve_every: Annotated[float, typer.Option(help="Epochs after which the rate is halved.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sorter.")] = 0,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    threads: Annotated[int, typer.Option(min=0, help="Of the CPU; 0: all.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
) -> None:
    """Train a sorter on synthetic scores: rank 1 for the largest. The same command goes on where it was stopped.

    The paper's schedule: --start random --epochs 400 --batch 512 --rate 1e-3 --halve-every 100.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise InvalidInput("training needs torch: pip install 'cbir[deep]'") from error
    from cbir.models.sorters import CnnSorter, LstmSorter
    from cbir.training.sorter import Recipe, train

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(f"there is no device {device!r} here; take cpu") from error
    if threads:
        torch.set_num_threads(threads)
    recipe = Recipe(start.value, epochs, batch, rate, halve_every, seed)
    torch.manual_seed(seed)
    made = LstmSorter(hidden, layers, length) if kind is Kind.lstm else CnnSorter(channels, length)
    with _Progress(recipe.steps) as progress:
        weights = train(made, recipe, out, device, save_every, progress.show)
    typer.echo(weights.with_suffix(".json").read_text().rstrip())


class _Progress:
    """A bar on standard error, with the error of the last batches."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("error {task.fields[error]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("", total=steps, error="")

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def show(self, step: int, error: float) -> None:
        """So many steps are done, at this running error."""
        self._bar.update(self._task, completed=step, error=f"{error:.5f}")
