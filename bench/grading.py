"""Measure the cost and the accuracy of grading by ranking.

`cost`: seconds to fit each ranker on n images of 168 values, and the power of n that the time grows with (Figure 7 of
Huang et al. 2010). `phantoms`: synthetic slit-lamp images, segmented by the active shape model, their six features,
and grades by an observer who agrees with another on 65 % of images; ten folds (Table VIII). `images`: a folder
with a CSV file of path, grade and patient; huang2012, five folds by patient.

    python bench/grading.py [cost phantoms images] [--sizes 1000 10000 100000] [--count 1000]
                            [--manifest FOLDER/manifest.csv --source knee]
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from cbir import descriptors, grading
from cbir.datasets.phantoms.lens_phantom import draw_lens
from cbir.descriptors.slit_lamp import ActiveShapeModel, measure_lens
from cbir.grading import baselines
from cbir.grading.grader_evaluation import compare_graders, evaluate_grader
from cbir.images import read_images
from cbir.models.linear.grouped_folds import group_folds

DIMENSIONS = 168
AGREEMENT = 0.65  # of two observers (Klein et al. 1990, as Huang et al. 2010 cite it)
ANNOTATED = 40  # phantoms in the training of the shape model
SETS = (20, 50, 100)
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "s-ndcg": ("s-ndcg", {}),
    "s-ndcg exponential": ("s-ndcg", {"function": "exponential"}),
    "s-ndcg as printed": ("s-ndcg", {"form": "paper"}),
    "ranking-svm": ("ranking-svm", {}),
    "adarank": ("adarank", {}),
    "rankboost": ("rankboost", {}),
}

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]


def cost(sizes: list[int]) -> Rows:
    """Measure the seconds to fit, and the power of n between the smallest and the largest size."""
    random, rows = np.random.default_rng(0), []
    weights = random.normal(size=DIMENSIONS) / DIMENSIONS**0.5
    vectors = random.normal(size=(max(sizes), DIMENSIONS)).astype(np.float32)
    grades = np.clip(np.rint(2 + vectors @ weights + 0.7 * random.normal(size=len(vectors))), 0, 4)
    schemes: dict[str, tuple[str, dict[str, Any]]] = {
        "s-ndcg": ("s-ndcg", {}),
        "s-ndcg, one list": ("s-ndcg", {"list_size": None}),
        "ranking-svm": ("ranking-svm", {}),
        "rankboost": ("rankboost", {}),
        "adarank": ("adarank", {}),
    }
    for label, (name, options) in schemes.items():
        row: dict[str, Any] = {"ranker": label}
        for size in sizes:
            started = time.perf_counter()
            grading.make_ranker(name, **options).fit(vectors[:size], grades[:size])
            row[f"{size}"] = time.perf_counter() - started
        if len(sizes) > 1:
            growth = np.log(row[f"{sizes[-1]}"] / row[f"{sizes[0]}"]) / np.log(sizes[-1] / sizes[0])
            row["power of n"] = float(growth)
        rows.append(row)
    return rows


def observe(severity: Floats, random: np.random.Generator) -> Floats:
    """Draw an observer's whole grades, with the scatter at which two observers agree on 65 % of images."""
    first, second = random.normal(size=(2, 200, len(severity)))

    def excess(scatter: float) -> float:
        return (
            float((np.rint(severity + scatter * first) == np.rint(severity + scatter * second)).mean())
            - AGREEMENT
        )

    return np.rint(severity + brentq(excess, 0.01, 3.0) * random.normal(size=len(severity)))


def phantoms(count: int, scatter: float) -> tuple[Floats, Floats]:
    """Return features (count, 6) of segmented lenses, and an observer's grades (count,), mostly 1 to 4."""
    random = np.random.default_rng(0)
    annotated = [draw_lens(grade, random, scatter=scatter) for grade in random.uniform(0.5, 4.5, ANNOTATED)]
    model = ActiveShapeModel().fit(
        [grey(phantom.pixels) for phantom in annotated], [phantom.contour for phantom in annotated]
    )
    severity, features = random.uniform(0.5, 4.5, count), []
    for grade in severity:
        phantom = draw_lens(grade, random, scatter=scatter)
        features.append(measure_lens(phantom.pixels, model.find(grey(phantom.pixels))))
    return np.array(features), observe(severity, random)


def grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert RGB to grey."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def table(X: Floats, y: Floats, patients: NDArray[np.int64], folds: int, smoothing: Any) -> Rows:
    """Return a row per scheme: share within one, mean error and NDCG for each list size, and the other measures."""
    splits, rows = group_folds(y, patients, folds), []
    schemes = SCHEMES | {name: (name, {}) for name in baselines.names()}
    for label, (name, options) in schemes.items():
        row: dict[str, Any] = {"scheme": label}
        started = time.perf_counter()
        for size in SETS:
            scheme_options = options if name in baselines.names() else {"list_size": size, **options}
            result = evaluate_grader(name, X, y, splits, patients, size, smoothing, options=scheme_options)
            row[f"within 1 ({size})"], row[f"mae ({size})"] = (
                result.overall["within_one"],
                result.overall["mae"],
            )
            row[f"ndcg ({size})"] = result.overall["ndcg"]
        row |= {"exact": result.overall["exact"], "kappa": result.overall["kappa"]}
        row["seconds"] = time.perf_counter() - started
        rows.append(row)
    return rows


def tuned_table(X: Floats, y: Floats, patients: NDArray[np.int64], folds: int) -> Rows:
    """Return a row per scheme with the defaults of the commands: tuned features and thresholds."""
    splits, rows = group_folds(y, patients, folds), []
    for name in ("s-ndcg", "ranking-svm", "regression", "ordinal"):
        started = time.perf_counter()
        method = evaluate_grader(
            name, X, y, splits, patients, smoothing="thresholds", options={"kernel": "auto"}
        )
        rows.append({"scheme": name, **method.overall, "seconds": time.perf_counter() - started})
    return rows


def differences(X: Floats, y: Floats, patients: NDArray[np.int64], folds: int) -> list[str]:
    """Describe the analysis of variance and Tukey's test of the rankers' NDCG, lists of 20."""
    splits = group_folds(y, patients, folds)
    names = [*grading.names(), *baselines.names()]
    p, compared = compare_graders([evaluate_grader(name, X, y, splits, patients) for name in names])
    significant = [f"{pair.one} - {pair.other} {pair.difference:+.3f}" for pair in compared if pair.p < 0.05]
    return [
        f"one-way analysis of variance: p = {p:.2g}",
        "p < 0.05 by Tukey's test: " + ("; ".join(significant) or "none"),
    ]


def read_images_and_grades(manifest: Path, source: str | None) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return huang2012 (n, 168), grades (n,) and patient numbers (n,) of the graded images of a csv."""
    with manifest.open(newline="") as file:
        lines = [
            line for line in csv.DictReader(file) if line["grade"] and source in (None, line.get("source"))
        ]
    describe = descriptors.get("huang2012")
    X = np.stack([describe(next(iter(read_images(manifest.parent / line["path"])))) for line in lines])
    patients = np.unique([line["patient"] or line["path"] for line in lines], return_inverse=True)[1]
    return X.astype(np.float64), np.array([float(line["grade"]) for line in lines]), patients


def show(title: str, rows: Rows) -> None:
    """Print a table and its JSON line."""
    print(f"\n{title}")
    columns = list(rows[0])
    print("  ".join([f"{columns[0]:20}", *(f"{column:>13}" for column in columns[1:])]))
    for row in rows:
        print("  ".join([f"{row[columns[0]]:20}", *(f"{row[column]:>13.4f}" for column in columns[1:])]))
    print(json.dumps(rows), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("parts", nargs="*", default=["cost", "phantoms"])
    options.add_argument("--sizes", nargs="+", type=int, default=[1000, 3000, 10_000, 30_000, 100_000])
    options.add_argument(
        "--scatter",
        nargs="+",
        type=float,
        default=[1.0, 4.0],
        help="factor of the differences between lenses of one grade",
    )
    options.add_argument("--count", type=int, default=1000, help="number of phantoms")
    options.add_argument(
        "--manifest", type=Path, help="CSV file of path, grade and patient, in the folder of its images"
    )
    options.add_argument("--source", help="only rows with this source")
    args = options.parse_args()
    if "cost" in args.parts:
        show(f"seconds to fit n x {DIMENSIONS}", cost(args.sizes))
    if "phantoms" in args.parts:
        for scatter in args.scatter:
            X, y = phantoms(args.count, scatter)
            each = np.arange(len(y))
            for smoothing in (1, "auto"):
                title = f"{args.count} phantoms, scatter {scatter:g}, smoothing {smoothing}"
                show(title, table(X, y, each, 10, smoothing))
            show(f"{args.count} phantoms, scatter {scatter:g}, tuned", tuned_table(X, y, each, 10))
            print("\n".join(differences(X, y, each, 10)))
    if args.manifest and ("images" in args.parts or args.parts == ["cost", "phantoms"]):
        X, y, patients = read_images_and_grades(args.manifest, args.source)
        for smoothing in (1, "auto"):
            show(f"{len(y)} images, smoothing {smoothing}", table(X, y, patients, 5, smoothing))
        show(f"{len(y)} images, tuned", tuned_table(X, y, patients, 5))
        print("\n".join(differences(X, y, patients, 5)))


if __name__ == "__main__":
    main()
