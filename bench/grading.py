"""Measure the cost and the accuracy of grading by ranking.

`cost`: seconds to fit each ranker on n images of 168 values, and the power of n that the time grows with (Figure 7 of
Huang et al. 2010). `phantoms`: synthetic slit-lamp images, segmented by the active shape model, their six features,
and grades by an observer who agrees with another on 65 % of images; ten folds (Table VIII). `tables`: NDCG of the
same by fold, with Tukey's test, for lists of 20, 50 and 100 (Tables II to VII). `figure`: 20 of them in the order of
four rankers (Figure 5). `images`: a folder with a CSV file of path, grade and patient; huang2012, five folds by
patient.
`lenses`: how well the shape model finds new lenses, by its number of training images.

    python bench/grading.py [cost phantoms tables images lenses] [--sizes 1000 10000 100000] [--count 1000]
                            [--manifest FOLDER/manifest.csv --source knee]
    python bench/grading.py figure --scatter 4 --out docs/slit_lamp_ranking.png
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from grading_tables import SIZES, draw_rankings, ranking_tables, significant_differences
from lens_cases import PICTURED, Cases, lenses, observe, phantoms
from numpy.typing import NDArray

from cbir import descriptors
from cbir.evaluation.significance import group_folds
from cbir.images import read_images
from cbir.learn import grading
from cbir.learn.grading import baselines
from cbir.learn.grading.grader_evaluation import evaluate_grader

DIMENSIONS = 168
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "s-ndcg": ("s-ndcg", {}),
    "s-ndcg exponential": ("s-ndcg", {"function": "exponential"}),
    "s-ndcg as printed": ("s-ndcg", {"form": "paper", "rate": 0.001}),  # 168 values leave its domain at 0.05
    "ranking-svm": ("ranking-svm", {}),
    "adarank": ("adarank", {}),
    "rankboost": ("rankboost", {}),
}
FIGURED = {"S-NDCG": "s-ndcg", "RankBoost": "rankboost", "AdaRank": "adarank", "RankingSVM": "ranking-svm"}

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


def ranking_figure(cases: Cases, y: Floats, out: Path) -> None:
    """Draw the last 20 of the phantoms in the order of four rankers that learned from the others' grades `y`."""
    rows = np.arange(len(y) - PICTURED, len(y))
    orders = {}
    for title, label in FIGURED.items():
        name, options = SCHEMES[label]
        ranker = grading.make_ranker(name, **({"list_size": 20} | options))
        ranker.fit(cases.features[: rows[0]], y[: rows[0]])
        orders[title] = np.argsort(-ranker.predict(cases.features[rows]), kind="stable")
    draw_rankings(cases.pictures, np.rint(cases.severity[rows]), orders, out)


def table(X: Floats, y: Floats, patients: NDArray[np.int64], folds: int, smoothing: Any) -> Rows:
    """Return a row per scheme: share within one, mean error and NDCG for each list size, and the other measures."""
    splits, rows = group_folds(y, patients, folds), []
    schemes = SCHEMES | {name: (name, {}) for name in baselines.names()}
    for label, (name, options) in schemes.items():
        row: dict[str, Any] = {"scheme": label}
        started = time.perf_counter()
        for size in SIZES:
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


def print_differences(X: Floats, y: Floats, patients: NDArray[np.int64], folds: int) -> None:
    """Print the analysis of variance and Tukey's test of NDCG of all methods, for each size of lists."""
    schemes = SCHEMES | {name: (name, {}) for name in baselines.names()}
    print("\n| lists of | p | p < 0.05 by Tukey's test |\n|---|---|---|")
    for line in significant_differences(X, y, patients, folds, schemes):
        print(line, flush=True)


def show(title: str, rows: Rows) -> None:
    """Print a table and its JSON line."""
    print(f"\n{title}")
    columns = list(rows[0])
    print("  ".join([f"{columns[0]:20}", *(f"{column:>13}" for column in columns[1:])]))
    for row in rows:
        print("  ".join([f"{row[columns[0]]:20}", *(f"{row[column]:>13.4f}" for column in columns[1:])]))
    print(json.dumps(rows), flush=True)


def grade_phantoms(cases: Cases, scatter: float, parts: list[str], out: Path) -> None:
    """Print the tables of `parts` for phantoms of a scatter, and draw the figure into `out`."""
    X, y = cases.features, observe(cases.severity, np.random.default_rng(1))
    each, title = np.arange(len(y)), f"{len(y)} phantoms, scatter {scatter:g}"
    if "figure" in parts:
        ranking_figure(cases, y, out)
    if "tables" in parts:
        print(f"\n{title}")
        for line in ranking_tables(X, y, each, 10, SCHEMES):
            print(line, flush=True)
    if "phantoms" in parts:
        for smoothing in (1, "auto"):
            show(f"{title}, smoothing {smoothing}", table(X, y, each, 10, smoothing))
        show(f"{title}, tuned", tuned_table(X, y, each, 10))
        print_differences(X, y, each, 10)


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
    options.add_argument("--out", type=Path, default=Path("slit_lamp_ranking.png"), help="file of the figure")
    args = options.parse_args()
    if "cost" in args.parts:
        show(f"seconds to fit n x {DIMENSIONS}", cost(args.sizes))
    for scatter in args.scatter:
        if {"phantoms", "tables", "figure"} & set(args.parts):
            grade_phantoms(phantoms(args.count, scatter), scatter, args.parts, args.out)
    if "lenses" in args.parts:
        show("outlines of new lenses, % of the height", lenses(args.count))
    if args.manifest and ("images" in args.parts or args.parts == ["cost", "phantoms"]):
        X, y, patients = read_images_and_grades(args.manifest, args.source)
        for smoothing in (1, "auto"):
            show(f"{len(y)} images, smoothing {smoothing}", table(X, y, patients, 5, smoothing))
        show(f"{len(y)} images, tuned", tuned_table(X, y, patients, 5))
        print_differences(X, y, patients, 5)


if __name__ == "__main__":
    main()
