"""Images of a kind that a collection lacks, and foreign pictures: how many are `unlike` it, over several draws.

    python -m bench.intake_unlike COLLECTION [--by anatomy] [--values knee,hand] [--draws 5] [--images 10000]

The collection lacks one value of the label `--by` in turn. A draw leaves out patients with 3,000 of the other images,
of which as few as possible should be found; at most `--images` of the rest are the collection. Images with the value,
500 of them at most, and foreign pictures come to it. Vectors are read, and only foreign pictures are described.
`bench/intake_collection.py` measures the whole check.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from bench.foreign_pictures import foreign_pictures
from cbir.descriptors.network_descriptors import encoder_of
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.images import read_images
from cbir.ingest.checks.collection_check import (
    FAMILIAR,
    UNLIKE,
    Familiarity,
    columns_of_maxima,
    patient_numbers,
)
from cbir.store import Collection

ORDINARY = 3000  # images that belong to the collection
LACKING = 500  # images that do not, of a draw at most
LEAST = 20  # images with a value, to be left out
PICTURES = 50  # foreign pictures of each kind
PAGE = 500


def share(hits: int, count: int) -> str:
    low, high = proportion_confint(hits, count, method="beta")
    return f"{hits} of {count} | {hits / count:.4f} ({low:.4f} to {high:.4f})"


def spread(shares: Iterable[float]) -> str:
    return " ".join(f"{each:.3f}" for each in sorted(shares))


def describe_foreign(collection: Collection, seed: int) -> dict[str, Floats]:
    """Return the raw vectors (m, d) of foreign pictures, by kind."""
    descriptor = collection.profile.load_descriptor("cpu")
    (first,) = collection.matching_numbers(())[:1].tolist()
    image = next(iter(read_images(Path(collection.records([first])[first].source))))
    return {
        kind: np.stack([descriptor(replace(image, pixels=picture)) for picture in pictures])
        for kind, pictures in foreign_pictures(PICTURES, seed).items()
    }


class Draws:
    """Vectors of a collection's images with their patients, of which some come to the others."""

    def __init__(self, collection: Collection, numbers: Rows, images: int, seed: int) -> None:
        self._images = images
        encoder = encoder_of(collection.profile.descriptor)
        if encoder is None:
            raise SystemExit("the collection is not described by an encoder")
        self._vectors = collection.raw_vectors(numbers)[:, : encoder.dimensions]
        self._patients = patient_numbers(collection.records(numbers.tolist()), numbers)
        self._maxima = columns_of_maxima(encoder.card.outputs)
        foreign = describe_foreign(collection, seed)
        self._foreign = {kind: raw[:, : encoder.dimensions] for kind, raw in foreign.items()}

    def draw(self, lacking: Rows, others: Rows, random: np.random.Generator) -> dict[str, Rows]:
        """Return whether each new image is found: of those lacking, ordinary ones, and foreign ones by kind."""
        order = random.permutation(int(self._patients.max()) + 1)[self._patients[others]]
        others = others[np.argsort(order, kind="stable")]  # whole patients, in random order
        ordinary, rest = others[:ORDINARY], others[ORDINARY:]
        rest = rest[~np.isin(self._patients[rest], self._patients[ordinary])]
        sample = np.sort(random.permutation(rest)[: self._images])
        check = Familiarity(self._vectors[sample], self._patients[sample], self._maxima)
        groups = {
            "lacking": self._vectors[random.permutation(lacking)[:LACKING]],
            "ordinary": self._vectors[ordinary],
            **self._foreign,
        }
        return {name: _found(check, vectors) for name, vectors in groups.items()}


def _found(check: Familiarity, vectors: Floats) -> Rows:
    pages = [vectors[start : start + PAGE] for start in range(0, len(vectors), PAGE)]
    return np.concatenate([check.familiarity(page) <= UNLIKE for page in pages]).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--by", default="anatomy", help="label whose values are left out")
    parser.add_argument("--values", default="", help="those that are left out, by commas; all by default")
    parser.add_argument("--draws", type=int, default=5, help="for each value")
    parser.add_argument("--images", type=int, default=FAMILIAR, help="of the collection, at most")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started, ordinary, pictures = time.process_time(), list[Rows](), dict[str, list[float]]()
    with Collection(args.collection) as collection:
        labels = collection.labels_by_number(args.by)
        numbers = np.array(sorted(labels))
        values = np.array([labels[number] for number in numbers.tolist()])
        draws = Draws(collection, numbers, args.images, args.seed)
    print(
        f"| {args.by} that is missing | unlike | each draw | of the others | share |\n|---|---|---|---|---|"
    )
    for value in args.values.split(",") if args.values else np.unique(values).tolist():
        lacking, others = np.flatnonzero(values == value), np.flatnonzero(values != value)
        if len(lacking) < LEAST:
            continue
        drawn = [
            draws.draw(lacking, others, np.random.default_rng((args.seed, draw)))
            for draw in range(args.draws)
        ]
        ordinary += [found["ordinary"] for found in drawn]
        for kind in drawn[0].keys() - {"lacking", "ordinary"}:
            pictures.setdefault(kind, []).extend(found[kind].mean() for found in drawn)
        mean = np.mean([found["lacking"].mean() for found in drawn])
        wrong = np.concatenate([found["ordinary"] for found in drawn])
        shares = spread(found["lacking"].mean() for found in drawn)
        print(f"| {value} | {mean:.3f} | {shares} | {share(int(wrong.sum()), len(wrong))} |", flush=True)
    if ordinary:
        wrong = np.concatenate(ordinary)
        print(f"| all | | | {share(int(wrong.sum()), len(wrong))} |\n")
        print("false alarms of each draw:", spread(found.sum() for found in ordinary))
        for kind, shares_of_draws in pictures.items():
            print(f"{kind}: {np.mean(shares_of_draws):.3f} found; least {min(shares_of_draws):.3f}")
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
