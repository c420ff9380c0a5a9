"""Compare sorters under one loss, as section 4.2.1 of Engilberge et al. (2019) does on a regression.

The paper predicts how memorable videos are, which are not here. In their place: the grade of a knee, 0 to 4, from the
values of a pretrained encoder. The network (two fully connected layers), its first weights and the batches of 100
images are the same for every loss; eq. 4 has L1 beside it in the first epoch, as in the paper. Adam at 0.001, halved
every 3 epochs. Images of a patient stay together; validation chooses the epoch. The measure is Spearman's correlation
of scores and grades on the test images.

    python bench/sorter_comparison.py --data FOLDER --cache FOLDER [--seeds 0 1 2] [--epochs 15]
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from intervals import mean_interval
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn

from cbir.descriptors import encoders
from cbir.ingest.manifest import Manifest
from cbir.learn.losses import SpearmanLoss
from cbir.learn.models import sorters
from cbir.learn.severity.severity_networks import principal_projection
from cbir.learn.training.labelled_examples import PARTS, read_class_examples, split_by_class
from cbir.learn.training.picture_loading import load_features
from cbir.learn.training.samplers import ShuffledSampler

WHERE = ("source=knee",)
DIRECTIONS, HIDDEN, BATCH = 256, 128, 100
RATE, HALVED_EVERY = 1e-3, 3  # epochs
GRADES = 4  # the highest
REFERENCE = "L1"

Loss = Callable[[Tensor, Tensor], Tensor]


def losses() -> dict[str, Loss]:
    """Return the losses to compare, of scores (d,) and grades (d,) from 0 to 1."""
    with_sorters: dict[str, Loss] = {
        f"eq. 4, {name}": SpearmanLoss(sorters.load(name)) for name in sorters.names()
    }
    return {**with_sorters, REFERENCE: nn.L1Loss(), "squared error": nn.MSELoss()}


def load(data: Path, encoder: str, cache: Path) -> tuple[NDArray[np.float32], NDArray[np.int64], list[str]]:
    """Return values (n, d), grades (n,) and patients (n,) of the knees."""
    examples = read_class_examples(Manifest(data / "manifest.csv"), "grade", WHERE, numeric=True)
    features = load_features([example.path for example in examples], encoders.get(encoder), cache)
    examples = [examples[row] for row in features.rows]
    patients = [
        example.patient or content for example, content in zip(examples, features.content_hashes, strict=True)
    ]
    return features.pixels.astype(np.float32), np.array([int(of.label) for of in examples]), patients


def correlation(network: nn.Module, values: Tensor, grades: NDArray[np.int64]) -> float:
    """Return Spearman's correlation of scores and grades; 0 if all scores are equal."""
    with torch.no_grad():
        scores = network(values)[:, 0].numpy()
    return float(spearmanr(scores, grades).statistic) if np.ptp(scores) else 0.0


def learn(
    loss: Loss,
    values: NDArray[np.float32],
    grades: NDArray[np.int64],
    parts: dict[str, NDArray[np.int64]],
    epochs: int,
    seed: int,
) -> float:
    """Return the test correlation of the epoch that is best in validation.

    Parameters
    ----------
    loss : callable
        Takes scores and grades / 4, each (d,).
    values : (n, d) float32
        Input of the network.
    grades : (n,) int64
        0 to 4.
    parts : dict
        Rows of training, validation and test.
    epochs, seed : int
        Of the training; the seed decides the first weights and the batches.
    """
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(values.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    halving = torch.optim.lr_scheduler.StepLR(optimizer, HALVED_EVERY, 0.5)
    inputs = {part: torch.from_numpy(values[rows]) for part, rows in parts.items()}
    targets = torch.from_numpy(grades[parts["training"]] / GRADES).float()
    sampler = ShuffledSampler(len(targets), BATCH, seed)
    measured: list[tuple[float, float]] = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in sampler:
            scores, target = network(inputs["training"][batch])[:, 0], targets[batch]
            value = loss(scores, target)
            if isinstance(loss, SpearmanLoss) and epoch == 0:
                value = value + nn.functional.l1_loss(scores, target)
            optimizer.zero_grad()
            torch.autograd.backward(value)
            optimizer.step()
        halving.step()
        validation, test = (correlation(network, inputs[part], grades[parts[part]]) for part in PARTS[1:])
        measured.append((validation, test))
    return max(measured)[1]


def table(by_loss: dict[str, list[float]]) -> None:
    """Print means over the seeds, with the lowest and highest, and the difference to L1 with its interval."""
    print(f"{'':<20}{'mean':>8}{'lowest':>8}{'highest':>8}{'less ' + REFERENCE:>10}")
    for name, values in sorted(by_loss.items(), key=lambda of: -np.mean(of[1])):
        cells = f"{name:<20}{np.mean(values):>8.3f}{min(values):>8.3f}{max(values):>8.3f}"
        if name != REFERENCE and len(values) > 1:
            mean, low, high = mean_interval(np.subtract(values, by_loss[REFERENCE]).tolist())
            cells += f"{mean:>+10.3f} ({low:+.3f} to {high:+.3f})"
        print(cells)


def main() -> None:
    """Train with every loss and seed, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the values of the encoder")
    parser.add_argument("--encoder", default="lite0-whole")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    values, grades, patients = load(args.data, args.encoder, args.cache)
    by_loss: dict[str, list[float]] = {}
    for seed in args.seeds:
        parts = split_by_class(grades.astype(str).tolist(), patients, seed)
        projected = principal_projection(values[parts["training"]], DIRECTIONS)(values)
        projected /= projected[parts["training"]].std()
        for name, loss in losses().items():
            by_loss.setdefault(name, []).append(learn(loss, projected, grades, parts, args.epochs, seed))
    print(f"Spearman's correlation on the test images, {len(args.seeds)} seeds")
    table(by_loss)


if __name__ == "__main__":
    main()
