"""How well an audit finds images unlike the rest: a few images of one kind among images of all others.

    python -m bench.audit_outliers --collection COLLECTION [--few 1 3 5 10] [--images 2000] [--repeats 3]

A kind is a modality and an anatomy. A few images of a kind are put among images drawn from the other kinds. Counted
are those that are called outliers, those whose distance is among the largest hundredth, and of the others, those that
are called outliers; the area under the ROC curve is that of the distance. Vectors are those of the whole collection,
whose projection has seen all images of the kind. Constants can be chosen on every second kind.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from cbir import settings
from cbir.store import Collection
from service.features.audit.audited_images import (
    AuditedImages,
    find_independent,
    find_outliers,
    read_audited_images,
)
from service.features.audit.label_errors import VOTERS

FIRST = 0.01  # of the images


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--keys", nargs="+", default=["modality", "anatomy"], help="labels of a kind")
    parser.add_argument("--few", type=int, nargs="+", default=[1, 3, 5, 10], help="images of the kind")
    parser.add_argument("--images", type=int, default=2000, help="of the other kinds")
    parser.add_argument("--repeats", type=int, default=3, help="draws of each kind")
    args = parser.parse_args()
    with Collection(args.collection) as collection:
        images = read_audited_images(collection, settings.load())
        codes = [images.codes(collection, key)[0] for key in args.keys]
    _, kind = np.unique(np.stack(codes), axis=1, return_inverse=True)
    print(
        "| kinds | of the kind | AUROC (least) | called outliers | in the first hundredth | others called outliers |"
    )
    print("|---|---|---|---|---|---|")
    for title, kinds in (
        ("of the choice", range(0, kind.max() + 1, 2)),
        ("others", range(1, kind.max() + 1, 2)),
    ):
        for few in args.few:
            values = [
                [measure(images, kind == code, few, args.images, seed) for seed in range(args.repeats)]
                for code in kinds
            ]
            of_kind = np.mean(values, axis=1)
            auroc, hits, first, alarms = of_kind.mean(axis=0)
            print(
                f"| {title} | {few} | {auroc:.3f} ({of_kind[:, 0].min():.3f}) "
                f"| {hits:.2f} | {first:.2f} | {alarms:.4f} |",
                flush=True,
            )


def measure(
    images: AuditedImages, of_kind: NDArray[np.bool_], few: int, others: int, seed: int
) -> tuple[float, float, float, float]:
    """Return AUROC; shares of few images of a kind called outliers, and in the first hundredth; of others called."""
    generator = np.random.default_rng(seed)
    strange = generator.permutation(np.flatnonzero(of_kind))[:few]
    usual = generator.permutation(np.flatnonzero(~of_kind))[:others]
    rows = np.concatenate([strange, usual])
    is_strange = np.arange(len(rows)) < len(strange)
    outliers = find_outliers(find_independent(images.units[rows], images.block[rows], VOTERS))
    is_outlier = np.isin(np.arange(len(rows)), outliers.rows)
    auroc = float(roc_auc_score(is_strange, outliers.distance))
    first = outliers.likeness[is_strange] <= FIRST
    return (
        auroc,
        float(is_outlier[is_strange].mean()),
        float(first.mean()),
        float(is_outlier[~is_strange].mean()),
    )


if __name__ == "__main__":
    main()
