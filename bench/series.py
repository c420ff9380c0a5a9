"""Compare the combinations of slices to series: find a drawn CT series, and the slices with its lesion, again.

Draws two series of each patient (`cbir dataset phantoms --series`), 24 slices each, and indexes them. Each patient's
first series is a query, with two questions. "Same patient": is the patient's second series among the first 1 or 5,
and of the slices that the answer names in it, do they show the lesion? "Same lesion": the same for any series of
another patient with the same kind of lesion in the same region of the body, the query's patient being left out.

max, sum and frequency combine the lists of at most 20 slices of the query, with the re-ranker `auto` or none, and
name one slice of each series, which counts for every slice of the query that shows the lesion. maxsim compares all
slices and names one for each of them. A profile of CT series, such as ct-volume, has one vector for each: nothing
is combined, and no slices are named. Intervals of 95 % are bootstrapped over patients; differences are paired.

    OMP_NUM_THREADS=1 python bench/series.py [--patients 84] [--profiles lite0-max huang2012]
    OMP_NUM_THREADS=1 python bench/series.py --patients 18 --profiles lite0-max ct-volume
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.search import Searcher, Stopwatch
from cbir.search.dicom_levels import Combination, Exclude, ImageGroup, Level, group_hits
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import DicomScope
from service.features.similar.similar import SimilarRequest, find_similar, search_each_image

TOPS = (1, 5)
DRAWS = 2000  # of the bootstrap
NO_LESION = "none"
QUESTIONS = {"same patient": Exclude.series, "same lesion": Exclude.patient}


@dataclass(frozen=True)
class DrawnSeries:
    """A series of the collection with its truth. slices: records by image id."""

    scope: DicomScope
    patient: str
    region: str
    kind: str
    slices: dict[str, Record]

    def has_lesion(self, image_id: str) -> bool:
        """Return whether a slice of this series shows the lesion."""
        return image_id in self.slices and self.slices[image_id].labels["label"] != NO_LESION

    def is_right(self, other: "DrawnSeries", question: str) -> bool:
        """Return whether `other` answers the question with this series as the query."""
        if question == "same patient":
            return other.patient == self.patient
        return (other.region, other.kind) == (self.region, self.kind)


def read_series(collection: Collection) -> dict[str, DrawnSeries]:
    """Return the series of a collection by their UIDs, in the order in which they were drawn."""
    series: dict[str, DrawnSeries] = {}
    for _, record in sorted(collection.iterate(), key=lambda item: item[1].source):
        truth = record.labels
        drawn = series.setdefault(
            record.series,
            DrawnSeries(
                DicomScope(record.study, record.series), record.patient_key or "", truth["anatomy"],
                truth["series_lesion"], {},
            ),
        )  # fmt: skip
        drawn.slices[record.image_id] = record
    return series


def has_answer(query: DrawnSeries, series: Mapping[str, DrawnSeries], question: str) -> bool:
    """Return whether any series answers the question; there are other patients' with 28 patients or more."""
    if question == "same patient":
        return True
    others = [other for other in series.values() if other.patient != query.patient]
    return query.kind != NO_LESION and any(query.is_right(other, question) for other in others)


def answers_of(
    searcher: Searcher, query: DrawnSeries, exclude: Exclude
) -> Iterator[tuple[str, list[ImageGroup]]]:
    """Yield the name of each method, and its first groups for a query."""
    whole = searcher.collection.profile.volume_grid is not None
    for rerank in ("auto", "none"):
        request = SimilarRequest(level=Level.series, exclude=exclude, rerank=rerank)
        _, answers = search_each_image(searcher, query.scope, request, Stopwatch())
        for how in (Combination.max, Combination.sum, Combination.frequency)[: 1 if whole else None]:
            groups = group_hits([answer.results for answer in answers], Level.series, how)
            yield f"{'one vector' if whole else how}, {rerank}", groups[: max(TOPS)]
    if whole:
        return
    request = SimilarRequest(level=Level.series, combine=Combination.maxsim, exclude=exclude, limit=max(TOPS))
    yield "maxsim", find_similar(searcher, query.scope, request, Stopwatch()).groups


