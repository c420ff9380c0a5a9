"""How well wrong labels are found: AUROC and average precision with a share of the labels flipped.

Constants were chosen on every second class; figures are of the others, of all, and of ten images of each class.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from cbir import settings
from cbir.store import Collection
from service.features.audit.audited_images import AuditedImages, read_audited_images
from service.features.audit.label_errors import find_label_errors

Codes = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--label", default="label")
    parser.add_argument("--share", type=float, default=0.05, help="of the labels that are flipped")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with Collection(options.collection) as collection:
        images = read_audited_images(collection, settings.load())
        label, names = images.codes(collection, options.label)
    even = label % 2 == 0
    print(f"{'images':30} {'labels flipped to':18} AUROC (least) average precision (least)")
    for flip in (flip_to_any, flip_to_near):
        for title, chosen in (
            ("classes of the choice", even),
            ("other classes", ~even),
            ("all classes", label >= 0),
            ("ten of each other class", ~even),
            ("ten of each class", label >= 0),
        ):
            ten = title.startswith("ten")
            values = [
                measure(images, label, names, chosen, flip, options.share, seed, ten)
                for seed in range(options.repeats * (4 if ten else 1))
            ]
            auroc, precision = np.array(values).T
            print(
                f"{title:30} {flip.__doc__:18} {auroc.mean():.4f} ({auroc.min():.4f}) "
                f"{precision.mean():.3f} ({precision.min():.3f})",
                flush=True,
            )


def measure(
    images: AuditedImages,
    label: Codes,
    names: list[str],
    chosen: NDArray[np.bool_],
    flip: "Flip",
    share: float,
    seed: int,
    ten: bool,
) -> tuple[float, float]:
    """Flip labels and return AUROC and average precision of the suspicion."""
    generator = np.random.default_rng(seed)
    rows = np.flatnonzero(chosen)
    if ten:
        rows = np.concatenate([generator.choice(each, 10, replace=False) for each in by_class(label, rows)])
    codes, labels = np.unique(label[rows], return_inverse=True)
    units = images.units[rows]
    flipped = np.zeros(len(rows), bool)
    flipped[generator.choice(len(rows), round(share * len(rows)), replace=False)] = True
    noisy = labels.copy()
    noisy[flipped] = flip(units, labels, len(codes), generator)[flipped]
    found = find_label_errors(units, images.block[rows], noisy, [names[code] for code in codes.tolist()])
    wrong = flipped[found.rows]
    return roc_auc_score(wrong, found.suspicion), average_precision_score(wrong, found.suspicion)


def by_class(label: Codes, rows: Codes) -> list[Codes]:
    """Return the rows of each class that has ten or more."""
    groups = [rows[label[rows] == code] for code in np.unique(label[rows])]
    return [group for group in groups if len(group) >= 10]


def flip_to_any(
    units: NDArray[np.float32], labels: Codes, classes: int, generator: np.random.Generator
) -> Codes:
    """any other class"""
    return (labels + generator.integers(1, classes, len(labels))) % classes


def flip_to_near(
    units: NDArray[np.float32], labels: Codes, classes: int, generator: np.random.Generator
) -> Codes:
    """a class of 3 nearest"""
    means = np.stack([units[labels == code].mean(axis=0) for code in range(classes)])
    squared = ((means[:, None] - means[None]) ** 2).sum(axis=2)
    near = np.argsort(squared, axis=1)[:, 1:4]
    return near[labels, generator.integers(0, near.shape[1], len(labels))]


Flip = type(flip_to_any)

if __name__ == "__main__":
    main()
