"""Compare encoders: retrieval quality on labelled images, and time per image on one core.

Takes every n-th image of each label. Vectors of an encoder are rounded to float16, centred, reduced to 128 dimensions
by a PCA of these images, and brought to length 1; those of huang2012 are standardised. An image is ranked against all
others but those of its patient, by cosine; mAP and P@1 count every label alike. With --turn, each image is first
rotated by 0, 90, 180 or 270 degrees and mirrored or not, at random: what is left if places mean nothing.

With --cells, 80 coloured drawings of blood cells of each of five kinds take the place of the folder. Vectors are
centred without a PCA, as in a collection of fewer than 1,000 images.

With --by COLUMN, a second table has the mean over the images of each value of that column, such as modality.

    OMP_NUM_THREADS=1 python bench/encoders.py FOLDER [--encoders lite0 lite0-max] [--every 4] [--turn] [--by COLUMN]
    OMP_NUM_THREADS=1 python bench/encoders.py --cells [--encoders lite0 lite0-whole]
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
from cell_phantoms import draw_cells
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from cbir import descriptors
from cbir.descriptors.descriptor import Descriptor
from cbir.images import Image, decode, from_array, read_images

BASELINE = "huang2012"
DIMENSIONS = 128  # of the PCA
LEAST_IMAGES = 1000  # for a PCA
CELLS, CELL_SIDE = 80, 240  # of each kind; pixels
SPEED_SIDE, SPEED_COUNT, REPEATS = 512, 8, 8


def select_rows(folder: Path, every: int) -> list[dict[str, str]]:
    """Return every n-th row of each label of the manifest."""
    by_label: dict[str, list[dict[str, str]]] = {}
    with (folder / "manifest.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            by_label.setdefault(row["label"], []).append(row)
    return [row for label in sorted(by_label) for row in by_label[label][::every]]


def load(name: str) -> Descriptor:
    """Load an encoder as a descriptor, or the baseline."""
    return descriptors.get(descriptors.resolve_descriptor(name).name)


def turned(image: Image, random: np.random.Generator) -> Image:
    """Rotate by a random multiple of 90 degrees, and mirror half of the images."""
    pixels = np.rot90(image.pixels, random.integers(4))
    return from_array(np.ascontiguousarray(pixels[:, ::-1] if random.integers(2) else pixels))


def project(vectors: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Normalise raw vectors as the docstring of this module says."""
    if name == BASELINE:
        vectors = (vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-6)
    else:
        vectors = vectors.astype(np.float16).astype(np.float32)
        if len(vectors) < LEAST_IMAGES:
            vectors -= vectors.mean(axis=0)
        else:
            vectors = PCA(DIMENSIONS, svd_solver="covariance_eigh").fit_transform(vectors)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def score(vectors: NDArray[np.float32], rows: list[dict[str, str]]) -> NDArray[np.float64]:
    """Return AP and P@1 of each image, (n, 2); NaN for those without a relevant image."""
    labels = np.unique([row["label"] for row in rows], return_inverse=True)[1]
    patients = np.array([row["patient"] and f"{row['source']} {row['patient']}" for row in rows])
    scores = np.full((len(rows), 2), np.nan)
    for position, vector in enumerate(vectors):
        left_out = (patients == patients[position]) & (patients != "")
        left_out[position] = True
        candidates = np.flatnonzero(~left_out)
        order = candidates[np.argsort(-(vectors[candidates] @ vector), kind="stable")]
        ranks = np.flatnonzero(labels[order] == labels[position])
        if len(ranks):
            precision = (np.arange(1, len(ranks) + 1) / (ranks + 1)).mean()
            scores[position] = precision, ranks[0] == 0
    return scores


def group_means(
    scores: NDArray[np.float64], rows: list[dict[str, str]], column: str
) -> dict[str, tuple[int, float, float]]:
    """Return the number of images that have a score, mAP and P@1 of each value of a column."""
    values = np.array([row[column] for row in rows])
    groups = {value: scores[(values == value) & ~np.isnan(scores[:, 0])] for value in np.unique(values)}
    return {value: (len(each), *each.mean(axis=0)) for value, each in groups.items() if len(each)}


def milliseconds(names: list[str]) -> dict[str, float]:
    """Return the CPU time to decode and describe a PNG of 512 x 512 pixels: the fastest of runs that take turns."""
    random = np.random.default_rng(0)
    files = [
        cv2.imencode(
            ".png", cv2.GaussianBlur(random.integers(0, 256, (SPEED_SIDE,) * 2, np.uint8), (0, 0), 3)
        )[1]
        for _ in range(SPEED_COUNT)
    ]
    describers, best = {name: load(name) for name in names}, dict.fromkeys(names, float("inf"))
    for _ in range(REPEATS):
        for name, describe in describers.items():
            started = time.process_time()
            for content in files:
                describe(next(iter(decode(content.tobytes()))))
            best[name] = min(best[name], 1000 * (time.process_time() - started) / SPEED_COUNT)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "images", type=Path, nargs="?", help="folder with manifest.csv: path, label, patient, source"
    )
    parser.add_argument("--cells", action="store_true", help="describe drawings of coloured cells instead")
    parser.add_argument(
        "--encoders", nargs="+", default=["lite0", "lite0-whole", "lite0-global", "lite0-max"]
    )
    parser.add_argument("--every", type=int, default=4, help="take every n-th image of each label")
    parser.add_argument("--by", metavar="COLUMN", help="also the mean of each value of this column")
    parser.add_argument("--turn", action="store_true", help="rotate and mirror the images at random")
    options = parser.parse_args()
    if options.cells == bool(options.images):
        parser.error("give a folder or --cells")
    cv2.setNumThreads(1)
    cells = draw_cells(CELLS, CELL_SIDE, seed=1) if options.cells else []
    rows = [{"label": kind, "patient": ""} for kind, _ in cells] or select_rows(options.images, options.every)
    print(
        f"{len(rows)} images\n\n| encoder | values | mAP | P@1 | ms | times huang2012 |\n{'| --- ' * 6}|",
        flush=True,
    )
    names, results, groups = [BASELINE, *options.encoders], [], []
    times = milliseconds(names)
    for name in names:
        describe, random = load(name), np.random.default_rng(0)
        images = (
            (from_array(pixels) for _, pixels in cells)
            if cells
            else (next(iter(read_images(options.images / row["path"]))) for row in rows)
        )
        images = (turned(image, random) for image in images) if options.turn else images
        vectors = np.array([describe(image) for image in images])
        scores = score(project(vectors, name), rows)
        by_label = group_means(scores, rows, "label").values()
        mean, first = (float(np.mean([each[place] for each in by_label])) for place in (1, 2))
        if options.by:
            groups += [(value, name, *each) for value, each in group_means(scores, rows, options.by).items()]
        results.append(
            {"encoder": name, "values": vectors.shape[1], "map": mean, "p1": first, "ms": times[name]}
        )
        print(f"| {name} | {vectors.shape[1]:,} | {mean:.3f} | {first:.3f} | {times[name]:.1f} "
              f"| {times[name] / times[BASELINE]:.2f} |", flush=True)  # fmt: skip
    if options.by:
        print(f"\n| {options.by} | encoder | images | mAP | P@1 |\n{'| --- ' * 5}|")
        for value, name, count, mean, first in sorted(groups, key=lambda each: each[0]):
            print(f"| {value} | {name} | {count:,} | {mean:.3f} | {first:.3f} |")
    print("\n" + json.dumps({"images": len(rows), "turned": options.turn, "encoders": results}))


if __name__ == "__main__":
    main()
