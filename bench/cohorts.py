"""Measure how many images a person looks at until a class is found, and how good the estimates are.

A simulated person judges by the label, from three random images of a class. Classes in alphabetical order are
divided: on those with even places constants were chosen, those with odd places are reported. In each class:

found by 90 %: judged images until 90 % of the class are found, with the first three; inf if that takes more than
random order.
random order: the same in random order, on average.
all labels: the same in the order of a logistic regression that scores each fifth of the images after it was trained
with the labels of the other four fifths: never with the image itself, but with others of its patient. times: found by
90 %, as a multiple of it. other patients: the same with folds by patient, in the better of two orders: as it is, and
with the first image of a patient that is of the class followed by all others of the patient. Images without a patient
count as one each.
covered: share of the rounds in which the 95 % interval holds the true number of missing images, from the second round
until the class is found and 100 further images are judged, or until 90 % are found and three times the class and 300
images are judged; late: from a recall of .8. width: of the interval then, as a share of the class, the median.
complete: recall, and judged images as a multiple of the class, at the first advice to stop; nearly: at the first
advice that the cohort is nearly complete, or complete. Both are means of the runs in which the advice came.

    python -m bench.cohorts --collection DIR [--label label] [--half odd|even] [--seeds 3] [--candidates 2000]
        [--index hnsw|ivf] [--drawn 1000000] [--out FILE.md]
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, StratifiedKFold

from cbir.gallery.vector_blocks import VectorBlocks
from cbir.search import Searcher
from cbir.search.cohorts.cohort_pool import CohortPool, collect_pool, find_companions
from cbir.search.cohorts.cohort_round import CohortRound
from cbir.search.cohorts.missing_images import JudgedImage
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index

SHARE = 0.9  # of a class
STARTS = 3
LEAST = 15  # images of a class
LATE = 0.8  # recall from which the width of intervals is reported


class Labelled(NamedTuple):
    """Images of a collection: numbers, ascending, labels, patients and the searcher."""

    searcher: Searcher
    numbers: NDArray[np.int64]
    labels: NDArray[np.str_]
    patients: NDArray[np.str_]


class Stop(NamedTuple):
    """First advice of a kind: the recall, and the judged images as a multiple of the class; nan if never."""

    recall: float = float("nan")
    judged: float = float("nan")


class Run(NamedTuple):
    """A simulated cohort: judged images until SHARE is found, and per round the truth and the estimate."""

    judged: float
    rounds: NDArray[np.float64]  # recall, missing, low, high, expected
    complete: Stop
    nearly: Stop
    milliseconds: NDArray[np.float64]


def read_labelled(searcher: Searcher, key: str) -> Labelled:
    """Return the labelled images of a collection."""
    images = [
        (number, record.labels.get(key, ""), record.patient_key or record.image_id)
        for number, record in searcher.collection.iterate()
    ]
    numbers, labels, patients = zip(*images, strict=True)
    return Labelled(searcher, np.array(numbers), np.array(labels), np.array(patients))


def random_order(count: int, images: int) -> float:
    """Return how many images are judged on average in random order until SHARE of `count` are found."""
    return float(np.ceil(SHARE * count) * (images + 1) / (count + 1))


def simulate(images: Labelled, label: str, seed: int, reuse_pool: bool) -> Run:
    """Judge in rounds until the class is found, see above."""
    truth = images.labels == label
    total, random = int(truth.sum()), np.random.default_rng(seed)
    needed = int(np.ceil(SHARE * total))
    relevant = dict(zip(images.numbers.tolist(), truth.tolist(), strict=True))
    start = random.choice(images.numbers[truth], STARTS, replace=False)
    judged = {int(number): JudgedImage(str(number), True) for number in start}
    most = random_order(total, len(truth))
    cost, after, rounds, times = 0, 0, [], []
    complete, nearly = Stop(), Stop()
    pool: CohortPool | None = None
    while after <= 100 and len(judged) < (3 * total + 300 if cost else most):
        numbers = np.array(list(judged))
        began = time.process_time()
        is_relevant = np.array([each.relevant for each in judged.values()])
        companions = find_companions(images.searcher.collection, numbers[is_relevant], numbers[~is_relevant])
        if pool is None or not reuse_pool:
            pool = collect_pool(images.searcher, [], numbers[is_relevant], numbers, companions.numbers)
        current = CohortRound(pool, list(judged.values()), np.searchsorted(pool.numbers, numbers), companions)
        batch, estimate = current.next_images(), current.missing()
        times.append(1000 * (time.process_time() - began))
        missing = total - estimate.found
        rounds.append((estimate.found / total, missing, estimate.low, estimate.high, estimate.missing))
        now = Stop(estimate.found / total, len(judged) / total)
        if estimate.advice != "continue" and np.isnan(nearly.recall):
            nearly = now
        if estimate.advice == "complete" and np.isnan(complete.recall):
            complete = now
        for number, probability, drawn in batch:
            judged[number] = JudgedImage(str(number), relevant[number], probability, drawn)
            found = sum(each.relevant for each in judged.values()) if not cost else needed
            cost = cost or (len(judged) if found >= needed else 0)
        after += len(batch) if not missing else 0
        if not batch:
            break
    return Run(cost or float("inf"), np.array(rounds[1:]), complete, nearly, np.array(times))


def cost_with_all_labels(
    vectors: NDArray[np.float32], truth: NDArray[np.bool_], patients: NDArray[np.str_] | None = None
) -> int:
    """Return how many images are judged in the order of a classifier trained with all labels but those of the fold.

    With patients, all images of a patient are in the same fold, and may follow the first one that is of the class.
    """
    scores = np.empty(len(truth))
    scaled = (vectors - vectors.mean(axis=0)) / vectors.std()
    if patients is None:
        splits = StratifiedKFold(5, shuffle=True, random_state=0).split(scaled, truth)
    else:
        splits = PredefinedSplit(folds_by_patient(truth, patients)).split()
    for train, test in splits:
        model = LogisticRegression(C=1.0, solver="newton-cholesky").fit(scaled[train], truth[train])
        scores[test] = model.decision_function(scaled[test])
    orders = [np.argsort(-scores)]
    if patients is not None:
        orders.append(companions_next(orders[0], truth, patients))
    needed = np.ceil(SHARE * truth.sum())
    return min(int(np.searchsorted(np.cumsum(truth[order]), needed)) + 1 for order in orders)


def companions_next(
    order: NDArray[np.int64], truth: NDArray[np.bool_], patients: NDArray[np.str_]
) -> NDArray[np.int64]:
    """Return an order of images in which one of the class is followed by all others of its patient."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    _, codes = np.unique(patients, return_inverse=True)
    first = np.full(codes.max() + 1, len(order))  # rank of the first image of the class of each patient
    np.minimum.at(first, codes[truth], ranks[truth])
    return np.lexsort((ranks, np.minimum(ranks, first[codes])))


