"""Time combine=maxsim in a collection of random slices, and measure the memory that a search adds.

Series have 200 slices of 168 values (huang2012). A query is a series of which 100 slices are compared. Times are of
one core, median of 3 searches after a first one that loads the vectors.

    OMP_NUM_THREADS=1 python bench/series_speed.py [--slices 100000]
"""

import argparse
import hashlib
import os
import resource
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from cbir import settings
from cbir.search import Searcher, Stopwatch
from cbir.search.dicom_levels import Combination, Level
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.writing.writer import Entry
from cbir.system.threads import keep_to_one_core
from service.features.similar.similar import SimilarRequest, find_similar

PER_SERIES, BATCH, REPEATS, DIMENSIONS = 200, 5000, 3, 168


def entry(number: int, vector: np.ndarray) -> Entry:
    """Return an image as one of an archive is recorded."""
    study = f"1.2.840.113619.2.55.3.604688119.971.{number // PER_SERIES}"
    digest = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    record = Record(
        content_hash=digest, source=f"/archive/{number}.dcm", source_stamp="1", format="dicom", width=512, height=512,
        study=study, series=f"{study}.1", instance=f"{study}.1.{number}",
    )  # fmt: skip
    return record, vector


def fill(folder: Path, slices: int) -> None:
    """Create a collection of random slices."""
    random = np.random.default_rng(0)
    with Collection.create(folder, profiles.get("huang2012")) as collection, collection.writer() as writer:
        for first in range(0, slices, BATCH):
            count = min(BATCH, slices - first)
            vectors = random.normal(size=(count, DIMENSIONS)).astype(np.float32)
            writer.add([entry(first + n, vectors[n]) for n in range(count)])


def measure(searcher: Searcher, level: Level) -> tuple[float, float]:
    """Return the median seconds of a search, and the MiB that the searches add to the largest memory so far."""
    study = "1.2.840.113619.2.55.3.604688119.971.0"
    request = SimilarRequest(level=level, combine=Combination.maxsim, limit=20)
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(REPEATS):
        started = time.process_time()
        find_similar(searcher, DicomScope(study), request, Stopwatch())
        seconds.append(time.process_time() - started)
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return float(np.median(seconds)), added / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slices", type=int, default=100_000, help="slices of the collection")
    options = parser.parse_args()
    keep_to_one_core()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "collection"
        fill(folder, options.slices)
        with Collection(folder) as collection:
            searcher = Searcher(collection, settings.load(device="cpu"))
            _ = collection.view().gallery.squared_norms  # as the first search computes them
            print("| level | results | seconds of the processor | added MiB |\n| --- | ---: | ---: | ---: |")
            for level in (Level.series, Level.instance):
                seconds, added = measure(searcher, level)
                results = options.slices // (PER_SERIES if level is Level.series else 1)
                print(f"| {level} | {results:,} | {seconds:.2f} | {added:.0f} |", flush=True)


if __name__ == "__main__":
    main()
