"""Draw figures 4 to 6 of Engilberge et al. (2019): depth of the CNN, a rank against one score, mAP on synthetic data.

    python bench/sorter_figures.py --out FOLDER [--depths 2 4 6 8 10] [--epochs 0.3] [--seeds 0 1 2] [--steps 300]

Figure 4: convolutional sorters of several depths learn from random weights, on the same scores, with L1 alone; the
paper's sorters see hundreds of epochs of 100,000 vectors. Figure 5: one of 100 uniform scores runs from -1 to 1.
Figure 6: a network learns which 20 % of random points a random network scores highest, by lists of 100 of them; the
rival is the structured hinge loss of average precision. `--depths` without a number leaves out figure 4, `--seeds`
figure 6.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from cbir.evaluation.report.charts import line_chart, standalone_svg
from cbir.learn.losses import MapLoss
from cbir.learn.losses.score_losses import ScoreLoss
from cbir.learn.models import sorters
from cbir.learn.models.sorters import CnnSorter, exact_ranks, read_sorter_card
from cbir.learn.training.sorter_training import SorterRecipe, train_sorter

LENGTH, POINTS, FEATURES, RELEVANT = 100, 2000, 10, 0.2
MEASURED_EVERY = 20  # steps
SORTERS = ("lstm", "cnn", "handcrafted", "pairwise")
INCREMENT = 0.002
CHANNELS, BATCH, RATE = 32, 64, 2e-3  # of figure 4


class HingeApLoss(ScoreLoss):
    """Structured hinge bound of 1 - AP (Yue et al. 2007, the rival of figure 6).

    max over rankings r of 1 - AP(r) + F(r) - F(best), with F the mean of r_ij (s_i - s_j) over relevant i and others
    j, and r_ij 1 if i is above j, else -1. The greedy search of that paper finds the maximum.
    """

    name = "hinge-ap"

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        lists = zip(scores, relevance > 0, strict=True)
        return torch.stack([self._of_list(vector[mask], vector[~mask]) for vector, mask in lists])

    def _of_list(self, positives: Tensor, negatives: Tensor) -> Tensor:
        s, t = positives.sort(descending=True).values, negatives.sort(descending=True).values
        m, n = len(s), len(t)
        i, j = torch.arange(1, m + 1)[:, None], torch.arange(1, n + 1)
        margins = (s[:, None] - t) / (m * n)
        gains = i / ((i + j) * (i + j - 1)) / m - 2 * margins.detach()  # of negative j passing positive i
        passed = torch.cat([gains.flip(0).cumsum(0).flip(0), torch.zeros(1, n)])
        first = passed.argmax(dim=0) + 1  # negative j is above the positives from this one on
        below = i >= first
        precision = i[:, 0] / (i[:, 0] + below.sum(dim=1))
        return 1 - precision.mean() - 2 * margins[below].sum()


def depth_curve(blocks: int, epochs: float) -> tuple[list[float], float]:
    """Train a convolutional sorter from random weights.

    Returns its running error every MEASURED_EVERY steps, and its error on held-out vectors, both in positions.
    """
    torch.manual_seed(0)
    sorter = CnnSorter(CHANNELS, LENGTH, blocks)
    recipe = SorterRecipe("random", epochs, BATCH, RATE, halve_every=max(epochs / 3, 0.01), slope=0.0)
    errors: list[float] = []

    def keep(step: int, error: float) -> None:
        if step % MEASURED_EVERY == 0:
            errors.append(LENGTH * error)

    with TemporaryDirectory() as folder:
        weights = train_sorter(sorter, recipe, Path(folder), progress=keep)
        held_out = read_sorter_card(weights)["error_in_positions"]
    return errors, held_out


def draw_depths(depths: Sequence[int], epochs: float, out: Path) -> None:
    """Draw figure 4 into `out` and print its last errors."""
    print(f"{'figure 4, blocks':<28}{'error':>8}{'weights':>10}")
    series = []
    for blocks in depths:
        errors, held_out = depth_curve(blocks, epochs)
        weights = sum(weight.numel() for weight in CnnSorter(CHANNELS, LENGTH, blocks).parameters())
        series.append((f"{blocks} blocks", errors))
        print(f"{blocks:<28}{held_out:>8.2f}{weights:>10}", flush=True)
    xs = [float(MEASURED_EVERY * BATCH * (number + 1)) for number in range(len(series[0][1]))]
    top = 5.0 * np.ceil(max(max(errors) for _, errors in series) / 5)
    chart = line_chart(
        series, xs, "vectors", "error in positions", x_range=(xs[0], xs[-1]), y_range=(0.0, float(top))
    )
    (out / "sorter_depth.svg").write_text(standalone_svg(chart))


def rank_curves() -> tuple[list[float], dict[str, list[float]]]:
    """Return scores of the first of LENGTH, and its rank by each sorter."""
    values = torch.arange(-1, 1 + INCREMENT, INCREMENT)
    scores = (2 * torch.rand(LENGTH, generator=torch.Generator().manual_seed(0)) - 1).repeat(len(values), 1)
    scores[:, 0] = values
    with torch.no_grad():
        curves = {name: sorters.load(name)(scores)[:, 0].tolist() for name in SORTERS[:3]}
    return values.tolist(), {"exact": exact_ranks(scores)[:, 0].tolist(), **curves}


def synthetic_points(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Return points (count, FEATURES), and whether a random network of the seed scores each among the highest."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(FEATURES, FEATURES, generator=generator) for _ in range(3)]
    points = torch.randn(count, FEATURES, generator=generator)
    hidden = points
    for matrix in weights:
        hidden = torch.relu(hidden @ matrix / FEATURES**0.5)
    scores = hidden @ torch.randn(FEATURES, generator=generator)
    return points, scores > scores.quantile(1 - RELEVANT)


def average_precision(scores: Tensor, relevant: Tensor) -> float:
    """Return the average precision of a list."""
    hits = relevant[scores.argsort(descending=True, stable=True)].double()
    return float((hits.cumsum(0) / torch.arange(1, len(hits) + 1) * hits).sum() / hits.sum())


def learn(loss: ScoreLoss, seed: int, steps: int) -> list[float]:
    """Train a small network; return its AP on other points, every MEASURED_EVERY steps."""
    points, relevant = synthetic_points(seed, 2 * POINTS)
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    measured = []
    for step in range(steps):
        rows = torch.randint(POINTS, (LENGTH,))
        value = loss(network(points[rows])[:, 0], relevant[rows])
        optimizer.zero_grad()
        torch.autograd.backward(value)
        optimizer.step()
        if (step + 1) % MEASURED_EVERY == 0:
            with torch.no_grad():
                measured.append(average_precision(network(points[POINTS:])[:, 0], relevant[POINTS:]))
    return measured


def losses() -> dict[str, Callable[[], ScoreLoss]]:
    """Return makers of the losses to compare, by name."""
    paper = {f"eq. 7, {name}": lambda name=name: MapLoss(sorters.load(name), "ranks") for name in SORTERS}
    return {**paper, "own form log, own sorter": MapLoss, "Hinge-AP": HingeApLoss}


def draw_ranks(out: Path) -> None:
    """Draw figure 5 into `out` and print its errors."""
    xs, curves = rank_curves()
    chart = line_chart(
        list(curves.items()), xs, "score of the first", "its rank", x_range=(-1.0, 1.0), y_range=(0.0, 101.0)
    )
    (out / "sorter_ranks.svg").write_text(standalone_svg(chart))
    print(f"\n{'figure 5':<28}{'error':>8}{'rises':>8}")
    for name, ranks in curves.items():
        wrong = float((np.diff(ranks) > 1e-4).mean())  # the rank rises with the score
        print(f"{name:<28}{np.abs(np.subtract(ranks, curves['exact'])).mean():>8.2f}{wrong:>8.3f}")


def draw_precision(seeds: Sequence[int], steps: int, out: Path) -> None:
    """Draw figure 6 into `out` and print its last values."""
    print(f"\n{'figure 6, AP':<28}{'mean':>8}{'lowest':>8}{'highest':>8}")
    series = []
    for name, make in losses().items():
        by_seed = np.array([learn(make(), seed, steps) for seed in seeds])
        series.append((name, by_seed.mean(axis=0).tolist()))
        last = by_seed[:, -1]
        print(f"{name:<28}{last.mean():>8.3f}{last.min():>8.3f}{last.max():>8.3f}", flush=True)
    xs = [float(MEASURED_EVERY * (number + 1)) for number in range(len(series[0][1]))]
    chart = line_chart(series, xs, "step", "AP", x_range=(xs[0], xs[-1]))
    (out / "sorter_map.svg").write_text(standalone_svg(chart))


def main() -> None:
    """Draw the figures and print their numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for SVG files")
    parser.add_argument("--depths", type=int, nargs="*", default=[2, 4, 6, 8, 10], help="blocks, figure 4")
    parser.add_argument("--epochs", type=float, default=0.3, help="of 100,000 vectors, figure 4")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="figure 6")
    parser.add_argument("--steps", type=int, default=300, help="figure 6")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.depths:
        draw_depths(args.depths, args.epochs, args.out)
    draw_ranks(args.out)
    if args.seeds:
        draw_precision(args.seeds, args.steps, args.out)


if __name__ == "__main__":
    main()
