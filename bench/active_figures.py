"""Draw figure 8 of Kadota et al.: images by the features of an encoder, and those that strategies select first.

    python bench/active_figures.py --data FOLDER --source knee [--strategies random variance] --out OUT

t-SNE of the values of the training images of the first fold of bench/active.py. `grades.svg` has them all by grade;
STRATEGY.svg those that it selects after training on the first pairs, by grade, above the others in grey. Prints the
share of each grade among the selected images.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from active import START, graded, number_of, split
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from cbir.evaluation.report.charts import scatter_chart, standalone_svg
from cbir.learn.severity.severity_rankers import new_ranker
from service.features.annotate.active import strategies
from service.features.annotate.active.pair_selection import first_pairs, select_pairs, severity_for_strategy
from service.features.annotate.active.simulation import answers

DIRECTIONS = 50  # principal, before t-SNE
STEP = 0.05


def positions(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return positions (n, 2) from 0 to 1 of images with these `values` (n, d)."""
    most = min(DIRECTIONS, *values.shape)
    layout = TSNE(perplexity=min(30.0, (len(values) - 1) / 3), random_state=0)
    found = layout.fit_transform(PCA(most, random_state=0).fit_transform(values))
    low, high = found.min(axis=0), found.max(axis=0)
    return np.asarray((found - low) / np.maximum(high - low, 1e-12), np.float64)


def selected(
    strategy: str, encoder: str, values: NDArray[np.float32], grades: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the rows of the images that a strategy selects in the first round after the initial training."""
    rng = np.random.default_rng(number_of(0, 0))
    pairs = first_pairs(len(grades), START, None, rng)
    ranker = new_ranker(encoder, {}).fit(values, pairs, answers(grades, pairs, 0.0, rng))
    severity = severity_for_strategy(strategy, ranker, values)
    return np.unique(select_pairs(strategy, severity, pairs.tolist(), STEP, rng))


def draw(
    where: NDArray[np.float64], grades: NDArray[np.float64], rows: NDArray[np.int64], title: str, out: Path
) -> None:
    """Draw images at `where` (n, 2), those of `rows` in the colours of their grades and above the others."""
    levels, level_of = np.unique(grades, return_inverse=True)
    shown = np.isin(np.arange(len(grades)), rows)
    points = [
        (*where[row].tolist(), int(level_of[row]) if shown[row] else None, f"grade {grades[row]:g}")
        for row in np.argsort(shown, kind="stable").tolist()
    ]
    chart = scatter_chart(points, [f"grade {level:g}" for level in levels], title)
    out.write_text(standalone_svg(chart))
    shares = "  ".join(f"{np.mean(grades[rows] == level):.1%}" for level in levels)
    print(f"{title:24}{len(rows):>6} images  {shares}")


def main() -> None:
    """Draw the figures and print their numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--source")
    parser.add_argument("--encoder", default="lite0-max")
    parser.add_argument("--strategies", nargs="+", default=["random", "variance"], choices=strategies.names())
    parser.add_argument("--out", type=Path, required=True, help="folder for SVG files")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = graded(args.data, args.source, 64, args.encoder)
    train = split(data, 0)[0]
    values, grades = data[0][train], data[1][train]
    where = positions(values)
    args.out.mkdir(parents=True, exist_ok=True)
    draw(where, grades, np.arange(len(grades)), "all images", args.out / "grades.svg")
    for name in args.strategies:
        draw(where, grades, selected(name, args.encoder, values, grades), name, args.out / f"{name}.svg")


if __name__ == "__main__":
    main()
