"""Measure whether the first prior image of a patient shows the same view as the query.

The queries are all images whose patient has another image of the same view; the first answer of `find_priors` is
looked at. Two images are of the same view if their label is the same, where both sides of a joint are one view with
`--same KneeL,KneeR`. No label but those of VIEW_LABELS, such as modality, is used to find the answer.

all: of all these queries. choice: of those whose patient also has images of another view. Intervals are of a
bootstrap over patients. Ways:

likeness: by the normalised vectors of searches alone.
product: as `GET /v1/images/ID/priors` does: images that differ in modality last, then by all values of the encoder.
profile: product, with the overlap of the images' 100 nearest images of other patients added.
neighbours: product, with the agreement of the labels of their 10 nearest images of other patients added.
local: product, with the share of matching local features (ORB, ratio test) added; only with --local.

    python -m bench.priors --collection DIR [--label label] [--same KneeL,KneeR] [--local] [--out FILE.md]
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.search import Searcher
from cbir.search.prior_studies import PriorRequest, find_priors
from cbir.settings import Settings
from cbir.store import Collection, Record

Floats = NDArray[np.float32]
Likeness = Callable[[int, NDArray[np.int64]], NDArray[np.float64]]
DRAWS = 2000  # of the bootstrap


class Patients(NamedTuple):
    """Images of patients with several: records, views, rows by patient, and vectors; and vectors of all images."""

    records: list[Record]
    views: NDArray[np.str_]
    rows: list[NDArray[np.int64]]
    vectors: Floats
    everything: Floats
    owners: NDArray[np.str_]  # patient key of each image of the collection; its id without one
    labels: NDArray[np.str_]  # of each image of the collection


class Figure(NamedTuple):
    """P@1 over queries, with its 95 % interval."""

    queries: int
    hits: int
    low: float
    high: float

    def text(self) -> str:
        """Return the figure for a table."""
        return f"{self.hits / max(1, self.queries):.4f} ({self.low:.3f} to {self.high:.3f}), {self.queries} queries"


def read_patients(collection: Collection, key: str, same: Sequence[str]) -> Patients:
    """Return the images of patients with at least two."""
    view = collection.view()
    by_number = dict(collection.iterate())
    everything = [by_number[int(number)] for number in view.gallery.ids]
    labels = np.array([record.labels.get(key, "") for record in everything])
    owners = np.array([record.patient_key or record.image_id for record in everything])
    of_patient = defaultdict(list)
    for row, record in enumerate(everything):
        if record.patient_key:
            of_patient[record.patient_key].append(row)
    chosen = [rows for rows in of_patient.values() if len(rows) > 1]
    kept = np.concatenate([np.array(rows) for rows in chosen])
    ends = np.cumsum([0, *map(len, chosen)])
    vectors = view.gallery.vectors(np.arange(len(view.gallery), dtype=np.int64))
    views = np.where(np.isin(labels[kept], same), "/".join(same), labels[kept])
    return Patients(
        [everything[row] for row in kept],
        views,
        [np.arange(start, stop) for start, stop in pairwise(ends)],
        vectors[kept],
        vectors,
        owners,
        labels,
    )


def measure(patients: Patients, first: Callable[[int, NDArray[np.int64]], int]) -> tuple[Figure, Figure]:
    """Return P@1 over all queries, and over those with a choice. `first`: the answer to a query among images."""
    outcomes: list[list[tuple[bool, bool]]] = []  # (hit, choice) of each query of a patient
    for rows in patients.rows:
        of_patient = []
        for query in rows:
            others = rows[rows != query]
            same = patients.views[others] == patients.views[query]
            if same.any():
                answer = first(int(query), others)
                of_patient.append((bool(patients.views[answer] == patients.views[query]), not same.all()))
        if of_patient:
            outcomes.append(of_patient)
    return _figure(outcomes, False), _figure(outcomes, True)


def _figure(outcomes: Sequence[Sequence[tuple[bool, bool]]], with_choice: bool) -> Figure:
    counted = [[hit for hit, choice in of_patient if choice or not with_choice] for of_patient in outcomes]
    table = np.array([(sum(hits), len(hits)) for hits in counted if hits]).reshape(-1, 2)
    random = np.random.default_rng(0)
    shares = []
    for _ in range(DRAWS if len(table) else 0):
        hits, queries = table[random.integers(0, len(table), len(table))].sum(axis=0)
        shares.append(hits / queries)
    low, high = np.quantile(shares, [0.025, 0.975]) if shares else (np.nan, np.nan)
    return Figure(int(table[:, 1].sum()), int(table[:, 0].sum()), float(low), float(high))


def product_scores(searcher: Searcher, patients: Patients) -> Likeness:
    """Return the likeness of the product, larger by 10 for each label of the view that does not differ."""
    position = {record.image_id: row for row, record in enumerate(patients.records)}
    answers: dict[int, dict[int, float]] = {}

    def likeness(query: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        if query not in answers:
            found = find_priors(
                searcher, patients.records[query].image_id, PriorRequest(limit=10**6, images=10**6)
            )
            images = (image for study in found.studies for image in study.images)
            answers[query] = {
                position[image.record.image_id]: image.likeness - 10 * len(image.differing)
                for image in images
            }
        return np.array([answers[query].get(int(other), -100.0) for other in others])

    return likeness


def neighbour_sets(patients: Patients, count: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest images of other patients (n, count) of each image, and their cosines."""
    nearest = np.empty((len(patients.vectors), count), np.int64)
    cosines = np.empty((len(patients.vectors), count), np.float32)
    keys = np.array([record.patient_key for record in patients.records])
    for start in range(0, len(keys), 256):
        page = slice(start, start + 256)
        alike = patients.vectors[page] @ patients.everything.T
        alike[keys[page][:, None] == patients.owners[None, :]] = -2
        best = np.argpartition(-alike, count, axis=1)[:, :count]
        nearest[page], cosines[page] = best, np.take_along_axis(alike, best, axis=1)
    return nearest, cosines


