"""Measure `auto` on descriptors and sizes of classes: chosen with half of the queries, reported on the others.

Both halves take their turn, so that every query is reported once. For each collection and size a line: mAP / P@1 of
no re-ranking and of `auto`, and the differences from no re-ranking, from the best method and from the best rival of
the literature, both the best on the reported queries. A second table has every method's gains over no re-ranking.
Images of the query's patient are left out. A collection is a folder, or an .npz file of unit vectors, labels and
patients (empty: unknown), for instance of an embedding.

    python bench/auto_choice.py COLLECTION... [--per-class 6 20 100 0] [--queries N] [--label KEY] [--seed S]
        [--cache FOLDER]
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rerank_quality import judged_only

from cbir import rerank
from cbir.errors import CbirError
from cbir.evaluation.agreement_count import LabelledRows, draw_queries
from cbir.evaluation.auto_choice import PLAIN, best_candidate, compare_candidates, labelled_rows
from cbir.evaluation.relevance import encode_values, parse_relevance
from cbir.gallery import knn
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import plain_space
from cbir.rerank import CANDIDATES, default_choice
from cbir.store import Collection
from cbir.store.base.profile import UNIT_EPRF
from cbir.system.threads import OneBlasThread

Candidate = tuple[str, Mapping[str, float]]
RIVALS: tuple[Candidate, ...] = (("k-reciprocal", {"M": 200}), ("aqe", {}), ("eprf", {}))  # as published
METHODS: tuple[Candidate, ...] = (*CANDIDATES, *(rival for rival in RIVALS if rival not in CANDIDATES))
Quality = NDArray[np.float64]  # (q, methods, 2): AP and P@1 of each query
EMBEDDING = "embedding"  # any descriptor with a network
COLUMNS = (
    "images", "per class", "in all", "none", "`auto`", "`auto` is", "minus none: mAP", "P@1", "best method",
    "minus best: mAP", "P@1", "best rival", "minus rival: mAP", "P@1",
)  # fmt: skip


class Measured(NamedTuple):
    """Scores of all candidates, the number of images, and the candidate that `auto` is without labels."""

    scored: Quality
    images: int
    usual: int


def measure_collection(
    folder: Path, per_class: int, label: str, queries: int, seed: int, candidates: Sequence[Candidate]
) -> Measured:
    """Score candidates on a collection whose classes are cut to `per_class` images; 0: all."""
    with Collection(folder) as whole, tempfile.TemporaryDirectory() as scratch:
        cut = judged_only(whole, parse_relevance(label), per_class or None, Path(scratch) / "cut", seed)
        view, profile = cut.view(), cut.profile
        found = labelled_rows(cut, view, label)
        if found is None:
            raise SystemExit(f"error: {folder}: too few labels")
        methods = [rerank.get_tuned(name, profile.rerank, parameters) for name, parameters in candidates]
        with OneBlasThread():
            scored = compare_candidates(view.gallery, found[1], methods, draw(found[1], queries))
        return Measured(scored, len(view), usual_candidate(profile.descriptor))


def measure_vectors(
    file: Path, per_class: int, queries: int, seed: int, candidates: Sequence[Candidate]
) -> Measured:
    """Score candidates on the vectors of an .npz file."""
    content = np.load(file)
    random = np.random.default_rng(seed)
    members = [np.flatnonzero(content["label"] == label) for label in np.unique(content["label"])]
    rows = np.sort(np.concatenate([random.permutation(each)[: per_class or None] for each in members]))
    vectors = content["vectors"][rows].astype(np.float32)
    neighbours = Neighbourhood(knn.find_neighbours(vectors, plain_space(vectors.shape[1])))
    gallery = Gallery((vectors,), np.arange(len(rows)), (), neighbours, True)
    label, patient = (
        encode_values((value or None for value in content[key][rows].tolist()), {})
        for key in ("label", "patient")
    )
    labelled = LabelledRows(np.arange(len(rows)), label, patient)
    methods = [rerank.get_tuned(name, UNIT_EPRF, parameters) for name, parameters in candidates]
    with OneBlasThread():
        scored = compare_candidates(gallery, labelled, methods, draw(labelled, queries))
    return Measured(scored, len(rows), usual_candidate(EMBEDDING))


def draw(labelled: LabelledRows, queries: int) -> NDArray[np.int64]:
    """Draw queries by the order of the rows."""
    return draw_queries(labelled, labelled.can_query, queries)


def usual_candidate(descriptor: str) -> int:
    """Return the candidate that `auto` is without labels."""
    default = default_choice(descriptor)
    return CANDIDATES.index((default.method, default.parameters))


def line(name: str, per_class: int, measured: Measured) -> str:
    """Return the table's line of one collection and size."""
    scored, images, usual = measured
    plain = CANDIDATES.index(PLAIN)
    order = np.random.default_rng(0).permutation(len(scored))
    auto, chosen = np.empty((len(scored), 2)), []
    for choosing, reported in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        chosen.append(best_candidate(scored[choosing, : len(CANDIDATES)], usual, plain))
        auto[reported] = scored[reported, chosen[-1]]
    means = scored.mean(axis=0)
    best = int(np.argmax(means[:, 0]))
    rivals = [METHODS.index(rival) for rival in RIVALS]
    rival = max(rivals, key=lambda number: means[number, 0])
    fields = [
        name, str(per_class or "all"), str(images), cell(means[plain]), cell(auto.mean(axis=0)),
        ", ".join(dict.fromkeys(method_name(number) for number in chosen)), *intervals(auto - scored[:, plain]),
        f"{method_name(best)} {cell(means[best])}", *intervals(auto - scored[:, best]),
        f"{method_name(rival)} {cell(means[rival])}", *intervals(auto - scored[:, rival]),
    ]  # fmt: skip
    return f"| {' | '.join(fields)} |"


