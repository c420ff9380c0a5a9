"""What searching at several sites loses against one collection with the images of all: bench/results/federation.md.

The images of a collection are split by patient into sites, which share its transform; an image without a patient
is a patient by itself. Queries are labelled images, drawn evenly from the classes, whose own patients are left out.
Without re-ranking the merged list is compared with that of the whole collection, image by image. Re-ranked, each site
re-ranks its own images, and the lists are merged by rank, as the service does, by score, and by distance.

    OMP_NUM_THREADS=1 python bench/federation.py --collection DIR [--sites 3] [--queries 200] [--out FILE.md]
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from intervals import mean_interval

from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base.normalisation import Statistics
from cbir.store.writing.writer import Entry
from service.features.federation.federated_search import merge_by_distance, merge_by_rank
from service.features.federation.site_agreement import transform_fingerprint

DEPTH = 100  # results of a search
METHODS = ("none", "aqe", "k-reciprocal", "eprf", "diffusion")
MERGES = ("by rank", "by score", "by distance")
BATCH = 500


class Found(NamedTuple):
    """A result: source of the image, label, distance and score."""

    source: str
    label: str
    distance: float
    score: float


class Query(NamedTuple):
    """A labelled image to search with."""

    raw: np.ndarray
    record: Record


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--label", default="label")
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for the tables, besides printing them")
    return parser.parse_args()


def split(entries: Sequence[Entry], sites: int, random: np.random.Generator) -> list[list[Entry]]:
    """Split images by patient; one without a patient is alone."""
    keys = [record.patient_key or record.source for record, _ in entries]
    site_of = {key: int(random.integers(sites)) for key in sorted(set(keys))}
    parts: list[list[Entry]] = [[] for _ in range(sites)]
    for key, entry in zip(keys, entries, strict=True):
        parts[site_of[key]].append(entry)
    return parts


def make(folder: Path, source: Collection, entries: Sequence[Entry], statistics: Statistics) -> Collection:
    """Create a collection of these images that shares a transform."""
    collection = Collection.create(folder, source.profile, source.secret)
    with collection.writer() as writer:
        for start in range(0, len(entries), BATCH):
            writer.add(entries[start : start + BATCH], duplicates=True)
        writer.adopt_statistics(statistics, fitted_here=False)
    assert transform_fingerprint(collection.normalisation()) == transform_fingerprint(statistics)
    return collection


def search(searcher: Searcher, query: Query, method: str, label: str) -> list[Found]:
    """Return the first DEPTH results, without those of the query's own patient."""
    patient = query.record.patient_key
    request = Request(k=DEPTH, rerank=method, exclude_patient_key=patient)
    ranked = searcher.rank(query.raw, query.record.content_hash, request, Stopwatch())
    numbers = ranked.numbers.tolist()
    records = searcher.collection.records(numbers)
    return [
        Found(records[number].source, records[number].labels.get(label, ""), float(distance), float(score))
        for number, distance, score in zip(numbers, ranked.distances, ranked.reported, strict=True)
    ]


def merge(lists: Sequence[list[Found]], how: str) -> list[Found]:
    if how == "by rank":
        return merge_by_rank(lists, DEPTH)
    if how == "by distance":
        together = [found for each in lists for found in each]
        return sorted(together, key=lambda found: found.distance)[:DEPTH]
    return sorted((found for each in lists for found in each), key=lambda found: -found.score)[:DEPTH]


def quality(results: Sequence[Found], label: str) -> tuple[float, float, float]:
    """Return precision of the first, of the first 10, and average precision of the results."""
    right = np.array([found.label == label for found in results], float)
    if not len(right):
        return 0.0, 0.0, 0.0
    precisions = np.cumsum(right) / np.arange(1, len(right) + 1)
    average = float((precisions * right).sum() / max(right.sum(), 1.0))
    return float(right[0]), float(right[:10].mean()), average


def draw(entries: Sequence[Entry], label: str, count: int, random: np.random.Generator) -> list[Query]:
    """Draw labelled images, from each class in turn."""
    classes: dict[str, list[Entry]] = {}
    for entry in entries:
        if value := entry[0].labels.get(label):
            classes.setdefault(value, []).append(entry)
    shuffled = [
        [members[index] for index in random.permutation(len(members))] for members in classes.values()
    ]
    turns = [
        members[turn]
        for turn in range(max(map(len, shuffled)))
        for members in shuffled
        if turn < len(members)
    ]
    return [Query(np.asarray(raw), record) for record, raw in turns[:count]]


