"""Figures of a ranker's report: training, choice of p, and a map of the images."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.report.charts import line_chart, round_range, scatter_chart

MAPPED = 600  # images, positives first
KINDS = ("negative", "positive", "positive above every negative")


def training_charts(history: Sequence[Mapping[str, float]]) -> str:
    """Draw the measures in validation and the loss of training by epoch (Zheng et al., Top-rank CNN, figure 12)."""
    if len(history) < 2:
        return "<p>One epoch.</p>"
    epochs = [float(number) for number in range(1, len(history) + 1)]
    measures = [
        (name, [row[key] for row in history]) for key, name in (("pos_at_top", "Pos@Top"), ("auc", "AUC"))
    ]
    losses = [row["loss"] for row in history]
    x_range = (1.0, epochs[-1])
    validation = line_chart(measures, epochs, "epoch", "validation", x_range=x_range, whole_numbers=True)
    return validation + line_chart(
        [("loss", losses)],
        epochs,
        "epoch",
        "loss of training",
        x_range=x_range,
        y_range=round_range(losses),
        whole_numbers=True,
    )


def power_chart(powers: Sequence[Mapping[str, float]]) -> str:
    """Draw Pos@Top and AUC in validation by p, on a logarithmic axis (the same, figure 10)."""
    logs = [float(np.log2(row["p"])) for row in powers]
    series = [
        (name, [row[key] for row in powers]) for key, name in (("pos_at_top", "Pos@Top"), ("auc", "AUC"))
    ]
    return line_chart(series, logs, "log2 p", "validation", x_range=(logs[0], logs[-1]))


def feature_map(
    features: NDArray[np.float64], scores: NDArray[np.float64], positive: NDArray[np.bool_]
) -> str:
    """Draw images in two dimensions by t-SNE of their features (the same, figures 5 and 9).

    Parameters
    ----------
    features : (n, k) float64
        Input of the ranker's last layer.
    scores : (n,) float64
        Scores, shown as tooltips.
    positive : (n,) bool
        Mask of the positives; those above every negative have a colour of their own.
    """
    from sklearn.manifold import TSNE

    rows = np.argsort(~positive, kind="stable")[:MAPPED]
    if len(rows) < 5:
        return "<p>Too few images.</p>"
    top = positive & (scores > scores[~positive].max())
    layout = TSNE(perplexity=min(30.0, (len(rows) - 1) / 3), random_state=0)
    positions = layout.fit_transform(features[rows])
    low, high = positions.min(axis=0), positions.max(axis=0)
    positions = (positions - low) / np.maximum(high - low, 1e-12)
    kinds = (positive.astype(int) + top)[rows].tolist()
    points = [
        (float(x), float(y), kind, f"{KINDS[kind]}, {score:.3g}")
        for (x, y), kind, score in zip(positions, kinds, scores[rows].tolist(), strict=True)
    ]
    return scatter_chart(points, KINDS, "Images by their features")
