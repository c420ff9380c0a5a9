"""Tables II to VII of Huang et al. 2010 as Markdown: NDCG by fold, and tests of its differences, by size of lists."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cbir.evaluation.significance import group_folds
from cbir.learn.grading import baselines
from cbir.learn.grading.grader_evaluation import GraderEvaluation, Split, compare_graders, evaluate_grader
from cbir.system.files import write_bytes

RIGHT, WRONG = "#333333", "#c0392b"
COLOURS = 96  # of the file
COLUMNS = (0.27, 0.77)  # of a picture that are shown: the lens


def ranking_errors(order: NDArray[np.int64], grades: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return, for each position of an order, whether its image has another grade than in a perfect order."""
    return np.asarray(grades[order] != np.sort(grades)[::-1])


def draw_rankings(
    pictures: list[NDArray[np.uint8]],
    grades: NDArray[np.float64],
    orders: Mapping[str, NDArray[np.int64]],
    path: Path,
) -> None:
    """Write a figure with a row of pictures for each order, from the severest.

    Parameters
    ----------
    pictures : list of (h, w, 3) uint8
        The images.
    grades : (n,) float64
        Their whole grades.
    orders : mapping of str to (n,) int
        Images in the order of each ranker, by its name.
    path : Path
        PNG file.
    """
    figure = Figure(figsize=(0.55 * len(pictures), 1.3 * len(orders)), dpi=110)
    canvas = FigureCanvasAgg(figure)
    margins = {"left": 0.005, "right": 0.995, "bottom": 0.04, "top": 0.95, "wspace": 0.08, "hspace": 0.45}
    rows = figure.subplots(len(orders), len(pictures), squeeze=False, gridspec_kw=margins)
    for axes, (name, order) in zip(rows, orders.items(), strict=True):
        errors = ranking_errors(order, grades)
        axes[0].text(0, 1.06, f"{name}: {errors.sum()} errors", transform=axes[0].transAxes, fontsize=9)
        for place, image, wrong in zip(axes, order, errors, strict=True):
            left, right = (int(share * pictures[image].shape[1]) for share in COLUMNS)
            place.imshow(pictures[image][:, left:right])
            label = f"[{grades[image]:.0f}]" if wrong else f"{grades[image]:.0f}"
            place.set_xlabel(label, color=WRONG if wrong else RIGHT, fontsize=9, labelpad=2)
            place.set(xticks=[], yticks=[])
            for spine in place.spines.values():
                spine.set(color=WRONG if wrong else RIGHT, linewidth=2 if wrong else 0.5)
    canvas.draw()
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    content = BytesIO()
    drawn.quantize(COLOURS).save(content, "PNG", optimize=True)
    write_bytes(path, content.getvalue())


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Schemes = Mapping[str, tuple[str, Mapping[str, Any]]]

SIZES = (20, 50, 100)
COMPARED = (
    "s-ndcg",
    "s-ndcg exponential",
    "rankboost",
    "adarank",
    "ranking-svm",
)  # by the paper, in its order


def ranking_tables(X: Floats, y: Floats, patients: Integers, folds: int, schemes: Schemes) -> Iterator[str]:
    """Yield the lines of the tables.

    Parameters
    ----------
    X, y, patients : (n, d) float64, (n,) float64, (n,) int
        Features, grades and groups of images.
    folds : int
        Number of folds.
    schemes : mapping
        Ranker and options by name; those of `COMPARED` are in the tables by fold, as in the paper.
    """
    splits = group_folds(y, patients, folds)
    chosen = {label: schemes[label] for label in COMPARED}
    for size in SIZES:
        evaluations = evaluate_schemes(chosen, X, y, splits, patients, size)
        yield from fold_table(evaluations, splits, size)
        yield from tukey_table(evaluations, size)


def evaluate_schemes(
    schemes: Schemes, X: Floats, y: Floats, splits: Sequence[Split], patients: Integers, size: int
) -> list[GraderEvaluation]:
    """Evaluate each scheme, learning from lists of `size` where it learns from lists, and call it by its label."""
    evaluations = []
    for label, (name, options) in schemes.items():
        listed = options if name in baselines.names() else {"list_size": size, **options}
        result = evaluate_grader(name, X, y, splits, patients, size, options=listed)
        evaluations.append(replace(result, name=label))
    return evaluations


def fold_table(evaluations: Sequence[GraderEvaluation], splits: Sequence[Split], size: int) -> Iterator[str]:
    """Yield mean and deviation of the NDCG of each fold's lists (Tables II to IV); the best mean is bold."""
    ends = np.cumsum([max(1, len(test) // size) for _, test in splits])
    by_fold = [np.split(result.lists, ends[:-1]) for result in evaluations]
    yield f"\n| lists of {size}: fold | " + " | ".join(result.name for result in evaluations) + " |"
    yield "|---" * (len(evaluations) + 1) + "|"
    for fold in range(len(splits)):
        means = [lists[fold].mean() for lists in by_fold]
        cells = []
        for lists, mean in zip(by_fold, means, strict=True):
            text = f"{mean:.3f}" if len(lists[fold]) == 1 else f"{mean:.3f} ± {lists[fold].std(ddof=1):.3f}"
            cells.append(f"**{text}**" if mean == max(means) else text)
        yield f"| {fold + 1} | " + " | ".join(cells) + " |"
    yield "| all | " + " | ".join(f"{result.lists.mean():.3f}" for result in evaluations) + " |"


def tukey_table(evaluations: Sequence[GraderEvaluation], size: int) -> Iterator[str]:
    """Yield the analysis of variance and Tukey's test of each pair (Tables V to VII)."""
    p, compared = compare_graders(evaluations)
    yield f"\nLists of {size}, one-way analysis of variance: p = {p:.2g}\n"
    yield "| I | II | I - II | 95 % interval | p |"
    yield "|---|---|---|---|---|"
    for pair in compared:
        row = f"{pair.difference:+.4f} | [{pair.low:+.4f}, {pair.high:+.4f}] | {pair.p:.2g}"
        yield f"| {pair.one} | {pair.other} | {row} |"


def significant_differences(
    X: Floats, y: Floats, patients: Integers, folds: int, schemes: Schemes
) -> Iterator[str]:
    """Yield, for each size of lists, the analysis of variance and the pairs of all schemes that differ."""
    splits = group_folds(y, patients, folds)
    for size in SIZES:
        p, compared = compare_graders(evaluate_schemes(schemes, X, y, splits, patients, size))
        differing = [
            f"{pair.one} - {pair.other} {pair.difference:+.3f}" for pair in compared if pair.p < 0.05
        ]
        yield f"| {size} | {p:.2g} | {'; '.join(differing) or 'none'} |"
