"""Images of a kind that a collection lacks, and foreign pictures: how many are `unlike` it, over several draws.

    python -m bench.intake_unlike COLLECTION [--by anatomy] [--values knee,hand] [--draws 5] [--images 10000]

The collection lacks one value of the label `--by` in turn. A draw leaves out patients with 3,000 of the other images,
of which as few as possible should be found; at most `--images` of the rest are the collection. Images with the value,
500 of them at most, and foreign pictures come to it. Vectors are read, and only foreign pictures are described.
`bench/intake_collection.py` measures the whole check.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images
from statsmodels.stats.proportion import proportion_confint

from cbir.descriptors.network_descriptors import encoder_of
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.images import read_images
from cbir.ingest.collection_check import (
    FAMILIAR,
    UNLIKE,
    Familiarity,
    columns_of_maxima,
    patient_numbers,
)
from cbir.store import Collection

SIDE = 256
Pixels = NDArray[np.uint8]


def foreign_pictures(count: int, seed: int) -> dict[str, list[Pixels]]:
    """Draw `count` square grey pictures of each kind, by kind."""
    random = np.random.default_rng(seed)
    photographs = [_grey(picture) for picture in _photographs()]
    kinds = {
        "photographs": lambda: _part(photographs[random.integers(len(photographs))], random),
        "noise": lambda: _noise(random),
        "charts": lambda: _chart(random),
        "pages of text": lambda: _page(random),
    }
    return {kind: [draw() for _ in range(count)] for kind, draw in kinds.items()}


def _photographs() -> Iterator[Pixels]:
    yield from load_sample_images().images
    folder = Path(matplotlib.get_data_path()) / "sample_data"
    yield np.asarray(Image.open(folder / "grace_hopper.jpg").convert("RGB"))


def _grey(picture: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(picture).convert("L"))


def _part(picture: Pixels, random: np.random.Generator) -> Pixels:
    """Cut out a square of half to all of the shorter side, mirrored at times."""
    side = int(min(picture.shape) * random.uniform(0.5, 1))
    top, left = (int(random.integers(0, length - side + 1)) for length in picture.shape)
    part = picture[top : top + side, left : left + side]
    part = part[:, ::-1] if random.random() < 0.5 else part
    return np.asarray(cv2.resize(np.ascontiguousarray(part), (SIDE, SIDE), interpolation=cv2.INTER_AREA))


def _noise(random: np.random.Generator) -> Pixels:
    """Draw noise of one pixel to 32 pixels."""
    size = int(SIDE / 2 ** random.integers(0, 6))
    coarse = random.integers(0, 256, (size, size), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))


def _chart(random: np.random.Generator) -> Pixels:
    """Draw axes with bars or with curves."""
    picture = np.full((SIDE, SIDE), 255, np.uint8)
    cv2.line(picture, (24, 16), (24, 232), 0, 1)
    cv2.line(picture, (24, 232), (240, 232), 0, 1)
    if random.random() < 0.5:
        width = int(random.integers(8, 24))
        for left in range(32, 232 - width, width + 6):
            top, grey = int(random.integers(24, 228)), int(random.integers(0, 200))
            cv2.rectangle(picture, (left, top), (left + width, 231), grey, -1)
        return picture
    columns = np.arange(24, 240, 4)
    for _ in range(random.integers(1, 4)):
        rows = np.clip(128 + np.cumsum(random.normal(0, 8, len(columns))), 18, 230)
        points = np.stack([columns, rows], axis=1).astype(np.int32)
        cv2.polylines(picture, [points], False, int(random.integers(0, 160)), 2, cv2.LINE_AA)
    return picture


def _page(random: np.random.Generator) -> Pixels:
    """Draw lines of random letters."""
    picture = np.full((SIDE, SIDE), 255, np.uint8)
    scale = random.uniform(0.35, 0.7)
    for row in range(20, SIDE - 8, int(40 * scale)):
        words = "".join(random.choice(list("abcdefghijklmnoprstuvw    "), 40))
        cv2.putText(picture, words, (12, row), cv2.FONT_HERSHEY_SIMPLEX, scale, 0, 1, cv2.LINE_AA)
    return picture


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