def recalls(
    query: DrawnSeries, groups: list[ImageGroup], series: Mapping[str, DrawnSeries], question: str
) -> list[float]:
    """Return the recall of the volume at 1 and 5, and that of slices, NaN where there are none with a lesion."""
    right = [
        query.is_right(series[group.best.dicom.series], question) for group in groups if group.best.dicom
    ]
    volumes = [float(any(right[:top])) for top in TOPS]
    shown = [image_id for image_id in query.slices if query.has_lesion(image_id)]
    if not shown or len(query.slices) == 1:
        return volumes + [np.nan] * len(TOPS)
    named = [_named_slices(group, shown) for group in groups]
    found = [
        [is_right and series[group.best.dicom.series].has_lesion(names[image_id]) for image_id in shown]
        for group, names, is_right in zip(groups, named, right, strict=True)
        if group.best.dicom
    ]
    slices = [float(np.any(found[:top], axis=0).mean()) if found else 0.0 for top in TOPS]
    return volumes + slices


def _named_slices(group: ImageGroup, shown: list[str]) -> dict[str, str]:
    """Return by each slice of the query the slice that the answer names for it."""
    if group.matches:
        return {match.query.image_id: match.image.image_id for match in group.matches}
    return dict.fromkeys(shown, group.best.image_id)


def interval(values: NDArray[np.float64]) -> str:
    """Return mean and bootstrapped interval of the values that are not NaN, a dash without any."""
    values = values[~np.isnan(values)]
    if not len(values):
        return "–"
    random = np.random.default_rng(0)
    means = values[random.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{values.mean():.2f} ({low:.2f}–{high:.2f})"


def compare(folder: Path, profile: str) -> None:
    """Print the table of a profile."""
    with Collection(folder) as collection:
        series = read_series(collection)
        searcher = Searcher(collection, settings.load(rerank="none", device="cpu"))
        queries = [*series.values()][::2]
        for question, exclude in QUESTIONS.items():
            asked = [query for query in queries if has_answer(query, series, question)]
            if not asked:
                continue
            rows: dict[str, list[list[float]]] = {}
            for query in asked:
                for method, groups in answers_of(searcher, query, exclude):
                    rows.setdefault(method, []).append(recalls(query, groups, series, question))
            print(f"\n{profile}, {question}, {len(asked)} queries among {len(series)} series\n")
            print("| combination, re-ranking | volume @1 | volume @5 | slices @1 | slices @5 |")
            print("| --- | ---: | ---: | ---: | ---: |")
            for method, values in rows.items():
                print(f"| {method} | {' | '.join(map(interval, np.array(values).T))} |")
            for method in (name for name in rows if name != "maxsim" and "maxsim" in rows):
                gains = np.array(rows["maxsim"]) - np.array(rows[method])
                print(f"| maxsim minus {method} | {' | '.join(map(interval, gains.T))} |", flush=True)


def run_cbir(*arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "cbir.api.main", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--patients", type=int, default=84, help="patients, of two series each")
    parser.add_argument("--profiles", nargs="+", default=["lite0-max", "huang2012"])
    parser.add_argument(
        "--folder", type=Path, help="keep series and collections here, and use those that exist"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        drawn = folder / "series"
        run_cbir("dataset", "phantoms", drawn, "--series", "--count", 2 * options.patients)
        for profile in options.profiles:
            collection = folder / f"col-{profile}"
            if not Collection.exists(collection):
                labels = drawn / "manifest.csv"
                where = ("--collection", collection, "--labels", labels, "--profile", profile)
                run_cbir("index", drawn, *where, "--jobs", 1)
            compare(collection, profile)


if __name__ == "__main__":
    main()
