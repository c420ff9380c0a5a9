"""Drawn images of known severity: a bright square on noise, the larger, the more severe."""

from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cbir.descriptors import get as descriptor
from cbir.images import read_images
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record

SIDE = 32

torch.set_num_threads(1)  # the work is small, and other tests want the cores


def draw(count: int, seed: int = 0, levels: int = 4) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Pictures (count, 32, 32) and their grades (count,), from 0 on."""
    random = np.random.default_rng(seed)
    grades = random.integers(0, levels, count)
    pictures = random.normal(70, 15, (count, SIDE, SIDE))
    for picture, grade in zip(pictures, grades, strict=True):
        size = 4 + 4 * int(grade)
        top, left = random.integers(2, SIDE - 2 - size, 2)
        picture[top : top + size, left : left + size] += 110
    return pictures.clip(0, 255).astype(np.uint8), grades.astype(float)


def judged(
    grades: NDArray[np.float64], count: int, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Random pairs (count, 2) of these images, and what an annotator without error says of them."""
    random = np.random.default_rng(seed)
    pairs = np.array([random.choice(len(grades), 2, replace=False) for _ in range(count)])
    return pairs, (1 + np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]])) / 2


def collection_of(folder: Path, pictures: NDArray[np.uint8], grades: NDArray[np.float64]) -> Collection:
    """A collection of these images, three to a patient, with their grades as labels; the files lie beside it."""
    made = Collection.create(folder / "collection", profiles.get("tamura"))
    entries = []
    for number, (picture, grade) in enumerate(zip(pictures, grades, strict=True)):
        path = folder / f"{number}.png"
        cv2.imwrite(str(path), picture)
        image = next(iter(read_images(path)))
        found = describe_record(image, source=str(path), source_stamp="1", secret=made.secret)
        said = {"patient": f"P{number // 3}", "grade": f"{grade:g}"}
        entries.append((add_labels(found, said, made.secret), descriptor("tamura")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made
