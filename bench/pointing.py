"""Pointing game: does the map of what matches point at a cut-out in a changed copy of its image?

    python bench/pointing.py COLLECTION [--sample 600] [--seed 0]

A region of an image (a quarter to 45 % of each side, not blank) is looked for in the image itself, and in a changed
one: smaller (60 to 90 %), elsewhere on black, in other brightness and contrast. A hit is a maximum of the map within
the region. The query is the region in its image, as the page's crop, or the cut-out as a file of its own.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.descriptors.encoders import Encoder
from cbir.images import Image
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search.explanation import explaining_encoder
from cbir.search.feature_cells import (
    Area,
    FeatureCells,
    best_match_maps,
    cells_by_scale,
    feature_cells,
    match_maps,
)
from cbir.store import Collection

SIDES = 0.25, 0.45  # shares of a region
LEAST_DEVIATION = 15  # grey levels, of a region that is not blank
LEAST_LIGHT = 0.5  # of its pixels above DARK
DARK = 20
TRIES = 20

Pixels = NDArray[np.uint8]


class Case(NamedTuple):
    """A region of an image as shares of it, and where it is in the changed image."""

    image: Pixels
    region: Area
    changed: Pixels
    target: Area


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--sample", type=int, default=600, help="images to cut out of")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def draw_region(pixels: Pixels, random: np.random.Generator) -> Area | None:
    """Return a region that is not blank, None if none was drawn."""
    height, width = pixels.shape[:2]
    for _ in range(TRIES):
        across, down = (max(1, round(random.uniform(*SIDES) * side)) for side in (width, height))
        x, y = (int(random.integers(0, most + 1)) for most in (width - across, height - down))
        part = pixels[y : y + down, x : x + across]
        if part.std() >= LEAST_DEVIATION and (part > DARK).mean() > LEAST_LIGHT:
            return x / width, y / height, across / width, down / height
    return None


def change(pixels: Pixels, region: Area, random: np.random.Generator) -> tuple[Pixels, Area]:
    """Return the image smaller, elsewhere on black and in other brightness, and where the region is then."""
    height, width = pixels.shape[:2]
    scale = random.uniform(0.6, 0.9)
    across, down = max(1, int(width * scale)), max(1, int(height * scale))
    bright = 255 * (pixels / 255.0) ** random.uniform(0.7, 1.4) * random.uniform(0.8, 1.2)
    small = cv2.resize(np.clip(bright, 0, 255).astype(np.uint8), (across, down), interpolation=cv2.INTER_AREA)
    x, y = (int(random.integers(0, most + 1)) for most in (width - across, height - down))
    changed = np.zeros_like(pixels)
    changed[y : y + down, x : x + across] = small
    left, top, wide, high = region
    x_scale, y_scale = across / width, down / height
    return changed, (x / width + left * x_scale, y / height + top * y_scale, wide * x_scale, high * y_scale)


def draw_cases(collection: Collection, count: int, seed: int) -> Iterator[Case]:
    random = np.random.default_rng(seed)
    records = [record for _, record in collection.iterate()]
    found, most = 0, settings.load().max_pixels
    for index in random.permutation(len(records)):
        image = read_stored_image(collection, records[index], most)
        region = None if image is None else draw_region(image.pixels, random)
        if image is None or region is None:
            continue
        yield Case(image.pixels, region, *change(image.pixels, region, random))
        found += 1
        if found == count:
            return


def cells_of(encoder: Encoder, pixels: Pixels) -> FeatureCells:
    image = Image(np.ascontiguousarray(pixels))
    return feature_cells(encoder, encoder.prepare(image), image.width, image.height)


def is_hit(values: NDArray[np.float32], target: Area) -> bool:
    row, column = divmod(int(values.argmax()), values.shape[1])
    x, y = (column + 0.5) / values.shape[1], (row + 0.5) / values.shape[0]
    return target[0] <= x <= target[0] + target[2] and target[1] <= y <= target[1] + target[3]


def cut(case: Case) -> Pixels:
    height, width = case.image.shape[:2]
    x, y, across, down = (round(v * s) for v, s in zip(case.region, (width, height) * 2, strict=True))
    return case.image[y : y + down, x : x + across]


def interval(hits: list[bool]) -> tuple[float, float]:
    """Return the 95 % interval of Wilson 1927."""
    count, share, z = len(hits), float(np.mean(hits)), 1.96
    middle, spread = (
        share + z * z / (2 * count),
        z * np.sqrt(share * (1 - share) / count + (z / 2 / count) ** 2),
    )
    return (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)


def main() -> None:
    arguments = options()
    cv2.setNumThreads(1)
    hits: defaultdict[str, list[bool]] = defaultdict(list)
    boxes, milliseconds = list[float](), list[float]()
    with Collection(arguments.collection) as collection:
        encoder = explaining_encoder(collection.profile)
        if encoder is None:
            raise SystemExit("the collection has no encoder: there are no maps to measure")
        for case in draw_cases(collection, arguments.sample, arguments.seed):
            whole, file = cells_of(encoder, case.image), Image(np.ascontiguousarray(cut(case)))
            parts = cells_by_scale(encoder, encoder.prepare(file), file.width, file.height)
            started = time.process_time()
            changed = cells_of(encoder, case.changed)
            maps = match_maps(whole, changed, case.region)
            milliseconds.append((time.process_time() - started) * 1000)
            hits["region, changed image"].append(is_hit(maps.answer, case.target))
            hits["region, same image"].append(
                is_hit(match_maps(whole, whole, case.region).answer, case.region)
            )
            hits["file at its size, same image"].append(
                is_hit(match_maps(parts[0], whole).answer, case.region)
            )
            hits["file at its size, changed image"].append(
                is_hit(match_maps(parts[0], changed).answer, case.target)
            )
            hits["file, same image"].append(is_hit(best_match_maps(parts, whole).answer, case.region))
            started = time.process_time()
            found = best_match_maps(parts, changed)
            milliseconds[-1] += (time.process_time() - started) * 1000  # more than either kind of query takes
            hits["file, changed image"].append(is_hit(found.answer, case.target))
            boxes += [case.region[2] * case.region[3], case.target[2] * case.target[3]]
    chance = float(np.mean(boxes[::2])), float(np.mean(boxes[1::2]))
    print(
        f"images: {len(milliseconds)}; chance {chance[0]:.3f} in the same image, {chance[1]:.3f} in the changed one"
    )
    median, late = np.percentile(milliseconds, [50, 95])
    print(f"ms of CPU an answer: median {median:.1f}, 95th percentile {late:.1f}")
    print("| query and answer | hits | 95 % interval |\n| --- | --- | --- |")
    for name, found in hits.items():
        low, high = interval(found)
        print(f"| {name} | {np.mean(found):.3f} | {low:.3f} to {high:.3f} |")
    shares = {name: round(float(np.mean(found)), 4) for name, found in hits.items()}
    print(json.dumps({"pointing": shares, "images": len(milliseconds), "chance": chance}))


if __name__ == "__main__":
    main()
