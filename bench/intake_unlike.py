"""Images of a kind that a collection lacks: how many are `unlike` it by all values of its encoder.

    python -m bench.intake_unlike COLLECTION [--by anatomy] [--values knee,hand]

The collection lacks one value of the label `--by` in turn. Images with this value are compared with 2,000 of the
others, and so are 3,000 more of the others, of which as few as possible should be found. Vectors are read from the
collection, and nothing is described. `bench/intake_collection.py` measures the whole check.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.intake.collection_check import COMPARED, UNLIKE
from cbir.intake.familiarity import Familiarity
from cbir.store import Collection

ORDINARY = 3000  # images that belong to the collection
LEAST = 20  # images with a value, to be left out
PAGE = 500


def share(hits: int, count: int) -> str:
    low, high = proportion_confint(hits, count, method="beta")
    return f"{hits} of {count} | {hits / count:.4f} ({low:.4f} to {high:.4f})"


def count_unlike(check: Familiarity, collection: Collection, numbers: Rows, end: int) -> int:
    """Return how many images are unlike those that the check has."""
    pages = (numbers[start : start + PAGE] for start in range(0, len(numbers), PAGE))
    return sum(
        int(np.count_nonzero(check.familiarity(read(collection, page, end)) <= UNLIKE)) for page in pages
    )


def read(collection: Collection, numbers: Rows, end: int) -> Floats:
    """Return the values (n, end) of the encoder."""
    return np.asarray(collection.raw_vectors(np.sort(numbers))[:, :end], np.float32)


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
    started = time.process_time()
    with Collection(args.collection) as collection:
        end = getattr(collection.statistics(), "encoder_values", None)
        if end is None:
            parser.error("the collection is not described by an encoder")
        labels = collection.labels_by_number(args.by)
        numbers = np.array(sorted(labels))
        values = np.array([labels[number] for number in numbers.tolist()])
        print(
            f"| {args.by} that is missing | unlike | share | of the others | share |\n|---|---|---|---|---|"
        )
        for value in args.values.split(",") if args.values else np.unique(values).tolist():
            missing, others = numbers[values == value], random.permutation(numbers[values != value])
            if len(missing) < LEAST:
                continue
            check = Familiarity(read(collection, others[:COMPARED], end))
            ordinary = others[COMPARED : COMPARED + ORDINARY]
            found = share(count_unlike(check, collection, missing, end), len(missing))
            wrong = share(count_unlike(check, collection, ordinary, end), len(ordinary))
            print(f"| {value} | {found} | {wrong} |", flush=True)
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