def with_profile(base: Likeness, patients: Patients) -> Likeness:
    """Add the cosine of two images' weights of their nearest images."""
    nearest, cosines = neighbour_sets(patients, 100)
    weights = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / 0.1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    own = [
        dict(zip(rows.tolist(), of.tolist(), strict=True)) for rows, of in zip(nearest, weights, strict=True)
    ]

    def likeness(query: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        ours = own[query]
        overlap = [sum(weight * ours.get(row, 0) for row, weight in own[other].items()) for other in others]
        return base(query, others) + np.array(overlap)

    return likeness


def with_labels(base: Likeness, patients: Patients) -> Likeness:
    """Add the cosine of the weights of the labels of two images' nearest images."""
    nearest, cosines = neighbour_sets(patients, 10)
    weights = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / 0.05)
    values, of_row = np.unique(patients.labels, return_inverse=True)
    votes = np.zeros((len(nearest), len(values)))
    for column, weight in zip(of_row[nearest].T, weights.T, strict=True):
        np.add.at(votes, (np.arange(len(votes)), column), weight)
    votes /= np.linalg.norm(votes, axis=1, keepdims=True)
    return lambda query, others: base(query, others) + votes[others] @ votes[query]


def with_local_features(base: Likeness, patients: Patients) -> Likeness:
    """Add the share of local features that match: ORB, whose nearest match is clearly nearer than the second."""
    finder, matcher = cv2.ORB_create(300), cv2.BFMatcher(cv2.NORM_HAMMING)
    features = [
        finder.detectAndCompute(cv2.imread(record.source, cv2.IMREAD_GRAYSCALE), None)[1]
        for record in patients.records
    ]

    def share(query: int, other: int) -> float:
        ours, theirs = features[query], features[other]
        if ours is None or theirs is None or len(theirs) < 2:
            return 0.0
        pairs = (pair for pair in matcher.knnMatch(ours, theirs, k=2) if len(pair) == 2)
        return sum(first.distance < 0.8 * second.distance for first, second in pairs) / len(ours)

    return lambda query, others: base(query, others) + np.array([share(query, int(each)) for each in others])


def main() -> None:
    """Print the figures, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--label", default="label")
    parser.add_argument("--same", default="KneeL,KneeR")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with Collection(options.collection) as collection:
        searcher = Searcher(collection, Settings())
        patients = read_patients(collection, options.label, options.same.split(","))
        product = product_scores(searcher, patients)
        ways: dict[str, Likeness] = {
            "likeness": lambda query, others: patients.vectors[others] @ patients.vectors[query],
            "product": product,
            "profile": with_profile(product, patients),
            "neighbours": with_labels(product, patients),
        }
        if options.local:
            ways["local"] = with_local_features(product, patients)
        rows, figures = [], {}
        for name, likeness in ways.items():
            everything, choice = measure(
                patients, lambda query, others, by=likeness: int(others[by(query, others).argmax()])
            )
            rows.append(f"| {name} | {everything.text()} | {choice.text()} |")
            figures[name] = {"all": everything._asdict(), "choice": choice._asdict()}
            print(rows[-1], flush=True)
        times = _milliseconds(searcher, patients.records)
    milliseconds = f"{np.median(times):.1f}, at the 95th percentile {np.quantile(times, 0.95):.1f}"
    print(f"milliseconds of an answer: median {milliseconds}")
    print(json.dumps({"figures": figures, "milliseconds": float(np.median(times))}))
    if options.out:
        table = ["| way | all | choice |", "| --- | --- | --- |", *rows]
        options.out.write_text(
            "\n".join([*table, "", f"Milliseconds of an answer: median {milliseconds}.", ""])
        )


def _milliseconds(searcher: Searcher, records: Sequence[Record]) -> NDArray[np.float64]:
    """Return the times of some answers."""
    times = []
    for index in np.random.default_rng(0).choice(len(records), min(300, len(records)), replace=False):
        began = time.perf_counter()
        find_priors(searcher, records[index].image_id, PriorRequest())
        times.append(1000 * (time.perf_counter() - began))
    return np.array(times)


if __name__ == "__main__":
    main()
