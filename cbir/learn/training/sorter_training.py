"""Training of sorters on synthetic scores (Engilberge et al. 2019, section 4.1.1)."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cbir import __version__
from cbir.errors import InvalidInput
from cbir.learn.models.sorters import WEIGHTS, save_sorter
from cbir.learn.models.sorters.sorter import Sorter, exact_ranks
from cbir.learn.models.sorters.trainable_sorters import CnnSorter, LstmSorter, draw_scores, scale_to_range
from cbir.learn.training.fine_tuning import read_checkpoint, run_training_loop, write_checkpoint
from cbir.system.files import private_folder

EPOCH = 100_000  # vectors
HELD_OUT = 10_000
HELD_OUT_SEED = 0  # training uses odd seeds
SEEDS = 1 << 10  # the generator takes 32 bits; the others count the steps
SHORTER = 0.2  # share of the batches with fewer scores than the full length
TIED = 0.05  # share of the vectors whose scores are rounded, some until all are equal
LARGEST_GRADIENT = 1.0  # norm
SHORTEST_STEP, LONGEST_STEP = 3e-3, 5e-2  # of a score in `slope_error`, in units of half the range
DENSITY = 0.05  # width of the sigmoids whose slopes count the scores around one
TrainableSorter = LstmSorter | CnnSorter
Ranks = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class SorterRecipe:
    """Options of a sorter's training. The same recipe gives the same weights on the same computer and torch.

    Attributes
    ----------
    start : str
        "counting": start from weights that already count scores; "random": as in the paper.
    epochs : float
        Passes over 100,000 vectors.
    batch : int
        Vectors per batch.
    rate : float
        Initial learning rate of Adam.
    halve_every : float
        Epochs after which the rate is halved.
    seed : int
        0 to 1023.
    slope : float
        Weight of `slope_error` beside the L1 loss (eq. 1); 0 is the paper's loss.
    """

    start: str = "counting"
    epochs: float = 8.0
    batch: int = 128
    rate: float = 1e-4
    halve_every: float = 1.0
    seed: int = 0
    slope: float = 0.05

    def __post_init__(self) -> None:
        if self.start not in ("counting", "random"):
            raise InvalidInput(f"a sorter starts from counting or random weights, not {self.start!r}")
        finite = math.isfinite(self.epochs) and math.isfinite(self.rate)
        if not (finite and self.epochs > 0 and self.batch >= 2 and self.rate > 0 and self.halve_every > 0):
            raise InvalidInput("epochs, rate and halving must be above 0 and finite, the batch at least 2")
        if not 0 <= self.slope < math.inf:
            raise InvalidInput(f"the weight of the slopes must be at least 0, not {self.slope}")
        if not 0 <= self.seed < SEEDS:
            raise InvalidInput(f"the seed must be from 0 to {SEEDS - 1}, not {self.seed}")

    @property
    def steps(self) -> int:
        """Number of batches in the whole training."""
        return max(1, round(self.epochs * EPOCH / self.batch))

    def rate_at(self, step: int) -> float:
        """Return the learning rate of `step`, counted from 0."""
        return float(self.rate * 0.5 ** (step * self.batch / EPOCH / self.halve_every))


def train_sorter(
    sorter: TrainableSorter,
    recipe: SorterRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: Callable[[int, float], None] = lambda step, error: None,
) -> Path:
    """Train a sorter; write sorter.safetensors with its card.

    A checkpoint in `folder` of the same sorter and recipe is continued with the same batches.

    Parameters
    ----------
    sorter : LstmSorter or CnnSorter
        Trained in place.
    recipe : SorterRecipe
        Options of the training.
    folder : Path
        Folder for checkpoint and result; created.
    device : str
        cpu or cuda.
    save_every : float
        Seconds between checkpoints.
    progress : callable
        Receives the number of steps done and the running error, a share of the length.

    Returns
    -------
    Path
        The weights.

    Raises
    ------
    InvalidInput
        If the checkpoint is of another sorter or recipe.
    """
    checkpoint = folder / "checkpoint.pt"
    identity = {"sorter": sorter.name, "options": sorter.options, "recipe": asdict(recipe)}
    if recipe.start == "counting" and not checkpoint.exists():
        sorter.start_counting()
    private_folder(folder)
    sorter.to(device).train()
    if recipe.start == "counting":  # weights that count rely on the statistics of the batch normalisation
        sorter.counting_parts().requires_grad_(False)
        for module in sorter.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.eval()
    optimizer = torch.optim.Adam(sorter.parameters(), recipe.rate)
    step, running = 0, 0.0
    if state := read_checkpoint(checkpoint, identity):
        sorter.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, running = int(state["step"]), float(state["running"])

    def on_step(done: int, loss: Tensor) -> None:
        nonlocal step, running
        step, error = done, float(loss)
        running = error if done == 1 else 0.98 * running + 0.02 * error
        progress(step, running)

    def save() -> None:
        state = {"model": sorter.state_dict(), "optimizer": optimizer.state_dict()}
        write_checkpoint(checkpoint, identity | state | {"step": step, "running": running})

    run_training_loop(
        sorter,
        optimizer,
        lambda step: batch_error(sorter, recipe, step, device),
        recipe.steps,
        start=step,
        rate=recipe.rate_at,
        largest_gradient=LARGEST_GRADIENT,
        on_step=on_step,
        save=save,
        save_every=save_every,
        epoch_length=recipe.steps,
    )
    sorter.train(False)
    facts = {"training": asdict(recipe), **measure_sorter(sorter, device, sorter.length)}
    versions = {"cbir": __version__, "torch": torch.__version__}
    save_sorter(sorter, weights := folder / WEIGHTS, {**facts, "versions": versions, "device": device})
    return weights


def batch_error(sorter: TrainableSorter, recipe: SorterRecipe, step: int, device: str) -> Tensor:
    """Return the mean rank error, a share of the length, on scores that depend on seed and step alone."""
    generator = torch.Generator().manual_seed((2 * (step * SEEDS + recipe.seed) + 1) % (1 << 32))
    length = sorter.length
    # Shorter batches would distort batch statistics.
    fixed_statistics = recipe.start == "counting" or sorter.longest is None
    if fixed_statistics and torch.rand((), generator=generator) < SHORTER:
        length = int(torch.randint(2, length + 1, (), generator=generator))
    scores = draw_scores(recipe.batch, length, generator)
    tied = round(TIED * recipe.batch)
    grid = 2.0 ** torch.randint(-3, 4, (tied, 1), generator=generator)
    scores[:tied] = (scores[:tied] * grid).round() / grid
    scores = scores.to(device)
    rank: Ranks = sorter.ranks_from_counts if recipe.start == "counting" else sorter
    ranks = rank(scores)
    error = (ranks - exact_ranks(scores)).abs().mean() / sorter.length
    if recipe.slope:
        error = error + recipe.slope * slope_error(rank, scores, ranks, generator) / sorter.length
    return error


def slope_error(rank: Ranks, scores: Tensor, ranks: Tensor, generator: torch.Generator) -> Tensor:
    """Measure by how much the rank of a score falls too slowly when that score rises.

    Exact ranks have no slope, and L1 alone gives stairs whose steps may have the wrong one. Each vector, scaled to
    [-1, 1], has one score that moves by a small step; its rank should fall by at least half of the number of scores
    around it (see DENSITY) times the step.

    Parameters
    ----------
    rank : callable
        Sorter: scores (batch, d) to ranks (batch, d).
    scores, ranks : (batch, d)
        Scores, and the sorter's ranks of them.
    generator : torch.Generator
        Selects scores and steps.

    Returns
    -------
    Tensor
        Mean shortfall of the slopes, in ranks per unit of score.
    """
    values = scale_to_range(scores)
    count, d = values.shape
    position = torch.randint(d, (count, 1), generator=generator).to(values.device)
    log_steps = torch.rand(count, 1, generator=generator).to(values.device)
    steps = SHORTEST_STEP * (LONGEST_STEP / SHORTEST_STEP) ** log_steps
    moving = values.gather(1, position)
    steps = torch.where(moving + steps > 1, -steps, steps)  # the range stays [-1, 1]
    moved = values.scatter(1, position, moving + steps)
    slopes = (rank(moved) - ranks).gather(1, position) / steps
    larger = torch.sigmoid((values - moving) / DENSITY)
    density = ((larger * (1 - larger)).sum(dim=1, keepdim=True) - 0.25) / DENSITY  # without the score itself
    return torch.relu(slopes + density / 2).mean()


@torch.no_grad()
def measure_sorter(
    sorter: Sorter, device: str = "cpu", length: int = 100, count: int = HELD_OUT
) -> dict[str, Any]:
    """Measure the mean distance from the true ranks on vectors that training never draws.

    The paper does not say how it scales its table 1; positions divided by the length put ranks into (0, 1].

    Parameters
    ----------
    sorter : Sorter
        In evaluation mode.
    device : str
        cpu or cuda.
    length : int
        Scores per vector.
    count : int
        Vectors.

    Returns
    -------
    dict
        "error", a share of `length`; "error_in_positions"; "held_out" with `count` and `length`.
    """
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    batches = (draw_scores(min(500, count), length, generator).to(device) for _ in range(0, count, 500))
    distances = [(sorter(scores) - exact_ranks(scores)).abs().mean(dim=1) for scores in batches]
    positions = float(torch.cat(distances)[:count].double().mean())
    held_out = {"vectors": count, "length": length}
    return {"held_out": held_out, "error": positions / length, "error_in_positions": positions}