def methods_line(name: str, per_class: int, measured: Measured) -> str:
    """Return the line of the second table: mean gains of every candidate over no re-ranking, in points."""
    scored = measured.scored
    gains = 100 * (scored - scored[:, [CANDIDATES.index(PLAIN)]]).mean(axis=0)
    cells = [f"{gain:+.1f} / {first:+.1f}" for gain, first in gains]
    return f"| {' | '.join([name, str(per_class or 'all'), *cells])} |"


def method_name(number: int) -> str:
    """Return a candidate's name with its parameters."""
    name, parameters = METHODS[number]
    return " ".join([name, *(f"{key}={value:g}" for key, value in parameters.items())])


def cell(values: NDArray[np.float64]) -> str:
    """Format a mean of AP and P@1."""
    return f"{values[0]:.3f} / {values[1]:.3f}"


def intervals(differences: Quality) -> list[str]:
    """Format mean differences (q, 2) in points with 95 % bootstrap intervals."""
    generator = np.random.default_rng(0)
    resampled = differences[generator.integers(0, len(differences), (2000, len(differences)))].mean(axis=1)
    low, high = 100 * np.percentile(resampled, (2.5, 97.5), axis=0)
    means = 100 * differences.mean(axis=0)
    return [f"{m:+.1f} ({a:+.1f} to {b:+.1f})" for m, a, b in zip(means, low, high, strict=True)]


def measure(cache: Path, path: Path, per_class: int, label: str, queries: int, seed: int) -> Measured:
    """Score the candidates, of those that `cache` has no scores of, and add them to it."""
    file = cache / f"{path.stem}-{per_class}-{label}-{queries}-{seed}.npz"
    stored = dict(np.load(file)) if file.exists() else {}
    missing = [candidate for candidate in METHODS if repr(candidate) not in stored]
    if missing:
        measured = (
            measure_vectors(path, per_class, queries, seed, missing)
            if path.suffix == ".npz"
            else measure_collection(path, per_class, label, queries, seed, missing)
        )
        scores = {repr(candidate): measured.scored[:, number] for number, candidate in enumerate(missing)}
        stored |= {**scores, "images": np.array(measured.images)}
        stored["usual"] = np.array(measured.usual)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(file, **stored)
    scored = np.stack([stored[repr(candidate)] for candidate in METHODS], axis=1)
    return Measured(scored, int(stored["images"]), int(stored["usual"]))


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collections", nargs="+", type=Path)
    options.add_argument("--label", default="label", help="label that relevant images share")
    options.add_argument(
        "--per-class", nargs="+", type=int, default=[0], help="images of a class; 0: all there are"
    )
    options.add_argument("--queries", type=int, default=300, help="queries to choose and to report on")
    options.add_argument("--seed", type=int, default=0, help="of the images that are drawn of each class")
    options.add_argument(
        "--cache", type=Path, help="folder of the scores, to go on after an interruption; default: none"
    )
    values = options.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    heads = ["images", "per class", *map(method_name, range(len(METHODS)))]
    by_method = [f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}"]
    with tempfile.TemporaryDirectory() as scratch:
        for path in values.collections:
            for per_class in values.per_class:
                try:
                    measured = measure(
                        values.cache or Path(scratch),
                        path,
                        per_class,
                        values.label,
                        values.queries,
                        values.seed,
                    )
                except CbirError as error:
                    raise SystemExit(f"error: {error}") from None
                print(line(path.stem, per_class, measured), flush=True)
                by_method.append(methods_line(path.stem, per_class, measured))
    print("", *by_method, sep="\n")


if __name__ == "__main__":
    main()