def folds_by_patient(truth: NDArray[np.bool_], patients: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return a fold of five for each image, with all images of a patient in the same and the class in all."""
    names, codes = np.unique(patients, return_inverse=True)
    with_class = np.bincount(codes, truth) > 0
    order = np.lexsort((np.random.default_rng(0).permutation(len(names)), with_class))
    folds = np.empty(len(names), np.int64)
    folds[order] = np.arange(len(names)) % 5
    return folds[codes]


def measure_class(images: Labelled, label: str, seeds: int, reuse_pool: bool) -> dict[str, Any]:
    """Return the figures of a class."""
    truth = images.labels == label
    runs = [simulate(images, label, seed, reuse_pool) for seed in range(seeds)]
    view = images.searcher.collection.view()
    vectors = view.gallery.vectors(view.rows_of(images.numbers))
    best, strict = (cost_with_all_labels(vectors, truth, patients) for patients in (None, images.patients))
    rounds = np.concatenate([run.rounds for run in runs])
    covered = (rounds[:, 2] <= rounds[:, 1]) & (rounds[:, 1] <= rounds[:, 3])
    late = rounds[:, 0] >= LATE
    count = int(truth.sum())
    cost = float(np.mean([run.judged for run in runs]))
    chance = random_order(count, len(truth))
    return {
        "label": label, "images": count, "cost": cost, "random": chance, "of_random": cost / chance,
        "all_labels": best, "ratio": cost / best, "other_patients": strict,
        "covered": float(covered.mean()),
        "covered_late": float(covered[late].mean()) if late.any() else float("nan"),
        "width_late": float(np.median((rounds[late, 3] - rounds[late, 2]) / count)) if late.any() else float("nan"),
        "complete": [run.complete for run in runs],
        "nearly": [run.nearly for run in runs],
        "ms": float(np.median(np.concatenate([run.milliseconds for run in runs]))),
        "ms_slowest": float(np.concatenate([run.milliseconds for run in runs]).max()),
    }  # fmt: skip


def interval(values: Sequence[float], statistic: Callable[[NDArray[np.float64]], Any]) -> str:
    """Return a statistic over classes with its 95 % interval, by drawing classes again (bootstrap)."""
    numbers = np.array([value for value in values if not np.isnan(value)])
    if not len(numbers):
        return "-"
    random = np.random.default_rng(0)
    drawn = [statistic(random.choice(numbers, len(numbers))) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{statistic(numbers):.2f} ({low:.2f} to {high:.2f})"


def time_drawn(count: int, dimensions: int) -> float:
    """Return the milliseconds of a round in drawn vectors, with 200 judged images."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((count, dimensions), dtype=np.float32)
    pool = CohortPool(np.arange(count), VectorBlocks((vectors,)), None, np.ones(count), count)
    rows = np.sort(random.choice(count, 200, replace=False))
    judged = [JudgedImage(str(row), bool(vectors[row, 0] > 0), 0.5) for row in rows]
    times = []
    for _ in range(3):
        began = time.process_time()
        current = CohortRound(pool, judged, rows)
        current.next_images()
        current.missing()
        times.append(1000 * (time.process_time() - began))
    return float(np.median(times))


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines over all classes."""
    return [
        f"- judged, as a share of random order: median {interval([row['of_random'] for row in rows], np.median)}, "
        f"at most a third in {sum(row['of_random'] <= 1 / 3 for row in rows)} of {len(rows)} classes",
        f"- judged, times those of a classifier with all labels: median "
        f"{interval([row['ratio'] for row in rows], np.median)}, at most 1.3 in "
        f"{sum(row['ratio'] <= 1.3 for row in rows)} of {len(rows)} classes; of one that knows other patients in "
        f"{sum(row['cost'] <= 1.3 * row['other_patients'] for row in rows)}",
        f"- covered: {interval([row['covered'] for row in rows], np.mean)}, from a recall of {LATE}: "
        f"{interval([row['covered_late'] for row in rows], np.mean)}; width of the interval there, as a share of the "
        f"class: median {interval([row['width_late'] for row in rows], np.median)}",
        stops_line("to stop", [stop for row in rows for stop in row["complete"]], 0.95),
        stops_line("nearly complete", [stop for row in rows for stop in row["nearly"]], 0.9),
        f"- milliseconds of processor time of a round: median {np.median([row['ms'] for row in rows]):.0f}, slowest "
        f"{max(row['ms_slowest'] for row in rows):.0f}",
    ]


def stops_line(advice: str, stops: Sequence[Stop], goal: float) -> str:
    """Return how often an advice came, and what was found and judged then."""
    given = [stop for stop in stops if np.isfinite(stop.recall)]
    line = f"- the advice {advice} came in {len(given)} of {len(stops)} runs"
    if not given:
        return line
    return (
        f"{line}, at a recall of at least {goal} in {sum(stop.recall >= goal for stop in given)} of these, least "
        f"{min(stop.recall for stop in given):.2f}; judged until then, times the class: median "
        f"{np.median([stop.judged for stop in given]):.2f}"
    )


def mean_stop(stops: Sequence[Stop]) -> str:
    """Return the mean recall and the mean multiple of the class of the runs in which an advice came."""
    given = np.array([stop for stop in stops if np.isfinite(stop.recall)])
    return "{:.2f}, {:.2f}".format(*given.mean(axis=0)) if len(given) else "-"


def document(parts: Sequence[tuple[str, Sequence[dict[str, Any]]]], drawn: str) -> str:
    """Return the figures as a Markdown page."""
    lines = ["# Cohorts", "", f"Figures of `bench/cohorts.py`; its text says what they mean. {drawn}", ""]
    for title, rows in parts:
        lines += [f"## {title}", "", *summary(rows), ""]
        lines += [
            "| class | images | found by 90 % | random order | share | all labels | times | other patients | "
            "covered | late | width | nearly | complete |",
            f"|{' --- |' * 13}",
        ]
        lines += [
            f"| {row['label']} | {row['images']} | {row['cost']:.0f} | {row['random']:.0f} | "
            f"{row['of_random']:.2f} | {row['all_labels']} | {row['ratio']:.2f} | {row['other_patients']} | "
            f"{row['covered']:.2f} | {row['covered_late']:.2f} | {row['width_late']:.2f} | "
            f"{mean_stop(row['nearly'])} | {mean_stop(row['complete'])} |"
            for row in rows
        ]
        lines.append("")
    return "\n".join(lines)


def write(path: Path | None, parts: Sequence[tuple[str, Sequence[dict[str, Any]]]], drawn: str) -> None:
    """Write the page, if a file is named."""
    if path:
        path.write_text(document(parts, drawn) + "\n", encoding="utf-8")


def indexed_searcher(folder: Path, name: Literal["hnsw", "ivf"], candidates: int) -> Searcher:
    """Return a searcher behind a vector index, which is built if it is missing."""
    collection, settings = Collection(folder), Settings(index=name, indexed_candidates=candidates)
    index = open_index(collection, settings)
    assert index is not None
    index.follower.follow()
    return Searcher(collection, settings, index.vectors)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--label", default="label", help="label with the class")
    parser.add_argument(
        "--half", choices=["odd", "even"], default="odd", help="even: on which constants were chosen"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=0, help="with an index that finds so many images")
    parser.add_argument("--index", choices=["hnsw", "ivf"], default="hnsw", help="which, for --candidates")
    parser.add_argument("--each", type=int, default=1, help="only each so many of the classes")
    parser.add_argument("--drawn", type=int, default=0, help="also time a round in so many drawn vectors")
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    if options.candidates:
        title = f"With an index ({options.index}) that finds {options.candidates} images of each example"
        searcher = indexed_searcher(options.collection, options.index, options.candidates)
    else:
        title = "All images compared"
        searcher = Searcher(Collection(options.collection), Settings(device="cpu"))
    images = read_labelled(searcher, options.label)
    names, counts = np.unique(images.labels, return_counts=True)
    chosen = [
        str(name)
        for place, (name, count) in enumerate(zip(names, counts, strict=True))
        if name and count >= LEAST and place % 2 == (options.half == "odd")
    ]
    rows: list[dict[str, Any]] = []
    parts = [(title, rows)]
    for name in chosen[:: options.each]:
        rows.append(measure_class(images, name, options.seeds, reuse_pool=not options.candidates))
        print(rows[-1], flush=True)
        write(options.out, parts, "")
    drawn = ""
    if options.drawn:
        taken = time_drawn(options.drawn, 128)
        drawn = (
            f"A round in {options.drawn} drawn vectors of 128 values takes {taken:.0f} ms of processor time."
        )
    text = document(parts, drawn)
    print(text)
    write(options.out, parts, drawn)
    if options.json:
        options.json.write_text(json.dumps(parts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
