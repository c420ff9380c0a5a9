"""Train a sorter on synthetic scores (Engilberge et al. 2019, section 4.1.1)."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cbir import __version__
from cbir.errors import InvalidInput
from cbir.models.sorters import sorter_files
from cbir.models.sorters.cnn_sorter import CnnSorter
from cbir.models.sorters.exact import exact_ranks
from cbir.models.sorters.lstm_sorter import LstmSorter
from cbir.models.sorters.sorter import Sorter
from cbir.models.sorters.synthetic_scores import draw_scores
from cbir.training import checkpoint

EPOCH = 100_000  # vectors
HELD_OUT = 10_000
HELD_OUT_SEED = 0  # those of training are odd
SEEDS = 1 << 10  # the generator keeps 32 bits; the others count the steps
SHORTER = 0.2  # share of the batches with fewer scores than trained for
TIED = 0.05  # share of the vectors whose scores are rounded, some until all are alike
LARGEST_GRADIENT = 1.0  # norm
Learned = LstmSorter | CnnSorter


@dataclass(frozen=True)
class SorterRecipe:
    """How a sorter is trained; the same recipe gives the same weights, on the same machine and torch."""

    start: str = "counting"  # weights that count already; or "random", as in the paper
    epochs: float = 8.0
    batch: int = 128
    rate: float = 1e-4  # of Adam, at the beginning
    halve_every: float = 1.0  # epochs
    seed: int = 0

    def __post_init__(self) -> None:
        if self.start not in ("counting", "random"):
            raise InvalidInput(f"a sorter starts from counting or random weights, not {self.start!r}")
        if not (self.epochs > 0 and self.batch >= 2 and self.rate > 0 and self.halve_every > 0):
            raise InvalidInput("epochs, rate and halving must be above 0, the batch at least 2")
        if not 0 <= self.seed < SEEDS:
            raise InvalidInput(f"the seed must be from 0 to {SEEDS - 1}, not {self.seed}")

    @property
    def steps(self) -> int:
        """Batches in the whole training."""
        return max(1, round(self.epochs * EPOCH / self.batch))


def train_sorter(
    sorter: Learned,
    recipe: SorterRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: Callable[[int, float], None] = lambda step, error: None,
) -> Path:
    """Train `sorter` and write sorter.safetensors with its card into `folder`; returns the path of the weights.

    A checkpoint is written every `save_every` seconds and at the end. Where `folder` has one of the same sorter and
    recipe, training goes on from it, with the very batches that would have followed; one of another sorter or recipe
    raises InvalidInput. `progress` is told the number of steps done and the running error, a share of the length.
    """
    kept = folder / "checkpoint.pt"
    what = {"sorter": sorter.name, "options": sorter.options, "recipe": asdict(recipe)}
    if recipe.start == "counting" and not kept.exists():
        sorter.start_counting()
    folder.mkdir(parents=True, exist_ok=True)
    sorter.to(device).train()
    if recipe.start == "counting":
        _keep_statistics(sorter)
    optimizer = torch.optim.Adam(sorter.parameters(), recipe.rate)
    step, running = _resume(kept, what, sorter, optimizer)
    saved = time.monotonic()
    while step < recipe.steps:
        error = _step(sorter, optimizer, recipe, step, device)
        running = error if step == 0 else 0.98 * running + 0.02 * error
        step += 1
        progress(step, running)
        if step == recipe.steps or time.monotonic() - saved > save_every:
            state = {"model": sorter.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoint.write_checkpoint(kept, what | state | {"step": step, "running": running})
            saved = time.monotonic()
    sorter.train(False)
    weights = folder / "sorter.safetensors"
    sorter_files.save_sorter(
        sorter,
        weights,
        {"training": asdict(recipe)} | measure_sorter(sorter, device, sorter.length) | _versions(device),
    )
    return weights


def _keep_statistics(sorter: Learned) -> None:
    """Weights that count already rely on them; those of a batch would blur the counts."""
    for module in sorter.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eval()


def _resume(
    kept: Path, what: dict[str, Any], sorter: Learned, optimizer: torch.optim.Optimizer
) -> tuple[int, float]:
    state = checkpoint.read_checkpoint(kept)
    if state is None:
        return 0, 0.0
    if any(state.get(name) != value for name, value in what.items()):
        raise InvalidInput(f"{kept} is of another training; choose another folder, or delete it")
    sorter.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]), float(state["running"])


def _step(sorter: Learned, optimizer: torch.optim.Optimizer, recipe: SorterRecipe, step: int, device: str) -> float:
    """One batch, whose scores depend on the seed and the step alone; its error as a share of the length."""
    generator = torch.Generator().manual_seed((2 * (step * SEEDS + recipe.seed) + 1) % (1 << 32))
    length = sorter.length
    steady = (
        recipe.start == "counting" or sorter.longest is None
    )  # statistics of shorter batches would mislead
    if steady and torch.rand((), generator=generator) < SHORTER:
        length = int(torch.randint(2, length + 1, (), generator=generator))
    scores = draw_scores(recipe.batch, length, generator)
    tied = round(TIED * recipe.batch)
    grid = 2.0 ** torch.randint(-3, 4, (tied, 1), generator=generator)
    scores[:tied] = (scores[:tied] * grid).round() / grid
    scores = scores.to(device)
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate * 0.5 ** (step * recipe.batch / EPOCH / recipe.halve_every)
    loss = (sorter(scores) - exact_ranks(scores)).abs().mean() / sorter.length
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(sorter.parameters(), LARGEST_GRADIENT)
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def measure_sorter(sorter: Sorter, device: str = "cpu", length: int = 100, count: int = HELD_OUT) -> dict[str, Any]:
    """Mean distance from the true rank on `count` vectors never trained on: in positions, and as a share of `length`.

    The paper does not say how it scales its table 1; dividing the positions by the length puts ranks into (0, 1].
    """
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    distances: list[Tensor] = []
    for _ in range(0, count, 500):
        scores = draw_scores(min(500, count), length, generator).to(device)
        distances.append((sorter(scores) - exact_ranks(scores)).abs().mean(dim=1))
    positions = float(torch.cat(distances)[:count].double().mean())
    return {
        "held_out": {"vectors": count, "length": length},
        "error": positions / length,
        "error_in_positions": positions,
    }


def _versions(device: str) -> dict[str, Any]:
    return {"versions": {"cbir": __version__, "torch": torch.__version__}, "device": device}