def compare(
    pooled: Searcher, sites: Sequence[Searcher], queries: Sequence[Query], label: str
) -> tuple[list[str], dict[str, float]]:
    """Return the lines of the table of methods, and facts about searches without re-ranking."""
    lines, facts = list[str](), {"same": 0.0, "rounding": 0.0, "moved": 0.0}
    for method in METHODS:
        started = time.process_time()
        whole: list[tuple[float, float, float]] = []
        merged: dict[str, list[tuple[float, float, float]]] = {how: [] for how in MERGES}
        for query in queries:
            value = query.record.labels[label]
            expected = search(pooled, query, method, label)
            lists = [search(site, query, method, label) for site in sites]
            whole.append(quality(expected, value))
            if method == "none":
                found = merge_by_distance(lists, DEPTH)
                sources = [item.source for item in found] == [item.source for item in expected]
                facts["same"] += sources and all(
                    one.distance == other.distance for one, other in zip(found, expected, strict=True)
                )
                pairs = zip(found, expected, strict=True)
                facts["rounding"] = max(facts["rounding"], *(abs(a.distance - b.distance) for a, b in pairs))
                facts["moved"] += not sources
                merged["by distance"].append(quality(found, value))
                continue
            for how in MERGES:
                merged[how].append(quality(merge(lists, how), value))
        seconds = (time.process_time() - started) / len(queries)
        print(f"{method}: {seconds:.2f} s of processor time a query", flush=True)
        lines += table_lines(method, np.array(whole), merged)
    return lines, facts


def table_lines(
    method: str, whole: np.ndarray, merged: dict[str, list[tuple[float, float, float]]]
) -> list[str]:
    """Return a line for one collection, and one for each way of merging with the difference of average precision."""
    figures = " | ".join(f"{mean:.3f}" for mean in whole.mean(axis=0))
    lines = [f"| {method} | one collection | {figures} | |"]
    for how, rows in merged.items():
        if not rows:
            continue
        values = np.array(rows)
        figures = " | ".join(f"{mean:.3f}" for mean in values.mean(axis=0))
        lost, low, high = mean_interval((values[:, 2] - whole[:, 2]).tolist())
        lines.append(f"| {method} | sites, {how} | {figures} | {lost:+.3f} ({low:+.3f} to {high:+.3f}) |")
    return lines


def main() -> None:
    arguments = options()
    random = np.random.default_rng(arguments.seed)
    settings = Settings(device="cpu")
    with Collection(arguments.collection) as source, tempfile.TemporaryDirectory() as temporary:
        numbers = source.view().gallery.ids
        raw, statistics = source.raw_vectors(numbers), source.normalisation()
        records = source.records(numbers.tolist())
        entries = [(records[number], vector) for number, vector in zip(numbers.tolist(), raw, strict=True)]
        parts = split(entries, arguments.sites, random)
        queries = draw(entries, arguments.label, arguments.queries, random)
        together = [entry for part in parts for entry in part]
        collections = [
            make(Path(temporary) / str(index), source, part, statistics)
            for index, part in enumerate([together, *parts])
        ]
        pooled, *sites = (Searcher(collection, settings) for collection in collections)
        lines, facts = compare(pooled, sites, queries, arguments.label)
    text = report(lines, facts, [len(part) for part in parts], len(queries))
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def report(lines: Sequence[str], facts: dict[str, float], sizes: Sequence[int], queries: int) -> str:
    header = "| method | searched | P@1 | P@10 | AP | AP against one collection |\n|---|---|---|---|---|---|"
    return (
        f"{queries} queries, sites of {', '.join(map(str, sizes))} images.\n\n"
        f"Without re-ranking, {facts['same']:.0f} of {queries} merged lists of {DEPTH} are identical to those of one "
        f"collection, distances included; {facts['moved']:.0f} have images in another order. Distances differ by at "
        f"most {facts['rounding']:.1e}.\n\n{header}\n" + "\n".join(lines)
    )


if __name__ == "__main__":
    main()
