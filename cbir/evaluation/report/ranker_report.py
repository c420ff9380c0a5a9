"""Report of a ranker: its training, metrics of each part of the images, ROC, and the images of highest score."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.rank_metrics import Roc, auc, roc
from cbir.evaluation.report.charts import line_chart, scatter_chart
from cbir.evaluation.report.report_parts import (
    ReportPictures,
    map_positions,
    render_facts,
    render_page,
    render_table,
    training_charts,
)
from cbir.system.files import atomic_text

MAPPED = 600  # images, positives first

KINDS = ("negative", "positive", "positive above every negative")


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
    rows = np.argsort(~positive, kind="stable")[:MAPPED]
    if len(rows) < 5:
        return "<p>Too few images.</p>"
    top = positive & (scores > scores[~positive].max())
    kinds = (positive.astype(int) + top)[rows].tolist()
    points = [
        (x, y, kind, f"{KINDS[kind]}, {score:.3g}")
        for (x, y), kind, score in zip(
            map_positions(features[rows]), kinds, scores[rows].tolist(), strict=True
        )
    ]
    return scatter_chart(points, KINDS, "Images by their features")


PICTURES = 10  # Zheng et al., Top-rank CNN, figure 8

LEFTMOST = 0.05  # of the false positives, in the enlarged ROC


@dataclass(frozen=True, eq=False)
class ScoredImages:
    """Scored images of one part, each field (n,).

    positive: mask. contents: hashes of the pictures. burned_in: the picture contains text. features: (n, k), input
    of the ranker's last layer.
    """

    scores: NDArray[np.float64]
    positive: NDArray[np.bool_]
    paths: Sequence[Path]
    contents: Sequence[str]
    burned_in: Sequence[bool]
    features: NDArray[np.float64]


def ranking_metrics(ranked: ScoredImages) -> dict[str, Any]:
    """Return Pos@Top, AUC, the number of images, and the highest score of a negative."""
    curve = roc(ranked.scores, ranked.positive)
    return {
        "images": len(ranked.scores),
        "positives": int(ranked.positive.sum()),
        "pos_at_top": curve.vertical,
        "auc": auc(ranked.scores, ranked.positive),
        "highest_negative": float(ranked.scores[~ranked.positive].max()),
    }


def write_ranker_report(
    folder: Path, title: str, parts: Mapping[str, ScoredImages], facts: Mapping[str, Any], max_pixels: int
) -> dict[str, Any]:
    """Write report.html, self-contained, and report.json.

    Parameters
    ----------
    folder : Path
    title : str
    parts : mapping of str to ScoredImages
        ROC and pictures are of the last part.
    facts : mapping
        Part of both files; the value of "history" is charted.
    max_pixels : int
        Largest picture to decode.

    Returns
    -------
    dict
        Content of report.json.
    """
    name, last = list(parts.items())[-1]
    curve = roc(last.scores, last.positive)
    order = np.argsort(-last.scores, kind="stable")[:PICTURES]
    report = {
        "parts": {part: ranking_metrics(ranked) for part, ranked in parts.items()},
        "roc": {
            "of": name,
            "false_positives": curve.false_positives.tolist(),
            "true_positives": curve.true_positives.tolist(),
            "thresholds": [None, *curve.thresholds[1:].tolist()],
        },
        "first": [
            {
                "image_id": last.contents[row],  # as in a collection; a file name may identify a patient
                "score": float(last.scores[row]),
                "positive": bool(last.positive[row]),
            }
            for row in order
        ],
        **facts,
    }
    with atomic_text(folder / "report.json") as file:
        file.write(json.dumps(report, indent=2, allow_nan=False) + "\n")
    with atomic_text(folder / "report.html") as file:
        film = _film(last, order, ReportPictures(max_pixels))
        file.write(_page(title, name, report, curve, film, _maps(parts)))
    return report


def _page(title: str, name: str, report: Mapping[str, Any], curve: Roc, film: str, maps: str) -> str:
    facts = {key: value for key, value in report.items() if key not in ("parts", "roc", "first")}
    terms = {key: value for key, value in facts.items() if key not in ("history", "powers")}
    body = f"""<h2>Results</h2>{_table(report["parts"])}
<p class="note">Pos@Top: share of the positives above every negative. A single negative decides it, so it varies much
if there are few images. The ranker is that of the best epoch on the validation images.</p>
<h2>ROC of {escape(name)}</h2>{_roc(name, curve, 1.0)}
<p class="note">Its leftmost part; the vertical piece is Pos@Top.</p>{_roc(name, curve, LEFTMOST)}
<h2>The first {len(report["first"])} of {escape(name)}</h2>
<p class="note">The pictures are of patients: protect this file as you protect them.</p>{film}
{maps}
<h2>Training</h2>{training_charts(facts.get("history", []), {"pos_at_top": "Pos@Top", "auc": "AUC"})}
{_powers(facts)}
<h2>Protocol</h2><dl>{render_facts(terms)}</dl>"""
    subtitle = "Ranking of positive images before negative ones. Not a medical device."
    return render_page(title, subtitle, body, "report.json has all figures.")


def _maps(parts: Mapping[str, ScoredImages]) -> str:
    maps = "".join(
        f"<h2>Map of {escape(name)}</h2>{feature_map(ranked.features, ranked.scores, ranked.positive)}"
        for name, ranked in parts.items()
    )
    note = f"t-SNE of what the last layer is given; up to {MAPPED} images of a part, positives first."
    return f'{maps}<p class="note">{note}</p>'


def _powers(facts: Mapping[str, Any]) -> str:
    if "powers" not in facts:
        return ""
    return f"<h2>Choice of p: {facts['p']:g}</h2>{power_chart(facts['powers'])}"


def _table(parts: Mapping[str, Mapping[str, Any]]) -> str:
    rows = (
        (
            escape(name),
            f"{part['images']}",
            f"{part['positives']}",
            f"{part['pos_at_top']:.3f}",
            f"{part['auc']:.3f}",
        )
        for name, part in parts.items()
    )
    return render_table(("part", "images", "positives", "Pos@Top", "AUC"), rows)


def _roc(name: str, curve: Roc, until: float) -> str:
    """Draw the curve from 0 to `until` false positives."""
    x, y = curve.corners()
    inside = x < until
    xs, ys = [*x[inside].tolist(), until], [*y[inside].tolist(), float(curve.at(until))]
    return line_chart([(name, ys)], xs, "false positives", "true positives", x_range=(0.0, until))


def _film(ranked: ScoredImages, order: NDArray[np.int64], pictures: ReportPictures) -> str:
    figures = []
    for row in order.tolist():
        hit = bool(ranked.positive[row])
        picture = pictures.html(str(ranked.paths[row]), None, ranked.contents[row], ranked.burned_in[row])
        figures.append(
            f'<figure class="{"hit" if hit else "miss"}">{picture}<figcaption><b>{"✓" if hit else "✗"}</b> '
            f"{float(ranked.scores[row]):.3g}</figcaption></figure>"
        )
    return f'<div class="film">{"".join(figures)}</div>'
