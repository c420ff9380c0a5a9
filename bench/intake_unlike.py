"""Images of a kind that a collection lacks: how many are `unlike` it, by both tests together.

    python -m bench.intake_unlike COLLECTION [--by anatomy] [--values knee,hand]

The collection lacks one value of the label `--by` in turn. Images with this value are compared with 2,000 of the
others, and so are 3,000 more of the others, of which as few as possible should be found. Vectors are read from the
collection, and nothing is described; the directions of searches are those of all images, so that the share by them
alone is no estimate. `bench/intake_collection.py` measures the whole check.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from statsmodels.stats.proportion import proportion_confint

from cbir.gallery.nearest_distances import NearestDistances
from cbir.gallery.vector_blocks import Rows
from cbir.intake.collection_check import COMPARED, UNLIKE, nearest_to_others
from cbir.intake.familiarity import Familiarity
from cbir.store import Collection
from cbir.store.projection import Projection

ORDINARY = 3000  # images that belong to the collection
LEAST = 20  # images with a value, to be left out
PAGE = 500


def share(hits: int, count: int) -> str:
    low, high = proportion_confint(hits, count, method="beta")
    return f"{hits} of {count} | {hits / count:.4f} ({low:.4f} to {high:.4f})"


class LackingCheck:
    """Compares images of a collection with a sample of those without one value of a label."""

    def __init__(self, collection: Collection, sample: Rows) -> None:
        statistics = collection.statistics()
        assert isinstance(statistics, Projection)
        self._collection, self._statistics = collection, statistics
        raw = collection.raw_vectors(np.sort(sample))
        self._sample = statistics.normalise(raw)
        nearest = nearest_to_others(self._sample)
        self._scale = NearestDistances(np.sort(nearest[np.isfinite(nearest)]))
        self._familiarity = Familiarity(raw[:, : statistics.encoder_values], nearest)

    def count(self, numbers: Rows) -> tuple[int, int]:
        """Return how many images are unlike the sample, and how many by the distance of searches alone."""
        both = alone = 0
        for start in range(0, len(numbers), PAGE):
            raw = self._collection.raw_vectors(np.sort(numbers[start : start + PAGE]))
            nearest = cdist(self._statistics.normalise(raw), self._sample).min(axis=1).astype(np.float32)
            familiar = self._familiarity.familiarity(raw[:, : self._statistics.encoder_values], nearest)
            both += int(np.count_nonzero(familiar <= UNLIKE))
            alone += sum((self._scale.likeness(each) or 1.0) <= UNLIKE for each in nearest.tolist())
        return both, alone


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--by", default="anatomy", help="label whose values are left out")
    parser.add_argument("--values", default="", help="those that are left out, by commas; all by default")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    started, wrongly, tried = time.process_time(), 0, 0
    with Collection(args.collection) as collection:
        if not isinstance(collection.statistics(), Projection):
            parser.error("the collection is not described by an encoder")
        labels = collection.labels_by_number(args.by)
        numbers = np.array(sorted(labels))
        values = np.array([labels[number] for number in numbers.tolist()])
        print(
            f"| {args.by} that is missing | unlike | share | of the others | share | by searches alone |\n"
            "|---|---|---|---|---|---|"
        )
        for value in args.values.split(",") if args.values else np.unique(values).tolist():
            missing, others = numbers[values == value], random.permutation(numbers[values != value])
            if len(missing) < LEAST:
                continue
            check = LackingCheck(collection, others[:COMPARED])
            ordinary = others[COMPARED : COMPARED + ORDINARY]
            (found, _), (wrong, alone) = check.count(missing), check.count(ordinary)
            wrongly, tried = wrongly + wrong, tried + len(ordinary)
            of_missing, of_others = share(found, len(missing)), share(wrong, len(ordinary))
            print(f"| {value} | {of_missing} | {of_others} | {alone} |", flush=True)
        print(f"| all | | | {share(wrongly, tried)} | |" if tried else "no value has enough images")
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
