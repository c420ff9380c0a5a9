"""Finding search: do images with the same finding come first by the whole image, by the region of a mass, or by both?

    python -m bench.finding_search COLLECTION [--like 0.9]

COLLECTION has the breast ultrasound (source `busi`) and brain MR (`brain`) of the composite collection, others beside
them, and the cells of `cbir collection regions`. Queries are the images of `finding_marks.csv`, whose masses were
marked by eye. All other images are ranked; those with the query's label are right. Patients are not known: pictures
of the query's source that are like it, moved, scaled or mirrored, may be of its patient, and are left out.
"""

import argparse
import csv
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir import rerank, settings
from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.significance import bootstrap_intervals
from cbir.gallery.gallery import rank, top_k
from cbir.images import crop
from cbir.learn.severity.stored_images import read_stored_image
from cbir.rerank.query_list import QueryList
from cbir.search.explanation import region_area
from cbir.search.feature_cells import Area
from cbir.search.region_cells import BLOCK, RegionTemplate, region_encoder, template_of
from cbir.store import Collection
from cbir.store.snapshot.derived_files import read_cells
from cbir.system.threads import OneBlasThread

MARKS = Path(__file__).with_name("finding_marks.csv")
SOURCES = {"busi": "breast ultrasound", "brain": "brain MR"}
SIDE = 32  # pixels of a side, to which pictures are scaled to compare them
PARTS = 20, 24, 28  # pixels, to which the middle three quarters of the query's sides are scaled
FIRST = 5  # of P@5
K = 60  # of reciprocal rank fusion (Cormack, Clarke & Buettcher 2009)
SHARES = 0.25, 0.5, 0.75  # of the region in a mean
HEADS = 20, 100  # of the whole image's list, which the region orders

Doubles = NDArray[np.float64]


class Scores(NamedTuple):
    """Scores (n,) of the images ranked for a query, larger is better, and whether each has its label."""

    right: NDArray[np.bool_]
    whole: Doubles
    reranked: Doubles
    cut_out: Doubles
    anywhere: Doubles


