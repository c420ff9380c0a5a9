"""Compare the ascent on S-NDCG with its start, ridge regression on the gains 2^grade - 1.

For each setting of s-ndcg: S-NDCG of the lists in training (first fold) before and after the ascent; NDCG of lists
of 20 and quadratic kappa on left-out patients, with `--smoothing thresholds`; the difference of NDCG to the start
alone, with a 95 % interval over the lists. The vectors are those of a collection, the kernel is auto.

    python -m bench.s_ndcg --collection DIR [--where source=knee] [--folds 5]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.intervals import mean_interval
from cbir.evaluation.significance import group_folds
from cbir.learn.grading import SNdcgRanker
from cbir.learn.grading.graded_cases import read_graded_cases
from cbir.learn.grading.grader_evaluation import evaluate_grader
from cbir.store import Collection

SETTINGS: dict[str, dict[str, Any]] = {
    "no ascent (ridge regression)": {"steps": 0},
    "default: alpha 12": {},
    "alpha 0.2": {"alpha": 0.2},
    "alpha 2": {"alpha": 2.0},
    "alpha 30": {"alpha": 30.0},
    "start zero, no ascent": {"start": "zero", "steps": 0},
    "start zero": {"start": "zero"},
    "start zero, 200 steps of 0.1": {"start": "zero", "steps": 200, "rate": 0.1},
    "as printed, rate 0.001": {"form": "paper", "kernel": "linear", "rate": 1e-3},
}

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def compare_settings(X: Floats, y: Floats, patients: Integers, folds: int) -> None:
    """Print a row per setting.

    Parameters
    ----------
    X : (n, d) float64
        Features.
    y : (n,) float64
        Grades.
    patients : (n,) int
        Patient of each image.
    folds : int
        Folds by patient.
    """
    splits, reference = group_folds(y, patients, folds), np.zeros(0)
    for label, changed in SETTINGS.items():
        options = {"kernel": "auto", **changed}
        result = evaluate_grader("s-ndcg", X, y, splits, patients, smoothing="thresholds", options=options)
        train = splits[0][0]
        fitted = SNdcgRanker(**options).fit(X[train], y[train], patients[train])
        reference = reference if len(reference) else result.lists
        mean, low, high = mean_interval((result.lists - reference).tolist())
        print(
            f"| {label} | {fitted.objective_[0]:.4f} | {fitted.objective_[-1]:.4f} | {result.overall['ndcg']:.4f} | "
            f"{mean:+.4f} ({low:+.4f}, {high:+.4f}) | {result.overall['kappa']:.3f} |",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--collection", type=Path, required=True, help="collection with the label grade")
    options.add_argument("--where", action="append", help="condition on its images")
    options.add_argument("--folds", type=int, default=5)
    args = options.parse_args()
    with Collection(args.collection) as collection:
        cases = read_graded_cases(collection, "grade", collection.conditions(args.where or ()))
    X, y, patients = cases.vectors.astype(np.float64), cases.grades, cases.groups()
    print(f"{len(y)} images\n")
    print("| setting | S-NDCG at the start | after | NDCG (20) | less no ascent | kappa |")
    print("|---|---|---|---|---|---|")
    compare_settings(X, y, patients, args.folds)


if __name__ == "__main__":
    main()
