"""Judge whether two images are the same picture by their SIFT keypoints, which the audit does not use.

    python -m bench.keypoints COLLECTION FOLDER

The share of the keypoints of one image that lie at the same places in the other, once it is moved, turned and scaled
as most of them say. Prints it for pairs of different images of COLLECTION, and for changed copies in FOLDER, which
`bench.audit_duplicates --part tune` made. All have even numbers: the copies that are reported have odd ones.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.store import Collection, Record

SIDE = 256  # pixels, to which all images are brought
LEAST_SIDE = 100  # smaller images show too little to tell a slice from its neighbour: they are never the same
MOST = 600  # keypoints of an image
CONTRAST = 0.02  # SIFT's least contrast of a keypoint
NEAR = 1.5  # pixels
SCALES = 0.6, 1.6
SAME_SHARE, SAME_COUNT = 0.33, 100  # of the same picture; different ones reached 0.28
FLIPS = None, 1, 0, -1
PAIRS = 60  # of different images, of each kind
NEAREST = 8

Pixels = NDArray[np.uint8]
Points = NDArray[np.float32]
Keypoints = tuple[Points, NDArray[np.float32] | None]  # where they are, and their descriptors


class Agreement(NamedTuple):
    """How many keypoints agree, and their share of those in the part that both pictures show."""

    share: float
    count: int

    @property
    def same(self) -> bool:
        """True if so many agree only in the same picture, perhaps moved, scaled, flipped or with other contrast."""
        return self.share >= SAME_SHARE and self.count >= SAME_COUNT


NONE = Agreement(0.0, 0)


def compare_keypoints(first: str, second: str) -> Agreement:
    """Return the best agreement of two files in one of four flips; none if one is small."""
    pictures = [cv2.imread(source, cv2.IMREAD_GRAYSCALE) for source in (first, second)]
    if min(max(picture.shape) for picture in pictures) < LEAST_SIDE:
        return NONE
    one, other = (_scaled(np.asarray(picture, np.uint8)) for picture in pictures)
    flipped = (other if flip is None else np.asarray(cv2.flip(other, flip), np.uint8) for flip in FLIPS)
    keypoints = _keypoints(one)
    return max(_agreement(one, keypoints, picture) for picture in flipped)


def _scaled(picture: Pixels) -> Pixels:
    factor = SIDE / max(picture.shape)
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, None, fx=factor, fy=factor, interpolation=method), np.uint8)


def _agreement(first: Pixels, keypoints: Keypoints, second: Pixels) -> Agreement:
    (points, descriptors), (other_points, other_descriptors) = keypoints, _keypoints(second)
    if min(len(points), len(other_points)) < 10:
        return NONE
    matches = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(descriptors, other_descriptors)
    if len(matches) < 6:
        return NONE
    one = points[[match.queryIdx for match in matches]]
    other = other_points[[match.trainIdx for match in matches]]
    cv2.setRNGSeed(0)
    transform, agreeing = cv2.estimateAffinePartial2D(one, other, ransacReprojThreshold=NEAR, maxIters=3000)
    if transform is None or not SCALES[0] < np.hypot(*transform[0, :2]) < SCALES[1]:
        return NONE
    seen = _within(points, transform, second)
    other_seen = _within(other_points, cv2.invertAffineTransform(transform), first)
    count = int(agreeing.sum())
    return Agreement(count / max(min(seen, other_seen), 1), count)


def _keypoints(picture: Pixels) -> Keypoints:
    keypoints, descriptors = cv2.SIFT_create(nfeatures=MOST, contrastThreshold=CONTRAST).detectAndCompute(
        picture, None
    )
    return np.array([keypoint.pt for keypoint in keypoints], np.float32).reshape(-1, 2), descriptors


def _within(points: Points, transform: NDArray[np.float64], picture: Pixels) -> int:
    """Return how many points a transform (2, 3) moves into a picture."""
    moved = points @ transform[:, :2].T + transform[:, 2]
    return int(((moved >= 0) & (moved < picture.shape[::-1])).all(axis=1).sum())


def different_pairs(
    collection: Collection, differ: Callable[[Record, Record], bool]
) -> list[tuple[str, str]]:
    """Return pairs of images with even numbers, drawn, and of each the nearest that differs; PAIRS at most."""
    records = sorted((record for _, record in collection.iterate()), key=lambda record: record.source)[::2]
    records = [record for record in records if max(record.width, record.height) >= LEAST_SIDE]
    view = collection.view()
    numbers = collection.numbers_by_id(record.image_id for record in records)
    rows = view.rows_of(np.array([numbers[record.image_id] for record in records]))
    vectors, different = view.gallery.vectors(rows), set[tuple[str, str]]()
    for row in np.random.default_rng(0).permutation(len(records)):
        nearest = np.argsort(-(vectors @ vectors[row]))[1 : NEAREST + 1]
        other = next((near for near in nearest if differ(records[row], records[near])), None)
        if other is not None:
            first, second = sorted((records[row].source, records[other].source))
            different.add((first, second))
        if len(different) == PAIRS:
            break
    return sorted(different)


def _same_class(one: Record, other: Record) -> bool:
    return all(one.labels.get(name) == other.labels.get(name) for name in ("modality", "anatomy"))


KINDS: dict[str, Callable[[Record, Record], bool]] = {
    "other patient, same modality and anatomy": lambda one, other: (
        None not in (one.patient_key, other.patient_key)
        and one.patient_key != other.patient_key
        and _same_class(one, other)
    ),
    "same patient, modality and anatomy": lambda one, other: (
        one.patient_key is not None and one.patient_key == other.patient_key and _same_class(one, other)
    ),
    "patients unknown, other label": lambda one, other: (
        one.patient_key is None and other.patient_key is None and one.labels["label"] != other.labels["label"]
    ),
    "patients unknown, same label": lambda one, other: (
        one.patient_key is None and other.patient_key is None and one.labels["label"] == other.labels["label"]
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path, help="images with patients and labels, described")
    parser.add_argument("folder", type=Path, help="folder of bench.audit_duplicates --part tune")
    arguments = parser.parse_args()
    with Collection(arguments.collection) as collection:
        pairs = {kind: different_pairs(collection, differ) for kind, differ in KINDS.items()}
    copies = json.loads((arguments.folder / "copies.json").read_text(encoding="utf-8"))
    for copy, (image, change, _) in copies.items():
        if change != "inverted" and max(cv2.imread(image).shape) >= LEAST_SIDE:
            pairs.setdefault(f"copies: {change}", []).append((image, copy))
    print("| pairs | count | share: 5 % | median | 95 % | most | same |\n|---|---|---|---|---|---|---|")
    passed = []
    for kind, sources in pairs.items():
        agreements = [compare_keypoints(*pair) for pair in sources]
        low, middle, high, most = np.quantile(
            [agreement.share for agreement in agreements], [0.05, 0.5, 0.95, 1]
        )
        same = [pair for pair, agreement in zip(sources, agreements, strict=True) if agreement.same]
        passed += same if kind in KINDS else []
        print(
            f"| {kind} | {len(sources)} | {low:.2f} | {middle:.2f} | {high:.2f} | {most:.2f} | {len(same)} |",
            flush=True,
        )
    print(
        "\nDifferent images that count as the same:",
        *(f"{first} {second}" for first, second in passed),
        sep="\n",
    )


if __name__ == "__main__":
    main()