class Findings:
    """The images of a collection, and the scores of all for each marked one."""

    def __init__(self, collection: Collection, like: float) -> None:
        self.collection, self.like = collection, like
        self.view, self.encoder = collection.view(), region_encoder(collection.profile)
        self.describe = collection.profile.load_descriptor()
        auto = rerank.default_choice(collection.profile.descriptor)
        self.method = rerank.get(auto.method, **auto.parameters)
        gallery = self.view.gallery
        self.rows = np.arange(len(gallery)) if self.view.rows is None else self.view.rows
        numbers = gallery.ids[self.rows].tolist()
        records = collection.records(numbers)
        self.records = [records[number] for number in numbers]
        self.labels = np.array([record.labels["label"] for record in self.records])
        self.sources = np.array([record.labels["source"] for record in self.records])
        stored = read_cells(collection.folder)
        if stored is None or set(numbers) - set(stored.numbers().tolist()):
            raise SystemExit(
                "the collection has no cells, or not of all images; run `cbir collection regions`"
            )
        self.projection = stored.projection
        cells = {
            number: part["cells"][place]
            for part in stored.parts
            for place, number in enumerate(part["number"].tolist())
        }
        self.cells = np.stack([cells[number] for number in numbers])

    @cached_property
    def pictures(self) -> NDArray[np.uint8]:
        """Small grey pictures (n, SIDE, SIDE) of the images of SOURCES, black ones of others."""
        pictures = np.zeros((len(self.records), SIDE, SIDE), np.uint8)
        for place in np.flatnonzero(np.isin(self.sources, list(SOURCES))).tolist():
            picture = np.asarray(cv2.imread(self.records[place].source, cv2.IMREAD_GRAYSCALE), np.uint8)
            pictures[place] = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        return pictures

    def left_out(self, place: int) -> NDArray[np.bool_]:
        """Return which images (n,) may be of the patient of one: itself, and those whose pictures are like it."""
        of_source = np.flatnonzero(self.sources == self.sources[place])
        stack = self.pictures[of_source].reshape(-1, SIDE)
        middle = self.pictures[place][SIDE // 8 : -SIDE // 8, SIDE // 8 : -SIDE // 8]
        best = np.full(len(of_source), -1.0)
        for side in PARTS:
            part = cv2.resize(middle, (side, side), interpolation=cv2.INTER_LINEAR)
            for turned in (part, part[:, ::-1].copy()):
                correlation = cv2.matchTemplate(stack, turned, cv2.TM_CCOEFF_NORMED)
                padded = np.pad(correlation, ((0, side - 1), (0, 0)), constant_values=-1.0)
                within = padded.reshape(len(of_source), SIDE, -1)[:, : SIDE - side + 1]
                best = np.maximum(best, within.max(axis=(1, 2)))
        result = np.zeros(len(self.records), bool)
        result[of_source[best >= self.like]] = True
        result[place] = True
        return result

    def scores(self, place: int, mark: Area) -> Scores:
        """Return the scores of the images that are not left out for the query at `place`, with its mass at `mark`."""
        record, gallery = self.records[place], self.view.gallery
        kept = ~self.left_out(place)
        rows = self.rows[kept]
        image = read_stored_image(self.collection, record, settings.load().max_pixels)
        if image is None:
            raise SystemExit(f"{record.source} is gone")
        x, y, width, height = np.rint(np.multiply(mark, (image.width, image.height) * 2)).astype(int).tolist()
        region = x, y, min(width, image.width - x), min(height, image.height - y)
        area = region_area(region, image.width, image.height)
        size = image.width, image.height
        template = RegionTemplate(
            *template_of(self.encoder, self.projection, self.encoder.prepare(image), size, area)
        )
        cells = self.cells[kept]
        blocks = [template.match(cells[start : start + BLOCK])[0] for start in range(0, len(cells), BLOCK)]
        query = gallery.vectors(self.rows[place : place + 1])[0]
        ranking = rank(query, gallery, rows)
        listed, reranked = self.method.rerank(QueryList(query, ranking, gallery))
        again = -ranking.distances.astype(np.float64) - 1e6
        again[np.searchsorted(rows, listed)] = reranked.scores
        cut_out = self.view.statistics.normalise(self.describe(crop(image, region)))
        return Scores(
            self.labels[kept] == record.labels["label"],
            -ranking.distances.astype(np.float64),
            again,
            -gallery.distances(cut_out, rows).astype(np.float64),
            np.concatenate(blocks).astype(np.float64),
        )


def read_marks() -> dict[str, Area]:
    """Return the region around the mass of each marked image, as shares of its sides, by the image's path."""
    with MARKS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {path: (float(x), float(y), float(width), float(height)) for path, x, y, width, height in rows}


def places(scores: Doubles) -> NDArray[np.int64]:
    """Return the rank (n,) of each image, from 1."""
    ranks = np.empty(len(scores), np.int64)
    ranks[top_k(scores, len(scores))] = np.arange(1, len(scores) + 1)
    return ranks


def fuse_ranks(first: Doubles, second: Doubles) -> Doubles:
    """Fuse by reciprocal ranks."""
    return np.asarray(1 / (K + places(first)) + 1 / (K + places(second)))


def mean_scores(first: Doubles, second: Doubles, share: float) -> Doubles:
    """Return the mean of standardised scores; `share` is that of the second."""
    first, second = ((scores - scores.mean()) / scores.std() for scores in (first, second))
    return np.asarray((1 - share) * first + share * second)


def order_head(first: Doubles, second: Doubles, count: int) -> Doubles:
    """Order the `count` best images of the first scores by the second, and leave the rest as it is."""
    head = top_k(first, count)
    scores = -places(first).astype(np.float64)
    scores[head] = 1 - places(second[head]) / count
    return scores


Ranking = Callable[[Scores], Doubles]


def both(name: str, combine: Callable[[Doubles, Doubles], Doubles]) -> dict[str, Ranking]:
    """Return ways to search with both, on the whole image's list without and with re-ranking."""
    return {
        f"{name}": lambda scores: combine(scores.whole, scores.anywhere),
        f"{name}, re-ranked": lambda scores: combine(scores.reranked, scores.anywhere),
    }


def with_cut_out(scores: Scores, share: float) -> Doubles:
    """Return the mean with the search for the region as an image of its own."""
    return mean_scores(scores.whole, scores.cut_out, share)


RANKINGS: Mapping[str, Ranking] = {
    "whole image": lambda scores: scores.whole,
    "whole image, re-ranked": lambda scores: scores.reranked,
    "region cut out": lambda scores: scores.cut_out,
    "region anywhere": lambda scores: scores.anywhere,
    **both("both, reciprocal ranks", fuse_ranks),
    **{
        name: way
        for share in SHARES
        for name, way in both(f"both, mean, region {share}", partial(mean_scores, share=share)).items()
    },
    **{
        name: way
        for count in HEADS
        for name, way in both(f"both, first {count} by region", partial(order_head, count=count)).items()
    },
    **{
        f"whole image and region cut out, mean, region {share}": partial(with_cut_out, share=share)
        for share in SHARES
    },
}


def measure(scores: Doubles, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return P@5 and AP."""
    hits = right[top_k(scores, len(scores))]
    return float(hits[:FIRST].mean()), float(average_precision(hits[None])[0])


def print_table(source: str, queries: list[Scores]) -> None:
    """Print P@5 and mAP of each way to search, and their differences from the whole image with 95 % intervals."""
    measured = {
        name: np.array([measure(ranking(scores), scores.right) for scores in queries]).T
        for name, ranking in RANKINGS.items()
    }
    print(f"\n{SOURCES[source]}: {len(queries)} queries\n")
    print("| search | P@5 | less whole image's | mAP | less whole image's |\n|---|---|---|---|---|")
    for name, values in measured.items():
        base = measured["whole image, re-ranked" if name.endswith("re-ranked") else "whole image"]
        low, high = bootstrap_intervals(values - base)
        cells = [
            f"{mean:.3f} | {change:+.3f} ({start:+.3f} to {end:+.3f})"
            for mean, change, start, end in zip(
                values.mean(axis=1), (values - base).mean(axis=1), low, high, strict=True
            )
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--like", type=float, default=0.9, help="least correlation of a picture left out")
    values = parser.parse_args()
    cv2.setNumThreads(1)
    marks = read_marks()
    with Collection(values.collection) as collection, OneBlasThread():
        findings = Findings(collection, values.like)
        paths = ["/".join(Path(record.source).parts[-3:]) for record in findings.records]
        for source in SOURCES:
            queries = [
                place
                for place, path in enumerate(paths)
                if path in marks and findings.sources[place] == source
            ]
            print_table(source, [findings.scores(place, marks[paths[place]]) for place in queries])


if __name__ == "__main__":
    main()
