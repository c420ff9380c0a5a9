"""Collections of many different images, made of fewer: warped pictures, and vectors between those of neighbours.

A made picture is an image of the collection cut, bent, and given another contrast, so that no two show the same. Its
vector lies between that of its image and that of one of its eight nearest. Of each hundred made pictures three or
four are changed copies of another; of the composite images, about four are duplicates.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.changed_copies import CHANGES, Pixels, Random
from cbir.gallery.knn import find_neighbours
from cbir.gallery.vector_blocks import Floats
from cbir.images.reading import read_images
from cbir.store import Collection, Record
from cbir.store.records.records import Entry, describe_record

COPIED = 0.035  # share of the made pictures that get a changed copy
CUT = 0.87, 1.0  # share of the sides that is left
KNOTS = 5  # in each direction, that are displaced
BENT = 0.018  # standard deviation of their displacement, as a share of the side
CONTRASTS = 0.6, 1.6  # powers of the grey values
BETWEEN = 0.1, 0.5  # share of the way to the vector of the neighbour
NEAR = 0.02  # length of the noise that the vector of a changed copy gets
QUALITY = 92  # of the files
AT_ONCE = 2000  # images


def make_images(collection: Collection, count: int, folder: Path, seed: int = 0) -> None:
    """Make a collection of `count` images in `folder`: those of `collection`, and others made of them.

    Parameters
    ----------
    collection : Collection
        Images whose files are there, described.
    count : int
        Images in all.
    folder : Path
        Gets the files in `files`, the collection in `collection`.
    seed : int
    """
    gallery = collection.view().gallery
    records = collection.records(gallery.ids.tolist())
    ordered = [records[number] for number in gallery.ids.tolist()]
    vectors = collection.raw_vectors(gallery.ids)
    nearest = find_neighbours(gallery.vectors(np.arange(len(gallery))), gallery.space).rows
    files = folder / "files"
    files.mkdir(parents=True)
    with (
        Collection.create(folder / "collection", collection.profile) as made,
        made.writer() as writer,
    ):
        entries = _entries(ordered, vectors, nearest, files, made.secret, np.random.default_rng(seed))
        every = islice(entries, count)
        while some := list(islice(every, AT_ONCE)):
            writer.add(some, duplicates=True)
        writer.snapshot()


def _entries(
    records: list[Record],
    vectors: Floats,
    nearest: NDArray[np.int32],
    files: Path,
    secret: bytes,
    random: Random,
) -> Iterator[Entry]:
    """Yield the images themselves, then made ones without end, each with its vector."""
    for record, vector in zip(records, vectors, strict=True):
        yield replace(record, image_id=""), vector
    number = 0
    while True:
        for row in random.permutation(len(records)):
            other = random.choice(nearest[row][nearest[row] >= 0])
            share = np.float32(random.uniform(*BETWEEN))
            vector = (1 - share) * vectors[row] + share * vectors[other]
            pixels = warp(cv2.imread(records[row].source, cv2.IMREAD_GRAYSCALE), random)
            yield _write(pixels, files / f"{number:06d}.jpg", secret), vector
            if random.random() < COPIED:
                kind = random.choice(list(CHANGES))
                change = CHANGES[kind][random.choice(list(CHANGES[kind]))]
                noise = random.normal(size=len(vector)).astype(np.float32)
                near = vector + noise * NEAR * np.linalg.norm(vector) / np.linalg.norm(noise)
                yield _write(change(pixels, random), files / f"{number:06d}-copy.jpg", secret), near
            number += 1


def warp(pixels: Pixels, random: Random) -> Pixels:
    """Return a picture of the same size that shows a part of another, bent, with another contrast."""
    height, width = pixels.shape
    cut = random.uniform(*CUT)
    left, top = random.uniform(0, 1 - cut, size=2) * (width, height)
    down, across = np.indices(pixels.shape, np.float32)
    bends = random.normal(0, BENT, (KNOTS, KNOTS, 2)).astype(np.float32)
    bent = cv2.resize(bends, (width, height), interpolation=cv2.INTER_CUBIC) * (width, height)
    warped = cv2.remap(
        pixels,
        (left + cut * across + bent[..., 0]).astype(np.float32),
        (top + cut * down + bent[..., 1]).astype(np.float32),
        cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    power = random.uniform(*CONTRASTS)
    return np.rint(255 * (warped / 255.0) ** power).astype(np.uint8)


def _write(pixels: Pixels, path: Path, secret: bytes) -> Record:
    cv2.imwrite(str(path), pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return describe_record(next(iter(read_images(path))), source=str(path), source_stamp="1", secret=secret)
