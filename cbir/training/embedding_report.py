"""The report of an embedding: its curves, where the images of the test lie, and what stands nearest to some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cbir
from cbir.atomic import atomic_text
from cbir.evaluation.report import Pictures, charts
from cbir.evaluation.report.report_page import css
from cbir.training.embedding_training import EmbeddingData

QUERIES = 10  # of the test, each of another class, that are shown
NEAREST = 6
MAPPED = 1000  # images on the map
MOST_CLASSES = charts.COLOURS  # that have a colour of their own on it


@dataclass(frozen=True, eq=False)
class ReportedEmbedding:
    """Vectors (n, d) of all images, their classes by name, files, hashes of pictures, and burned-in text."""

    vectors: NDArray[np.float32]
    material: EmbeddingData
    names: Sequence[str]
    paths: Sequence[Path]
    contents: Sequence[str]
    burned_in: Sequence[bool]


def write_embedding_report(
    folder: Path,
    title: str,
    shown: ReportedEmbedding,
    history: Sequence[Mapping[str, float]],
    facts: Mapping[str, Any],
    max_pixels: int,
    seed: int,
) -> None:
    """Write report.html, self-contained, into `folder`."""
    film = "".join(_row(shown, query, Pictures(max_pixels)) for query in _queries(shown, seed))
    told = "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_text(of))}</dd>" for key, of in facts.items()
    )
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{css()}</style></head><body>
<h1>{escape(title)}</h1>
<p class="sub">How well vectors find images of their class. Not a medical device.</p>
<h2>Results</h2>{_table(facts["results"])}
<p class="note">Queries of each part look among the images for training; those of their own patient do not count.</p>
<h2>Training</h2>{_curves(history)}
<h2>A map of the test</h2>{_map(shown, seed)}
<p class="note">t-SNE: what lies together is alike; distances between groups mean little.</p>
<h2>Nearest images</h2>
<p class="note">A query of the test, then what is nearest among the images for training. The pictures are of patients:
keep this file as you keep them.</p>{film}
<h2>On what terms</h2><dl>{told}</dl>
<p class="note">cbir {cbir.__version__}. Epoch by epoch: history.csv, and for TensorBoard the folder events.</p>
</body></html>
"""
    with atomic_text(folder / "report.html") as file:
        file.write(html)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(of)}" for key, of in value.items())
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(results: Mapping[str, Mapping[str, float]]) -> str:
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{of['map']:.3f}</td><td>{of['p_at_1']:.3f}</td><td>{of['p_at_10']:.3f}</td></tr>"
        for name, of in results.items()
    )
    heads = "".join(f"<th>{head}</th>" for head in ("queries", "mAP", "P@1", "P@10"))
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _curves(history: Sequence[Mapping[str, float]]) -> str:
    if len(history) < 2:
        return "<p>One epoch.</p>"
    epochs = [float(number) for number in range(1, len(history) + 1)]
    found = [(name, [row[key] for row in history]) for key, name in (("map", "mAP"), ("p_at_1", "P@1"))]
    losses = [row["loss"] for row in history]
    across = (1.0, epochs[-1])
    return charts.lines(found, epochs, "epoch", "validation", x_range=across) + charts.lines(
        [("loss", losses)],
        epochs,
        "epoch",
        "loss of training",
        x_range=across,
        y_range=charts.fitting(losses),
    )


def _map(shown: ReportedEmbedding, seed: int) -> str:
    """Images of the test in two dimensions; the commonest classes have colours, all have their names in titles."""
    from sklearn.manifold import TSNE

    random = np.random.default_rng(seed)
    places = np.sort(random.permutation(shown.material.parts["test"])[:MAPPED])
    if len(places) < 5:
        return "<p>Too few images.</p>"
    at = TSNE(perplexity=min(30.0, (len(places) - 1) / 3), random_state=seed).fit_transform(
        shown.vectors[places]
    )
    low, high = at.min(axis=0), at.max(axis=0)
    at = (at - low) / np.maximum(high - low, 1e-12)
    classes = shown.material.classes[places]
    common = np.argsort(-np.bincount(classes, minlength=len(shown.names)), kind="stable")[:MOST_CLASSES]
    colour = {int(of): number for number, of in enumerate(common)}
    points = [
        (float(x), float(y), colour.get(int(of)), shown.names[int(of)])
        for (x, y), of in zip(at, classes, strict=True)
    ]
    return charts.points(points, [shown.names[int(of)] for of in common], "Images of the test by class")


def _queries(shown: ReportedEmbedding, seed: int) -> list[int]:
    """Places of queries of the test, of as many classes as possible."""
    random = np.random.default_rng(seed)
    places = random.permutation(shown.material.parts["test"])
    _, first = np.unique(shown.material.classes[places], return_index=True)
    return [int(place) for place in places[random.permutation(first)[:QUERIES]]]


def _row(shown: ReportedEmbedding, query: int, pictures: Pictures) -> str:
    gallery = shown.material.parts["training"]
    gallery = gallery[shown.material.groups[gallery] != shown.material.groups[query]]
    nearest = gallery[np.argsort(-(shown.vectors[gallery] @ shown.vectors[query]), kind="stable")[:NEAREST]]
    own = shown.material.classes[query]
    figures = [_figure(shown, query, "query", "", pictures)]
    for place in nearest.tolist():
        hit = shown.material.classes[place] == own
        figures.append(_figure(shown, place, "hit" if hit else "miss", "✓ " if hit else "✗ ", pictures))
    return f'<div class="film">{"".join(figures)}</div>'


def _figure(shown: ReportedEmbedding, place: int, kind: str, sign: str, pictures: Pictures) -> str:
    drawn = pictures.html(str(shown.paths[place]), None, shown.contents[place], shown.burned_in[place])
    label = escape(shown.names[int(shown.material.classes[place])])
    return f'<figure class="{kind}">{drawn}<figcaption>{sign}{label}</figcaption></figure>'
