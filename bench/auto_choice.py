"""Measure what `auto` gains where it may harm: choose on half of the queries, report on the others.

    python bench/auto_choice.py COLLECTION... [--label KEY] [--queries N]

For each collection a line: no re-ranking, the chosen method, and the method that is best on the reported queries, as
mAP / P@1 without images of the query's patient.
"""

import argparse
from pathlib import Path

import numpy as np

from cbir import rerank
from cbir.errors import CbirError
from cbir.evaluation.auto_choice import best_candidate, compare_candidates, labelled_rows
from cbir.rerank.auto import CANDIDATES, default_choice
from cbir.store import Collection

COLUMNS = ("collection", "images", "queries", "none", "auto", "auto is", "auto minus none", "best of all")


def cell(values: np.ndarray) -> str:
    """Format a mean of AP and P@1."""
    return f"{values[0]:.3f} / {values[1]:.3f}"


def interval(differences: np.ndarray) -> str:
    """Format mean differences (q, 2) in points with bootstrap intervals."""
    generator = np.random.default_rng(0)
    resampled = differences[generator.integers(0, len(differences), (2000, len(differences)))].mean(axis=1)
    low, high = 100 * np.percentile(resampled, (2.5, 97.5), axis=0)
    means = 100 * differences.mean(axis=0)
    return " / ".join(f"{m:+.1f} ({a:+.1f} to {b:+.1f})" for m, a, b in zip(means, low, high, strict=True))


def measure(folder: Path, label: str | None, queries: int) -> str:
    """Return the line of a collection."""
    with Collection(folder) as collection:
        view = collection.view()
        found = labelled_rows(collection, view, label)
        if found is None:
            return f"| {folder.name} | {len(view)} | too few labels |"
        tuned, descriptor = collection.profile.rerank, collection.profile.descriptor
        methods = [rerank.get_tuned(name, tuned, parameters) for name, parameters in CANDIDATES]
        scored = compare_candidates(view, found[1], methods, queries)
    order = np.random.default_rng(0).permutation(len(scored))
    choosing, reported = scored[order[::2]], scored[order[1::2]]
    default = default_choice(descriptor).method
    chosen = best_candidate(choosing, CANDIDATES.index((default, {})))
    means = reported.mean(axis=0)
    plain, best = CANDIDATES.index(("none", {})), int(np.argmax(means.sum(axis=1)))
    names = [" ".join([name, *(f"{key}={value:g}" for key, value in p.items())]) for name, p in CANDIDATES]
    gain = interval(reported[:, chosen] - reported[:, plain])
    best_cell = f"{names[best]} {cell(means[best])}"
    facts = (
        folder.name,
        len(view),
        len(reported),
        cell(means[plain]),
        cell(means[chosen]),
        names[chosen],
        gain,
        best_cell,
    )
    return f"| {' | '.join(map(str, facts))} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collections", nargs="+", type=Path)
    options.add_argument("--label", help="label that relevant images share; default: as `auto` chooses")
    options.add_argument("--queries", type=int, default=400, help="queries to choose and to report on")
    values = options.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for folder in values.collections:
        try:
            print(measure(folder, values.label, values.queries), flush=True)
        except CbirError as error:
            raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
